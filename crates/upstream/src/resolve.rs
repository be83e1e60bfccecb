//! Who turns names into addresses.

use std::{
    io,
    net::{IpAddr, ToSocketAddrs as _},
    sync::Arc,
};

use async_trait::async_trait;
use tokio::{sync::Semaphore, task::spawn_blocking};

/// How many names are looked up at once. A look cannot be called off, and one for which nobody waits any more
/// still has its thread, of which everybody has a share.
const MAX_LOOKUPS: usize = 64;

/// Turns a name into addresses. It is asked once for each request and each redirect; what it answers is
/// checked, and connected to.
#[async_trait]
pub trait Resolve: Send + Sync {
    /// All addresses of a name.
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>>;
}

/// The resolver of the system.
#[derive(Debug, Clone)]
pub struct SystemResolver {
    lookups: Arc<Semaphore>,
}

impl Default for SystemResolver {
    fn default() -> Self {
        Self { lookups: Arc::new(Semaphore::new(MAX_LOOKUPS)) }
    }
}

impl SystemResolver {
    /// Runs a look when there is room for one more. The room is taken until the look has ended, whether or
    /// not somebody still waits for it.
    async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let room = Arc::clone(&self.lookups).acquire_owned().await.map_err(io::Error::other)?;
        let look = move || {
            let _room = room;
            look()
        };
        spawn_blocking(look).await.map_err(io::Error::other)?
    }
}

#[async_trait]
impl Resolve for SystemResolver {
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        let host = host.to_owned();
        let look = move || Ok((host.as_str(), 0).to_socket_addrs()?.map(|it| it.ip()).collect());
        self.look(look).await
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, time::Duration};

    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn a_look_that_was_given_up_still_takes_its_room() {
        let resolver = SystemResolver { lookups: Arc::new(Semaphore::new(1)) };
        let (go_on, waits) = mpsc::channel::<()>();
        let (began, begun) = tokio::sync::oneshot::channel();
        let endless = resolver.look(move || {
            let _ = began.send(());
            waits.recv().map_err(io::Error::other)
        });
        // It is given up as soon as it has begun.
        tokio::select! {
            _ = endless => unreachable!("nobody lets it end"),
            begun = begun => begun.unwrap(),
        }
        let short = Duration::from_millis(50);
        assert!(timeout(short, resolver.look(|| Ok(1))).await.is_err());
        go_on.send(()).unwrap();
        assert_eq!(resolver.look(|| Ok(2)).await.unwrap(), 2);
    }

    #[tokio::test]
    async fn an_address_is_its_own() {
        let found = SystemResolver::default().resolve("127.0.0.1").await.unwrap();
        assert_eq!(found, ["127.0.0.1".parse::<IpAddr>().unwrap()]);
    }
}
