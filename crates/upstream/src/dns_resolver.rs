//! DNS lookup of host names.

use std::{
    io,
    net::{IpAddr, ToSocketAddrs as _},
};

use async_trait::async_trait;
use skills_core::{WorkAccount, WorkKind};

/// A lookup cannot be cancelled: it occupies its thread even if its request is gone.
const LOOKUP: WorkKind = WorkKind::lookup("lookup of a host name");

/// Resolves host names. It is called once for each request and each redirect; the result is checked and connected to.
#[async_trait]
pub trait DnsResolver: Send + Sync {
    /// Returns all addresses of a name.
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>>;
}

/// Resolver of the operating system. Lookups count against the account of the current request.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

#[async_trait]
impl DnsResolver for SystemResolver {
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        let host = host.to_owned();
        let look_up = move || Ok((host.as_str(), 0).to_socket_addrs()?.map(|it| it.ip()).collect());
        let found = WorkAccount::current().run(LOOKUP, 0, move |_| look_up()).await;
        found.map_err(io::Error::other)?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_address_resolves_to_itself() {
        let found = SystemResolver.resolve("127.0.0.1").await.unwrap();
        assert_eq!(found, ["127.0.0.1".parse::<IpAddr>().unwrap()]);
    }
}
