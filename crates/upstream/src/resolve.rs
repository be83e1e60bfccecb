//! Who turns names into addresses.

use std::{io, net::IpAddr};

use async_trait::async_trait;

/// Turns a name into addresses. It is asked once for each request and each redirect; what it answers is
/// checked, and connected to.
#[async_trait]
pub trait Resolve: Send + Sync {
    /// All addresses of a name.
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>>;
}

/// The resolver of the system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

#[async_trait]
impl Resolve for SystemResolver {
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        let found = tokio::net::lookup_host((host, 0)).await?;
        Ok(found.map(|address| address.ip()).collect())
    }
}
