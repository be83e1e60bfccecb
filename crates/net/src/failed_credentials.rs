//! Counter of refused credentials by client network, against guessing: further refusals are delayed and logged.
//!
//! An accepted credential is never counted and never delayed, also from a network that guesses: a proxy or a router may
//! stand for many clients. So guessing is slowed down, not prevented; a credential has to be long.

use std::{net::IpAddr, num::NonZeroUsize, sync::Arc, time::Duration};

use axum::http::Extensions;
use lru::LruCache;
use parking_lot::Mutex;
use skills_core::LogLimiter;
use tokio::time::{Instant, sleep_until};

use crate::{ConnectionAddresses, connection_limiter::WeakConnectionSlot, host_network};

/// Refusals of a network in one period that are answered at once: typing errors, and a client with an old key.
const ALLOWANCE: u64 = 10;
/// Time after which a network has its allowance again.
const PERIOD: Duration = Duration::from_secs(60);
/// Time between two further refusals of a network, however many connections it has: twenty a second.
const INTERVAL: Duration = Duration::from_millis(50);
/// Longest delay of a refusal.
const MAX_DELAY: Duration = Duration::from_secs(1);
/// Networks that are counted; then the one without a refusal for the longest time is forgotten.
const MAX_NETWORKS: NonZeroUsize = NonZeroUsize::new(4096).unwrap();
/// Log lines about all networks in one period.
const MAX_LINES: u32 = 30;

/// Counter of refused credentials; clones share it.
#[derive(Clone)]
pub struct FailedCredentials(Arc<Shared>);

struct Shared {
    networks: Mutex<LruCache<IpAddr, Refusals>>,
    log: LogLimiter,
}

/// Refusals of one network in the present period.
struct Refusals {
    since: Instant,
    count: u64,
    /// Time of the last delayed answer.
    answered: Instant,
}

impl Default for FailedCredentials {
    fn default() -> Self {
        let networks = Mutex::new(LruCache::new(MAX_NETWORKS));
        Self(Arc::new(Shared { networks, log: LogLimiter::new(MAX_LINES, PERIOD) }))
    }
}

/// A counter is no setting: configurations with different ones are equal.
impl PartialEq for FailedCredentials {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for FailedCredentials {}

impl std::fmt::Debug for FailedCredentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FailedCredentials").finish_non_exhaustive()
    }
}

/// Client that presents a credential.
#[derive(Debug, Clone)]
pub struct CredentialClient {
    address: Option<IpAddr>,
    slot: Option<WeakConnectionSlot>,
}

impl CredentialClient {
    /// Returns the client of a request on an [`HttpServer`](crate::HttpServer).
    #[must_use]
    pub fn from_extensions(extensions: &Extensions) -> Self {
        let addresses = extensions.get::<ConnectionAddresses>();
        let slot = extensions.get::<WeakConnectionSlot>().cloned();
        Self { address: addresses.map(|addresses| addresses.peer.ip()), slot }
    }

    /// Creates the client at an address, if it is known.
    #[must_use]
    pub const fn at(address: Option<IpAddr>) -> Self {
        Self { address, slot: None }
    }
}

impl FailedCredentials {
    /// Counts a credential that a surface refuses, and returns when the refusal may be sent. Until then the connection
    /// of the client may be evicted.
    pub async fn refuse(&self, surface: &'static str, client: &CredentialClient) {
        let Some(answer_at) = self.count(surface, client.address) else { return };
        if let Some(slot) = client.slot.as_ref().and_then(WeakConnectionSlot::upgrade) {
            slot.allow_eviction();
        }
        sleep_until(answer_at).await;
    }

    /// Counts a refusal. Returns the time of its answer, if it has to be delayed. Clients without an address, as in tests, are one network.
    fn count(&self, surface: &'static str, address: Option<IpAddr>) -> Option<Instant> {
        let network = host_network(address.unwrap_or(IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED)));
        let now = Instant::now();
        let (count, answer_at) = {
            let mut networks = self.0.networks.lock();
            let first = || Refusals { since: now, count: 0, answered: now };
            let refusals = networks.get_or_insert_mut(network, first);
            if now.duration_since(refusals.since) >= PERIOD {
                *refusals = first();
            }
            refusals.count += 1;
            let answer_at = (refusals.count > ALLOWANCE).then(|| {
                refusals.answered = (refusals.answered.max(now) + INTERVAL).min(now + MAX_DELAY);
                refusals.answered
            });
            (refusals.count, answer_at)
        };
        if is_logged(count)
            && let Some(suppressed) = self.0.log.check(now.into_std())
        {
            tracing::warn!(surface, address = %network, count, suppressed, "credentials refused");
        }
        answer_at
    }
}

/// Returns whether a count is logged: the allowance, and every tenfold of it in the same period.
fn is_logged(count: u64) -> bool {
    let mut step = ALLOWANCE;
    while step < count {
        step = step.saturating_mul(10);
    }
    step == count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(address: &str) -> CredentialClient {
        CredentialClient::at(Some(address.parse().unwrap()))
    }

    /// Returns the seconds that this many refusals take.
    async fn seconds(failed: &FailedCredentials, address: &str, refusals: u64) -> u64 {
        let start = Instant::now();
        for _ in 0..refusals {
            failed.refuse("test", &client(address)).await;
        }
        start.elapsed().as_secs()
    }

    #[tokio::test(start_paused = true)]
    async fn refusals_beyond_the_allowance_of_a_network_are_delayed() {
        let failed = FailedCredentials::default();
        assert_eq!(seconds(&failed, "2001:db8::1", ALLOWANCE).await, 0);
        assert_eq!(seconds(&failed, "2001:db8::2", 60).await, 3, "the same network");
        assert_eq!(seconds(&failed, "192.0.2.1", ALLOWANCE).await, 0, "another network");
        tokio::time::sleep(PERIOD).await;
        assert_eq!(seconds(&failed, "2001:db8::1", ALLOWANCE + 20).await, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn guesses_on_many_connections_are_answered_no_faster_than_on_one() {
        let failed = FailedCredentials::default();
        let guess = async || {
            for _ in 0..20 {
                failed.refuse("test", &client("192.0.2.1")).await;
            }
        };
        let start = Instant::now();
        futures_util::future::join_all((0..10).map(|_| guess())).await;
        assert!(start.elapsed() >= INTERVAL * (200 - 10), "{:?}", start.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn the_table_of_networks_is_bounded() {
        let failed = FailedCredentials::default();
        seconds(&failed, "192.0.2.1", ALLOWANCE).await;
        for number in 0..MAX_NETWORKS.get() {
            let address = std::net::Ipv4Addr::from_bits(u32::try_from(number).unwrap());
            failed.refuse("test", &CredentialClient::at(Some(address.into()))).await;
        }
        assert_eq!(failed.0.networks.lock().len(), MAX_NETWORKS.get());
        assert_eq!(seconds(&failed, "192.0.2.1", 1).await, 0, "it was forgotten");
    }

    #[test]
    fn each_order_of_magnitude_is_logged_once() {
        let logged: Vec<_> = (1..=100_000).filter(|count| is_logged(*count)).collect();
        assert_eq!(logged, [10, 100, 1000, 10_000, 100_000]);
    }
}
