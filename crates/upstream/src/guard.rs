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
    /// Checks a URL and finds its addresses. One forbidden address is enough to refuse them all: which of
    /// them is connected to would be chance.
    pub(crate) async fn target(&self, url: &Url) -> Result<Target, ExecuteError> {
        let shown = || url.host_str().unwrap_or_default().to_owned();
        if !url.username().is_empty() || url.password().is_some() {
            return Err(ExecuteError::invalid("a URL must not hold a user or a password"));
        }
        let Some(origin) = Origin::of(url) else {
            return Err(ExecuteError::NotHttps { host: shown() });
        };
        let is_allowed = self.allow.contains(&origin);
        if self.https_only && !origin.is_https && !is_allowed {
            return Err(ExecuteError::NotHttps { host: shown() });
        }
        let addresses = self.addresses(&origin).await?;
        if !is_allowed && !addresses.iter().copied().all(is_public) {
            return Err(ExecuteError::RefusedAddress { host: shown() });
        }
        let port = origin.port;
        let addresses = addresses.into_iter().map(|it| SocketAddr::new(it, port)).collect();
        Ok(Target { origin, addresses })
    }

    async fn addresses(&self, origin: &Origin) -> Result<Vec<IpAddr>, ExecuteError> {
        let name = match &origin.host {
            Host::Ipv4(address) => return Ok(vec![(*address).into()]),
            Host::Ipv6(address) => return Ok(vec![(*address).into()]),
            Host::Domain(name) => name,
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
