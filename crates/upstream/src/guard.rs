//! What may be connected to. Every request and every redirect passes here.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use url::{Host, Url};

use crate::{ExecuteError, Origin, Resolve, address::is_public};

/// The rules on addresses.
pub(crate) struct Guard {
    pub(crate) allow: Vec<Origin>,
    pub(crate) https_only: bool,
    pub(crate) resolver: Arc<dyn Resolve>,
}

/// Something that may be connected to, at addresses that were checked.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) origin: Origin,
    /// Not empty. The name is not looked up again: what it means now may not be what was checked.
    pub(crate) addresses: Vec<SocketAddr>,
}

impl Guard {
    /// Checks a URL as far as it goes without asking anybody; tells its origin, and whether that is exempt.
    /// `also` are origins that are exempt this time.
    pub(crate) fn origin(
        &self,
        url: &Url,
        also: &[Origin],
    ) -> Result<(Origin, bool), ExecuteError> {
        if !url.username().is_empty() || url.password().is_some() {
            return Err(ExecuteError::invalid("a URL must not hold a user or a password"));
        }
        let not_https = || ExecuteError::NotHttps { host: shown(url) };
        let origin = Origin::of(url).ok_or_else(not_https)?;
        let is_exempt = self.allow.contains(&origin) || also.contains(&origin);
        if self.https_only && !origin.is_https && !is_exempt {
            return Err(not_https());
        }
        if !is_exempt && literal(&origin).is_some_and(|address| !is_public(address)) {
            return Err(ExecuteError::RefusedAddress { host: shown(url) });
        }
        Ok((origin, is_exempt))
    }

    /// Checks a URL and finds its addresses. One forbidden address is enough to refuse them all: which of
    /// them is connected to would be chance.
    pub(crate) async fn target(&self, url: &Url, also: &[Origin]) -> Result<Target, ExecuteError> {
        let (origin, is_exempt) = self.origin(url, also)?;
        let addresses = self.addresses(&origin).await?;
        if !is_exempt && !addresses.iter().copied().all(is_public) {
            return Err(ExecuteError::RefusedAddress { host: shown(url) });
        }
        let port = origin.port;
        let addresses = addresses.into_iter().map(|it| SocketAddr::new(it, port)).collect();
        Ok(Target { origin, addresses })
    }

    async fn addresses(&self, origin: &Origin) -> Result<Vec<IpAddr>, ExecuteError> {
        let name = match (literal(origin), &origin.host) {
            (None, Host::Domain(name)) => name,
            (address, _) => return Ok(address.into_iter().collect()),
        };
        let failed = |reason: String| ExecuteError::Connect { host: name.clone(), reason };
        let found = self.resolver.resolve(name).await;
        let found = found.map_err(|error| failed(format!("its name is not resolved: {error}")))?;
        if found.is_empty() {
            return Err(failed("its name has no address".to_owned()));
        }
        Ok(found)
    }
}

/// The address that is written out where a name could be.
fn literal(origin: &Origin) -> Option<IpAddr> {
    match &origin.host {
        Host::Ipv4(address) => Some((*address).into()),
        Host::Ipv6(address) => Some((*address).into()),
        Host::Domain(_) => None,
    }
}

fn shown(url: &Url) -> String {
    url.host_str().unwrap_or_default().to_owned()
}
