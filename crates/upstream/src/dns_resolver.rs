//! DNS lookup of host names.

use std::{
    collections::HashMap,
    io,
    net::{IpAddr, ToSocketAddrs as _},
    sync::{Arc, Mutex, PoisonError, Weak},
};

use async_trait::async_trait;
use tokio::{sync::Semaphore, task::spawn_blocking};

/// Maximum concurrent lookups. A lookup cannot be cancelled: it occupies its thread even if its request is gone.
const MAX_LOOKUPS: usize = 64;

/// Maximum concurrent lookups of one owner, so that slow names of one leave capacity for others.
const MAX_LOOKUPS_PER_OWNER: usize = 8;

/// Resolves host names. It is called once for each request and each redirect; the result is checked and connected to.
#[async_trait]
pub trait DnsResolver: Send + Sync {
    /// Returns all addresses of a name. The lookup counts against the share of `owner`.
    async fn resolve(&self, host: &str, owner: &str) -> io::Result<Vec<IpAddr>>;
}

/// Resolver of the operating system.
#[derive(Debug, Clone)]
pub struct SystemResolver {
    lookups: Arc<Semaphore>,
    shares: Arc<Mutex<Shares>>,
}

/// Semaphores of owners with a running lookup; each is dropped with its last lookup.
#[derive(Debug, Default)]
struct Shares(HashMap<String, Weak<Semaphore>>);

impl Shares {
    fn get(&mut self, owner: &str) -> Arc<Semaphore> {
        if let Some(share) = self.0.get(owner).and_then(Weak::upgrade) {
            return share;
        }
        self.0.retain(|_, share| share.strong_count() > 0);
        let share = Arc::new(Semaphore::new(MAX_LOOKUPS_PER_OWNER));
        self.0.insert(owner.to_owned(), Arc::downgrade(&share));
        share
    }
}

impl Default for SystemResolver {
    fn default() -> Self {
        Self { lookups: Arc::new(Semaphore::new(MAX_LOOKUPS)), shares: Arc::default() }
    }
}

impl SystemResolver {
    /// Runs a lookup on a blocking thread when a permit is free. The permit is held until the lookup has ended, even if
    /// its caller is gone.
    async fn run_lookup<T: Send + 'static>(
        &self,
        owner: &str,
        lookup: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let share = self.shares.lock().unwrap_or_else(PoisonError::into_inner).get(owner);
        // The owner's permit first: a lookup that waits for it must not block others.
        let owner_permit = share.acquire_owned().await.map_err(io::Error::other)?;
        let permit = Arc::clone(&self.lookups).acquire_owned().await.map_err(io::Error::other)?;
        let lookup = move || {
            let _permits = (owner_permit, permit);
            lookup()
        };
        spawn_blocking(lookup).await.map_err(io::Error::other)?
    }
}

#[async_trait]
impl DnsResolver for SystemResolver {
    async fn resolve(&self, host: &str, owner: &str) -> io::Result<Vec<IpAddr>> {
        let host = host.to_owned();
        let lookup = move || Ok((host.as_str(), 0).to_socket_addrs()?.map(|it| it.ip()).collect());
        self.run_lookup(owner, lookup).await
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, time::Duration};

    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn an_abandoned_lookup_still_holds_its_permit() {
        let resolver =
            SystemResolver { lookups: Arc::new(Semaphore::new(1)), ..SystemResolver::default() };
        let (go_on, waits) = mpsc::channel::<()>();
        let (began, begun) = tokio::sync::oneshot::channel();
        let endless = resolver.run_lookup("ann", move || {
            let _ = began.send(());
            waits.recv().map_err(io::Error::other)
        });
        // Abandoned as soon as it has begun.
        tokio::select! {
            _ = endless => unreachable!("it does not end by itself"),
            begun = begun => begun.unwrap(),
        }
        let short = Duration::from_millis(50);
        assert!(timeout(short, resolver.run_lookup("bob", || Ok(1))).await.is_err());
        go_on.send(()).unwrap();
        assert_eq!(resolver.run_lookup("bob", || Ok(2)).await.unwrap(), 2);
    }

    #[tokio::test]
    async fn one_owner_cannot_take_all_lookups() {
        let resolver = SystemResolver::default();
        let (go_on, waits) = mpsc::channel::<()>();
        let waits = Arc::new(Mutex::new(waits));
        let mut slow = tokio::task::JoinSet::new();
        for _ in 0..2 * MAX_LOOKUPS {
            let (resolver, waits) = (resolver.clone(), Arc::clone(&waits));
            slow.spawn(async move {
                resolver.run_lookup("ann", move || Ok(waits.lock().unwrap().recv().is_ok())).await
            });
        }
        while resolver.lookups.available_permits() > MAX_LOOKUPS - MAX_LOOKUPS_PER_OWNER {
            tokio::task::yield_now().await;
        }
        for owner in ["bob", ""] {
            assert_eq!(resolver.run_lookup(owner, || Ok(1)).await.unwrap(), 1, "{owner}");
        }
        let taken = MAX_LOOKUPS - resolver.lookups.available_permits();
        assert_eq!(taken, MAX_LOOKUPS_PER_OWNER, "further lookups of ann wait");
        drop(go_on);
        while slow.join_next().await.is_some() {}
        resolver.run_lookup("eve", || Ok(())).await.unwrap();
        assert!(resolver.shares.lock().unwrap().0.len() <= 2, "shares do not pile up");
    }

    #[tokio::test]
    async fn an_address_resolves_to_itself() {
        let found = SystemResolver::default().resolve("127.0.0.1", "").await.unwrap();
        assert_eq!(found, ["127.0.0.1".parse::<IpAddr>().unwrap()]);
    }
}
