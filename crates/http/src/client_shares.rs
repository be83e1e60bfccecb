//! Fair shares: the part of the memory and of the request limit that one client may use, so that others have the rest.
//!
//! A client is a known credential, or else an address. A keyed hash selects an entry of a table of fixed size, whose
//! [account](WorkAccount) is opened with its first request; clients with the same entry share it. Credentials and addresses
//! have separate tables: a client with many networks cannot reach the entries of credentials.

use std::{
    hash::{BuildHasher as _, RandomState},
    net::{IpAddr, Ipv6Addr},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use axum::{extract::Request, http::Extensions};
use skills_core::{Caller, MemoryBudget, WorkAccount, WorkAccounts};
use skills_net::{ConnectionAddresses, host_network};

/// Entries of the table of credentials, and of the table of addresses. Both take about a mebibyte without accounts.
const TABLE_SIZE: usize = 1 << 14;

/// Returns the connections that one address may have: three quarters, since all clients of a proxy have its address.
pub(crate) const fn address_share(total: usize) -> usize {
    total - total / 4
}

/// IP address of the client of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PeerAddress(IpAddr);

impl PeerAddress {
    /// Returns the address of the request's connection; unspecified without one, as in tests.
    pub(crate) fn from_request(request: &Request) -> Self {
        Self(peer_address(request.extensions()))
    }
}

/// Returns the address of a request's connection; unspecified without one, as in tests.
pub(crate) fn peer_address(extensions: &Extensions) -> IpAddr {
    let addresses = extensions.get::<ConnectionAddresses>();
    addresses.map_or(Ipv6Addr::UNSPECIFIED.into(), |addresses| addresses.peer.ip())
}

/// Limits on requests in progress.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestLimits {
    /// Requests of all clients.
    pub(crate) total: usize,
    /// Requests of one client.
    pub(crate) per_client: usize,
}

/// Usage of every client: the table of credentials, followed by that of addresses.
#[derive(Debug)]
pub(crate) struct ClientShares {
    hasher: RandomState,
    accounts: WorkAccounts,
    clients: Box<[ClientUsage]>,
    /// Requests in progress of all clients.
    requests: AtomicUsize,
}

#[derive(Debug, Default)]
struct ClientUsage {
    account: OnceLock<WorkAccount>,
    /// Requests in progress.
    requests: AtomicUsize,
}

/// Request in progress of a client, counted until it is dropped.
pub(crate) struct RequestSlot(Arc<ClientShares>, usize);

impl Drop for RequestSlot {
    fn drop(&mut self) {
        self.0.clients[self.1].requests.fetch_sub(1, Ordering::Relaxed);
        self.0.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

impl ClientShares {
    pub(crate) fn new(budget: &MemoryBudget) -> Arc<Self> {
        let clients = (0..2 * TABLE_SIZE).map(|_| ClientUsage::default()).collect();
        let accounts = WorkAccounts::new(budget.clone());
        let hasher = RandomState::new();
        Arc::new(Self { hasher, accounts, clients, requests: AtomicUsize::new(0) })
    }

    /// Returns the index of the client that sends a request.
    pub(crate) fn client_index(&self, caller: &Caller, peer: PeerAddress) -> usize {
        let (hash, table_start) = match caller {
            Caller::Anonymous => (self.hasher.hash_one(host_network(peer.0)), TABLE_SIZE),
            // A user with several keys is one client.
            Caller::User(user) => (self.hasher.hash_one(&user.owner), 0),
            Caller::Admin(name) => (self.hasher.hash_one(name), 0),
        };
        table_start + usize::try_from(hash % TABLE_SIZE as u64).unwrap_or_default()
    }

    /// Returns the account of a client.
    pub(crate) fn account(&self, client: usize) -> &WorkAccount {
        self.clients[client].account.get_or_init(|| self.accounts.open())
    }

    /// Counts one more request of a client, unless a limit is reached.
    pub(crate) fn try_acquire(
        self: &Arc<Self>,
        client: usize,
        limits: RequestLimits,
    ) -> Option<RequestSlot> {
        try_increment(&self.clients[client].requests, limits.per_client)?;
        if try_increment(&self.requests, limits.total).is_none() {
            self.clients[client].requests.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        Some(RequestSlot(Arc::clone(self), client))
    }
}

/// Adds one to a counter that is below a limit.
fn try_increment(counter: &AtomicUsize, limit: usize) -> Option<()> {
    let one_more = |count: usize| (count < limit).then_some(count + 1);
    counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).ok().map(drop)
}

#[cfg(test)]
mod tests {
    use skills_core::{Digest, User, work::client_share};

    use super::*;

    fn peer(address: &str) -> PeerAddress {
        PeerAddress(address.parse().unwrap())
    }

    #[test]
    fn a_client_is_a_credential_or_an_address() {
        let shares = ClientShares::new(&MemoryBudget::default());
        let anonymous = |address| shares.client_index(&Caller::Anonymous, peer(address));
        assert_eq!(anonymous("10.0.0.1"), anonymous("::ffff:10.0.0.1"));
        assert_eq!(anonymous("2001:db8::1"), anonymous("2001:db8::2"));
        let user =
            |key: &[u8]| Caller::User(User { owner: "ann".parse().unwrap(), key: Digest::of(key) });
        let number = |key, address| shares.client_index(&user(key), peer(address));
        assert_eq!(number(b"1", "10.0.0.1"), number(b"2", "10.0.0.2"));
    }

    #[test]
    fn addresses_and_credentials_have_separate_tables() {
        let shares = ClientShares::new(&MemoryBudget::default());
        let network = |number: u32| PeerAddress(IpAddr::V4(number.into()));
        assert!(
            (0..1000).all(|at| shares.client_index(&Caller::Anonymous, network(at)) >= TABLE_SIZE)
        );
        let user = |at: u32| {
            let owner = format!("user-{at}").parse().unwrap();
            Caller::User(User { owner, key: Digest::of(b"1") })
        };
        assert!((0..1000).all(|at| shares.client_index(&user(at), network(at)) < TABLE_SIZE));
    }

    #[test]
    fn two_clients_leave_a_quarter_of_memory_and_requests_to_others() {
        for (total, share) in [(1, 1), (2, 1), (4, 2), (8, 3), (512, 192), (256 << 20, 96 << 20)] {
            assert_eq!(client_share(total), share, "of {total}");
        }
        let budget = MemoryBudget::default();
        let shares = ClientShares::new(&budget);
        let small = 1 << 10;
        let both: Vec<_> = [1, 2]
            .map(|number| {
                let budget = shares.account(number).memory();
                std::iter::from_fn(|| budget.try_reserve(small).ok()).collect::<Vec<_>>()
            })
            .into();
        assert_eq!(budget.capacity() - budget.reserved(), budget.capacity() / 4);
        drop(both);
    }

    #[test]
    fn a_request_slot_is_released_when_dropped() {
        let shares = ClientShares::new(&MemoryBudget::default());
        let acquire =
            |client| shares.try_acquire(client, RequestLimits { total: 5, per_client: 3 });
        let held: Vec<_> = (0..3).map(|_| acquire(7).unwrap()).collect();
        assert!(acquire(7).is_none(), "the share of one client");
        let others = [acquire(8).unwrap(), acquire(8).unwrap()];
        assert!(acquire(8).is_none() && acquire(9).is_none(), "the limit of all clients");
        drop(held);
        assert!(acquire(7).is_some());
        drop(others);
        assert_eq!(shares.requests.load(Ordering::Relaxed), 0);
        assert!((7..10).all(|client| shares.clients[client].requests.load(Ordering::Relaxed) == 0));
    }
}
