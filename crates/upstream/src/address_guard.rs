//! Rules on the addresses of upstreams, checked for every request and every redirect.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use url::{Host, Url};

use crate::{DnsResolver, UpstreamError, UpstreamOrigin, public_address::is_public, redirect};

/// Guard against requests to addresses outside the public internet (SSRF).
pub(crate) struct AddressGuard {
    pub(crate) allow: Vec<UpstreamOrigin>,
    pub(crate) https_only: bool,
    pub(crate) resolver: Arc<dyn DnsResolver>,
}

/// Checked destination of a request.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) origin: UpstreamOrigin,
    /// Checked addresses; not empty. The name is not looked up again, because it could resolve to another address.
    pub(crate) addresses: Vec<SocketAddr>,
}

impl AddressGuard {
    /// Checks a URL as far as possible without a lookup. Returns its origin, and whether it is exempt from the rules.
    /// `allowed` has the origins that are exempt for this call.
    pub(crate) fn check_url(
        &self,
        url: &Url,
        allowed: &[UpstreamOrigin],
    ) -> Result<(UpstreamOrigin, bool), UpstreamError> {
        if !url.username().is_empty() || url.password().is_some() {
            return Err(UpstreamError::invalid("a URL must not hold a user or a password"));
        }
        let not_https = || UpstreamError::NotHttps { host: host_text(url) };
        let origin = UpstreamOrigin::from_url(url).ok_or_else(not_https)?;
        let is_exempt = self.is_exempt(&origin, allowed);
        if self.https_only && !origin.is_https && !is_exempt {
            return Err(not_https());
        }
        if !is_exempt && ip_literal(&origin.host).is_some_and(|address| !is_public(address)) {
            return Err(UpstreamError::RefusedAddress { host: host_text(url) });
        }
        Ok((origin, is_exempt))
    }

    fn is_exempt(&self, origin: &UpstreamOrigin, allowed: &[UpstreamOrigin]) -> bool {
        self.allow.contains(origin) || allowed.contains(origin)
    }

    /// Refuses a redirect from another origin into an exempt one. The exemption is for tools that name the origin; a
    /// server on the internet must not reach an internal network through a redirect.
    pub(crate) fn check_redirect(
        &self,
        from: Option<&UpstreamOrigin>,
        to: &Url,
        allowed: &[UpstreamOrigin],
    ) -> Result<(), UpstreamError> {
        match UpstreamOrigin::from_url(to) {
            Some(to) if from != Some(&to) && self.is_exempt(&to, allowed) => {
                Err(redirect::refuse("it leads from another origin into an allowed one"))
            }
            _ => Ok(()),
        }
    }

    /// Checks a URL and resolves its host.
    pub(crate) async fn target(
        &self,
        url: &Url,
        allowed: &[UpstreamOrigin],
    ) -> Result<Target, UpstreamError> {
        let (origin, is_exempt) = self.check_url(url, allowed)?;
        let addresses = if is_exempt {
            resolve(&*self.resolver, &origin.host).await?
        } else {
            resolve_public(&*self.resolver, &origin.host).await?
        };
        let port = origin.port;
        let addresses = addresses.into_iter().map(|it| SocketAddr::new(it, port)).collect();
        Ok(Target { origin, addresses })
    }
}

/// Returns the addresses of a host that must be on the public internet. A single other address refuses the host, since which
/// address is used would be chance. The caller connects to these addresses: the name could resolve to others the next time.
///
/// # Errors
/// [`UpstreamError::RefusedAddress`], or when the name cannot be resolved.
pub async fn resolve_public(
    resolver: &dyn DnsResolver,
    host: &Host,
) -> Result<Vec<IpAddr>, UpstreamError> {
    let addresses = resolve(resolver, host).await?;
    if addresses.iter().copied().all(is_public) {
        return Ok(addresses);
    }
    Err(UpstreamError::RefusedAddress { host: host.to_string() })
}

/// Returns the addresses of a host; at least one.
async fn resolve(resolver: &dyn DnsResolver, host: &Host) -> Result<Vec<IpAddr>, UpstreamError> {
    let name = match (ip_literal(host), host) {
        (None, Host::Domain(name)) => name,
        (address, _) => return Ok(address.into_iter().collect()),
    };
    let failed = |reason: String| UpstreamError::Connect { host: name.clone(), reason };
    let found = resolver.resolve(name).await;
    let found = found.map_err(|error| failed(format!("cannot resolve the name: {error}")))?;
    if found.is_empty() {
        return Err(failed("the name has no address".to_owned()));
    }
    Ok(found)
}

/// Returns the address of a host that is an IP literal.
fn ip_literal(host: &Host) -> Option<IpAddr> {
    match host {
        Host::Ipv4(address) => Some((*address).into()),
        Host::Ipv6(address) => Some((*address).into()),
        Host::Domain(_) => None,
    }
}

fn host_text(url: &Url) -> String {
    url.host_str().unwrap_or_default().to_owned()
}
