//! Limits on open connections, in total and per address.
//!
//! A connection takes its slot before anything is read from it and releases it when its last part has ended. At a limit
//! the connection that did nothing for the longest time is evicted, so that connections without a request keep no client
//! out: at the limit of an address one of that address, at the total limit one of the address with the most
//! connections. A connection whose request is answered is never evicted.
//!
//! | phase | entered by | may be evicted |
//! |---|---|---|
//! | idle | accepting the connection, the end of a response | yes |
//! | pending | a request whose body arrives or whose refusal is delayed | later than idle ones |
//! | active | the end of the request's body | no |
//! | established | the handshake of a WebSocket | no |
//!
//! Connections that did not establish anything can have a smaller limit of their own, for servers that only have
//! handshakes. At that limit the oldest of the network with the most of them is evicted, whatever its phase.

use std::{
    collections::{HashMap, VecDeque},
    net::{IpAddr, Ipv6Addr},
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;
use tokio::sync::{Notify, OnceCell};
use tokio_util::sync::CancellationToken;

/// Evicted connections whose tasks have not ended yet; more of them count against the total.
const MAX_CLOSING: usize = 256;

/// Part of a network's connections that one search for candidates may find: searching again for each would let a burst
/// of connections take more time than what it evicts.
const CANDIDATE_PART: usize = 64;

/// Limits on open connections.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionLimits {
    /// Open connections in total.
    pub total: usize,
    /// Open connections from one address of another machine; for IPv6, from one /64 network.
    pub per_address: usize,
    /// Open connections from one loopback address.
    pub per_loopback_address: usize,
    /// Open connections without a finished handshake; `None` for no such limit.
    pub handshakes: Option<usize>,
}

/// Limit that leaves no slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exhausted {
    /// The limit of the address, all of whose connections are in use.
    Address,
    /// The total limit, with all connections in use.
    Total,
}

/// Counter of open connections.
#[derive(Debug)]
pub(crate) struct ConnectionLimiter {
    limits: ConnectionLimits,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    open: Mutex<OpenConnections>,
    /// Signals a released slot, and while somebody waits also a connection that can be evicted.
    released: Notify,
    is_waiting: AtomicBool,
    /// Logical clock, which counts accepted connections: orders connections by their last use.
    clock: AtomicU64,
    /// Advantage of a connection whose body arrives over idle ones, in accepted connections.
    body_grace: u64,
}

#[derive(Debug, Default)]
struct OpenConnections {
    /// Connections without the evicted ones.
    total: usize,
    /// Evicted connections whose slots are not released yet.
    closing: usize,
    /// Connections that did not establish anything.
    handshakes: usize,
    networks: HashMap<IpAddr, Network>,
    candidates: Candidates,
}

#[derive(Debug, Default)]
struct Network {
    connections: HashMap<u64, Arc<Connection>>,
    /// Idle and pending connections.
    evictable: Arc<AtomicUsize>,
    candidates: Candidates,
}

/// Connections to evict next, each with its last use at the time of the search.
type Candidates = VecDeque<(Arc<Connection>, u64)>;

/// State of one connection.
#[derive(Debug)]
struct Connection {
    network: IpAddr,
    number: u64,
    phase: AtomicU8,
    /// Time of the logical clock when the connection was accepted or finished its last response, or a later time if a
    /// body arrives.
    last_use: AtomicU64,
    /// Counter of its network.
    evictable: Arc<AtomicUsize>,
    evicted: CancellationToken,
}

const IDLE: u8 = 0;
const PENDING: u8 = 1;
const ACTIVE: u8 = 2;
const ESTABLISHED: u8 = 3;
const EVICTED: u8 = 4;
/// Phase of a connection that ended without being evicted; it can still be in a list of candidates.
const CLOSED: u8 = 5;

const fn is_evictable(phase: u8) -> bool {
    matches!(phase, IDLE | PENDING)
}

impl Connection {
    /// Changes the phase if it is one of `from`. Returns whether it was.
    fn change(&self, from: &[u8], to: u8) -> bool {
        let next = |phase: u8| from.contains(&phase).then_some(to);
        let changed = self.phase.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next);
        let Ok(before) = changed else { return false };
        match (is_evictable(before), is_evictable(to)) {
            (true, false) => drop(self.evictable.fetch_sub(1, Ordering::Relaxed)),
            (false, true) => drop(self.evictable.fetch_add(1, Ordering::Relaxed)),
            _ => {}
        }
        true
    }

    /// Returns the last use if the connection may be evicted.
    fn evictable_since(&self) -> Option<u64> {
        let phase = self.phase.load(Ordering::SeqCst);
        is_evictable(phase).then(|| self.last_use.load(Ordering::SeqCst))
    }

    fn is_established(&self) -> bool {
        self.phase.load(Ordering::SeqCst) == ESTABLISHED
    }
}

impl Shared {
    fn now(&self) -> u64 {
        self.clock.load(Ordering::Relaxed)
    }

    /// Wakes the task that waits for a slot.
    fn wake(&self) {
        if self.is_waiting.load(Ordering::SeqCst) {
            self.released.notify_one();
        }
    }
}

/// Returns the connections to evict next: of every network at most a part, and no more than that at all.
fn search<'a>(networks: impl Iterator<Item = &'a Network>) -> Candidates {
    let mut found = vec![];
    for network in networks {
        let connections = network.connections.values();
        let mut evictable: Vec<_> = connections
            .filter_map(|connection| Some((Arc::clone(connection), connection.evictable_since()?)))
            .collect();
        evictable.sort_unstable_by_key(|(_, last_use)| *last_use);
        evictable.truncate(network.connections.len().div_ceil(CANDIDATE_PART));
        found.append(&mut evictable);
    }
    found.sort_unstable_by_key(|(_, last_use)| *last_use);
    found.truncate(CANDIDATE_PART);
    found.into()
}

impl OpenConnections {
    /// Evicts a connection of a network. Returns false if all are in use.
    fn evict_of_network(&mut self, address: IpAddr) -> bool {
        // The second time for candidates that were all used since their search.
        for _ in 0..2 {
            let Some(network) = self.networks.get_mut(&address) else { return false };
            if network.candidates.is_empty() && network.evictable.load(Ordering::Relaxed) > 0 {
                network.candidates = search(std::iter::once(&*network));
            }
            while let Some(candidate) =
                self.networks.get_mut(&address).and_then(|network| network.candidates.pop_front())
            {
                if self.evict_candidate(&candidate) {
                    return true;
                }
            }
        }
        false
    }

    /// Evicts a connection of the network with the most connections among those that have one to evict. Returns false if
    /// all connections are in use.
    fn evict_of_largest_network(&mut self) -> bool {
        // The second time for candidates that were all used since their search.
        for _ in 0..2 {
            if self.candidates.is_empty() {
                self.candidates = self.search_largest();
            }
            while let Some(candidate) = self.candidates.pop_front() {
                if self.evict_candidate(&candidate) {
                    return true;
                }
            }
        }
        false
    }

    /// Returns the connections to evict next of the largest networks that have some.
    fn search_largest(&self) -> Candidates {
        let networks = || {
            let networks = self.networks.values();
            networks.filter(|network| network.evictable.load(Ordering::Relaxed) > 0)
        };
        let mut searched = usize::MAX;
        loop {
            let sizes = networks().map(|network| network.connections.len());
            let Some(most) = sizes.filter(|size| *size < searched).max() else {
                return Candidates::new();
            };
            let found = search(networks().filter(|network| network.connections.len() == most));
            if !found.is_empty() {
                return found;
            }
            searched = most;
        }
    }

    /// Evicts the oldest connection that established nothing, of the network with the most of them.
    fn evict_handshake(&mut self) {
        let handshakes = |network: &Network| -> Vec<Arc<Connection>> {
            let connections = network.connections.values();
            connections.filter(|connection| !connection.is_established()).cloned().collect()
        };
        let largest = self.networks.values().map(handshakes).max_by_key(Vec::len);
        let oldest = largest.and_then(|it| it.into_iter().min_by_key(|it| it.number));
        if let Some(oldest) = oldest
            && oldest.change(&[IDLE, PENDING, ACTIVE], EVICTED)
        {
            self.remove_evicted(&oldest);
        }
    }

    /// Evicts a candidate unless it was used or closed since it was found. Returns whether that released a slot.
    fn evict_candidate(&mut self, (connection, last_use): &(Arc<Connection>, u64)) -> bool {
        let is_unused = connection.evictable_since() == Some(*last_use);
        is_unused && connection.change(&[IDLE, PENDING], EVICTED) && self.remove_evicted(connection)
    }

    /// Releases the slot of a connection in the phase `EVICTED`, and tells its task. Returns false if it had none.
    fn remove_evicted(&mut self, connection: &Connection) -> bool {
        let is_removed = self.remove(connection);
        if is_removed {
            self.handshakes -= 1;
            self.closing += 1;
            connection.evicted.cancel();
        }
        is_removed
    }

    /// Removes a connection. Returns false if it was evicted before.
    fn remove(&mut self, connection: &Connection) -> bool {
        let Some(network) = self.networks.get_mut(&connection.network) else { return false };
        if network.connections.remove(&connection.number).is_none() {
            return false;
        }
        if network.connections.is_empty() {
            self.networks.remove(&connection.network);
        }
        self.total -= 1;
        true
    }
}

impl ConnectionLimiter {
    pub(crate) fn new(limits: ConnectionLimits) -> Self {
        let body_grace = limits.total as u64 / 2;
        Self { limits, shared: Arc::new(Shared { body_grace, ..Shared::default() }) }
    }

    /// Takes a slot for an address, if need be that of an evicted connection.
    pub(crate) fn try_acquire(&self, address: IpAddr) -> Result<ConnectionSlot, Exhausted> {
        let Self { limits, shared } = self;
        let network = host_network(address);
        let share =
            if network.is_loopback() { limits.per_loopback_address } else { limits.per_address };
        let mut open = shared.open.lock();
        if open.closing >= MAX_CLOSING {
            return Err(Exhausted::Total);
        }
        let of_network = open.networks.get(&network).map_or(0, |it| it.connections.len());
        if of_network >= share && !open.evict_of_network(network) {
            return Err(Exhausted::Address);
        }
        if open.total >= limits.total && !open.evict_of_largest_network() {
            return Err(Exhausted::Total);
        }
        if limits.handshakes.is_some_and(|most| open.handshakes >= most) {
            open.evict_handshake();
        }
        let number = shared.clock.fetch_add(1, Ordering::Relaxed);
        open.total += 1;
        open.handshakes += 1;
        let entry = open.networks.entry(network).or_default();
        entry.evictable.fetch_add(1, Ordering::Relaxed);
        let connection = Arc::new(Connection {
            network,
            number,
            phase: AtomicU8::new(IDLE),
            last_use: AtomicU64::new(number),
            evictable: Arc::clone(&entry.evictable),
            evicted: CancellationToken::new(),
        });
        entry.connections.insert(number, Arc::clone(&connection));
        Ok(ConnectionSlot(Arc::new(Acquired {
            shared: Arc::clone(shared),
            connection,
            peer_user: OnceCell::new(),
        })))
    }

    /// Takes a slot for an address, and waits while the total limit leaves none.
    ///
    /// # Errors
    /// When the limit of the address leaves none.
    pub(crate) async fn acquire(&self, address: IpAddr) -> Result<ConnectionSlot, Exhausted> {
        let Shared { is_waiting, released, .. } = &*self.shared;
        loop {
            // Before the attempt: what is released after it wakes this task.
            is_waiting.store(true, Ordering::SeqCst);
            let acquired = self.try_acquire(address);
            if !matches!(acquired, Err(Exhausted::Total)) {
                is_waiting.store(false, Ordering::SeqCst);
                return acquired;
            }
            released.notified().await;
        }
    }
}

/// Slot of one open connection, released when its last clone is dropped.
#[derive(Debug, Clone)]
pub struct ConnectionSlot(Arc<Acquired>);

impl ConnectionSlot {
    /// Marks the handshake as finished: the connection cannot be evicted any more.
    pub fn establish(&self) {
        let Acquired { shared, connection, .. } = &*self.0;
        // The lock first: an eviction counts the connection as a handshake.
        let mut open = shared.open.lock();
        if connection.change(&[IDLE, PENDING, ACTIVE], ESTABLISHED) {
            open.handshakes -= 1;
        }
    }

    /// Waits until the connection has to make room for another one.
    pub async fn evicted(&self) {
        self.0.connection.evicted.cancelled().await;
    }

    /// Marks the begin of a request, with a body or without one. `None` if the connection is evicted: the client can
    /// repeat the request on another one.
    pub(crate) fn begin_request(&self, has_body: bool) -> Option<RequestPhase> {
        let Acquired { shared, connection, .. } = &*self.0;
        let phase = RequestPhase { shared: Arc::clone(shared), connection: Arc::clone(connection) };
        // A connection has one request at a time.
        let begun = if has_body { PENDING } else { ACTIVE };
        if has_body {
            connection.last_use.store(shared.now() + shared.body_grace, Ordering::SeqCst);
        }
        connection.change(&[IDLE], begun).then_some(phase)
    }

    /// Returns the cell for the user at the other end of the connection.
    pub(crate) fn peer_user(&self) -> &OnceCell<u32> {
        &self.0.peer_user
    }

    /// Allows to evict the connection until the response of its request, which is only held back.
    pub(crate) fn allow_eviction(&self) {
        let Acquired { shared, connection, .. } = &*self.0;
        if connection.change(&[ACTIVE], PENDING) {
            shared.wake();
        }
    }

    pub(crate) fn downgrade(&self) -> WeakConnectionSlot {
        WeakConnectionSlot(Arc::downgrade(&self.0))
    }
}

/// Request on a connection, until it is dropped with the end of the response. Does not hold the slot.
#[derive(Debug)]
pub(crate) struct RequestPhase {
    shared: Arc<Shared>,
    connection: Arc<Connection>,
}

impl RequestPhase {
    /// Returns the part that ends with the body of the request.
    pub(crate) fn body(&self) -> BodyPhase {
        BodyPhase(Arc::clone(&self.connection))
    }
}

impl Drop for RequestPhase {
    fn drop(&mut self) {
        let Self { shared, connection } = self;
        connection.last_use.store(shared.now(), Ordering::SeqCst);
        if connection.change(&[PENDING, ACTIVE], IDLE) {
            shared.wake();
        }
    }
}

/// Body of a request, until it is dropped or has arrived.
#[derive(Debug)]
pub(crate) struct BodyPhase(Arc<Connection>);

impl Drop for BodyPhase {
    fn drop(&mut self) {
        self.0.change(&[PENDING], ACTIVE);
    }
}

/// Reference to a slot that does not hold it.
#[derive(Debug, Clone)]
pub(crate) struct WeakConnectionSlot(Weak<Acquired>);

impl WeakConnectionSlot {
    /// Returns the slot; `None` after its connection has ended.
    pub(crate) fn upgrade(&self) -> Option<ConnectionSlot> {
        self.0.upgrade().map(ConnectionSlot)
    }
}

#[derive(Debug)]
struct Acquired {
    shared: Arc<Shared>,
    connection: Arc<Connection>,
    /// User at the other end, once it was looked up.
    peer_user: OnceCell<u32>,
}

impl Drop for Acquired {
    fn drop(&mut self) {
        let mut open = self.shared.open.lock();
        let is_established = self.connection.is_established();
        // Under the lock: a closed connection is no candidate, and its network does not count it as one.
        self.connection.change(&[IDLE, PENDING, ACTIVE, ESTABLISHED], CLOSED);
        if !open.remove(&self.connection) {
            open.closing -= 1;
        } else if !is_established {
            open.handshakes -= 1;
        }
        drop(open);
        self.shared.wake();
    }
}

/// Returns the network of an address: one host usually has a whole IPv6 /64.
#[must_use]
pub fn host_network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) if !address.is_loopback() => {
            Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into()
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: ConnectionLimits = ConnectionLimits {
        total: 1024,
        per_address: 256,
        per_loopback_address: 1024,
        handshakes: None,
    };

    fn acquire(limiter: &ConnectionLimiter, address: &str, times: usize) -> Vec<ConnectionSlot> {
        let address = address.parse().unwrap();
        (0..times).map_while(|_| limiter.try_acquire(address).ok()).collect()
    }

    /// Takes slots whose connections have a request in progress.
    fn acquire_active(
        limiter: &ConnectionLimiter,
        address: &str,
        times: usize,
    ) -> Vec<(ConnectionSlot, RequestPhase)> {
        let begin = |slot: ConnectionSlot| {
            let phase = slot.begin_request(false).unwrap();
            (slot, phase)
        };
        acquire(limiter, address, times).into_iter().map(begin).collect()
    }

    fn is_evicted(slot: &ConnectionSlot) -> bool {
        slot.0.connection.evicted.is_cancelled()
    }

    fn evicted(slots: &[ConnectionSlot]) -> Vec<bool> {
        slots.iter().map(is_evicted).collect()
    }

    #[test]
    fn one_address_has_a_share_also_of_this_machine() {
        let limits =
            ConnectionLimits { total: 10, per_address: 3, per_loopback_address: 4, ..LIMITS };
        let limiter = ConnectionLimiter::new(limits);
        let acquire = |address, times| -> Vec<_> {
            let slots = (0..times).map_while(|_| acquire_active(&limiter, address, 1).pop());
            slots.collect()
        };
        let first = acquire("192.0.2.1", 9);
        assert_eq!(first.len(), 3);
        assert_eq!(acquire("::ffff:192.0.2.1", 1).len(), 0, "the same address");
        let second = acquire("2001:db8::1", 2);
        let third = acquire("2001:db8::2", 9);
        assert_eq!((second.len(), third.len()), (2, 1), "one network");
        let own = acquire("127.0.0.1", 9);
        assert_eq!(own.len(), 4);
        drop((first, third));
        assert_eq!(acquire("192.0.2.1", 9).len(), 3);
    }

    #[test]
    fn at_the_limit_of_an_address_its_connection_that_was_idle_longest_is_evicted() {
        let limiter = ConnectionLimiter::new(ConnectionLimits { per_address: 4, ..LIMITS });
        let other = acquire(&limiter, "192.0.2.1", 1);
        let many = acquire(&limiter, "192.0.2.2", 4);
        // The first is in use, and the second was used after the third was accepted.
        let _in_use = many[0].begin_request(false).unwrap();
        drop(many[1].begin_request(false));
        let more = acquire(&limiter, "192.0.2.2", 2);
        assert_eq!(more.len(), 2);
        assert_eq!(evicted(&many), [false, false, true, true]);
        assert!(!is_evicted(&other[0]) && evicted(&more) == [false, false]);
        assert!(many[2].begin_request(false).is_none(), "a request that comes too late");
    }

    #[test]
    fn at_the_total_limit_a_connection_of_the_address_with_the_most_is_evicted() {
        let limiter = ConnectionLimiter::new(ConnectionLimits { total: 5, ..LIMITS });
        let few = acquire(&limiter, "192.0.2.1", 2);
        let many = acquire(&limiter, "192.0.2.2", 3);
        let other = acquire(&limiter, "192.0.2.3", 1);
        assert_eq!((evicted(&few), other.len()), (vec![false, false], 1), "an older one");
        assert_eq!(evicted(&many), [true, false, false]);
        // Where the larger one uses all of its connections, that of another makes room.
        let in_use: Vec<_> =
            many[1..].iter().map(|slot| slot.begin_request(false).unwrap()).collect();
        let third = acquire(&limiter, "192.0.2.3", 1);
        assert_eq!((third.len(), evicted(&few)), (1, vec![true, false]));
        drop(in_use);
    }

    #[test]
    fn connections_with_a_request_in_progress_are_not_evicted() {
        let limits = ConnectionLimits { total: 2, per_address: 2, ..LIMITS };
        let limiter = ConnectionLimiter::new(limits);
        let slots = acquire_active(&limiter, "192.0.2.1", 2);
        let full = |address: &str| limiter.try_acquire(address.parse().unwrap()).err();
        assert_eq!(full("192.0.2.1"), Some(Exhausted::Address));
        assert_eq!(full("192.0.2.2"), Some(Exhausted::Total));
        assert!(slots.iter().all(|(slot, _)| !is_evicted(slot)));
        let established = &slots[0].0;
        established.establish();
        drop(slots.into_iter().map(|(slot, phase)| (slot, drop(phase))).collect::<Vec<_>>());
        assert_eq!(full("192.0.2.1"), None);
    }

    #[test]
    fn bodies_that_arrive_make_room_after_idle_connections() {
        let limiter = ConnectionLimiter::new(ConnectionLimits { total: 3, ..LIMITS });
        let slots = acquire(&limiter, "192.0.2.1", 3);
        let slow = slots[0].begin_request(true).unwrap();
        let slow_body = slow.body();
        let complete = slots[1].begin_request(true).unwrap();
        drop(complete.body());
        let _third = acquire(&limiter, "192.0.2.2", 1);
        assert_eq!(evicted(&slots), [false, false, true], "the idle one");
        let _fourth = acquire_active(&limiter, "192.0.2.2", 1);
        assert_eq!(evicted(&slots), [true, false, true], "the one whose body arrives");
        drop(slow_body);
    }

    #[test]
    fn a_burst_of_bodies_does_not_evict_the_newest_idle_connection() {
        let limits = ConnectionLimits { total: 8, per_address: 8, ..LIMITS };
        let limiter = ConnectionLimiter::new(limits);
        let acquire = || acquire(&limiter, "192.0.2.1", 1).pop().unwrap();
        let begin = |slot: ConnectionSlot| (slot.begin_request(true).unwrap(), slot);
        let _bodies: Vec<_> = (0..8).map(|_| begin(acquire())).collect();
        let newest = acquire();
        let _more: Vec<_> = (0..2).map(|_| begin(acquire())).collect();
        assert!(!is_evicted(&newest));
    }

    #[test]
    fn a_slot_is_released_once() {
        let limiter = ConnectionLimiter::new(ConnectionLimits { total: 2, ..LIMITS });
        let slots = acquire(&limiter, "192.0.2.1", 4);
        let counts = || {
            let open = limiter.shared.open.lock();
            (open.total, open.closing, open.handshakes, open.networks.len())
        };
        assert_eq!((evicted(&slots), counts()), (vec![true, true, false, false], (2, 2, 2, 1)));
        slots[2].establish();
        slots[0].establish();
        assert_eq!(counts(), (2, 2, 1, 1), "an evicted connection establishes nothing");
        drop(slots);
        assert_eq!(counts(), (0, 0, 0, 0));
    }

    #[test]
    fn evicted_connections_that_do_not_end_count_beyond_a_number() {
        let limiter = ConnectionLimiter::new(ConnectionLimits { total: 1, ..LIMITS });
        let slots = acquire(&limiter, "192.0.2.1", 2 * MAX_CLOSING);
        assert_eq!(slots.len(), MAX_CLOSING + 1);
    }

    #[test]
    fn one_search_serves_many_evictions() {
        let limits = ConnectionLimits { total: 4096, per_address: 4096, ..LIMITS };
        let limiter = ConnectionLimiter::new(limits);
        let _slots = acquire(&limiter, "192.0.2.1", 4096);
        let _more = acquire(&limiter, "192.0.2.1", 1);
        let left = limiter.shared.open.lock().networks.values().next().unwrap().candidates.len();
        assert_eq!(left, CANDIDATE_PART - 1);
    }

    /// Takes one slot for each of some addresses.
    fn acquire_of_hosts(
        limiter: &ConnectionLimiter,
        hosts: std::ops::RangeInclusive<u8>,
    ) -> Vec<ConnectionSlot> {
        hosts.flat_map(|host| acquire(limiter, &format!("192.0.2.{host}"), 1)).collect()
    }

    /// Returns the number of open connections without the evicted ones.
    fn open_connections(limiter: &ConnectionLimiter) -> usize {
        let open = limiter.shared.open.lock();
        let of_networks: usize = open.networks.values().map(|it| it.connections.len()).sum();
        assert_eq!(open.total, of_networks);
        of_networks
    }

    #[test]
    fn candidates_that_closed_do_not_let_connections_exceed_the_total_limit() {
        let limiter = ConnectionLimiter::new(ConnectionLimits { total: 4, ..LIMITS });
        let mut slots = acquire_of_hosts(&limiter, 1..=5);
        assert_eq!(evicted(&slots), [true, false, false, false, false]);
        assert_eq!(limiter.shared.open.lock().candidates.len(), 3);
        drop(slots.drain(1..4));
        assert_eq!(open_connections(&limiter), 1);
        for host in 6..=15 {
            let more = acquire_of_hosts(&limiter, host..=host);
            assert_eq!(more.len(), 1);
            slots.extend(more);
            assert!(open_connections(&limiter) <= 4);
        }
        assert_eq!(evicted(&slots).iter().filter(|is_evicted| !**is_evicted).count(), 4);
    }

    #[test]
    fn candidates_that_closed_do_not_let_connections_exceed_the_limit_of_an_address() {
        let limiter = ConnectionLimiter::new(LIMITS);
        let mut slots = acquire(&limiter, "192.0.2.1", 257);
        assert_eq!(slots.len(), 257);
        assert!(is_evicted(&slots[0]), "the oldest one");
        drop(slots.drain(1..4));
        assert_eq!(open_connections(&limiter), 253);
        for _ in 0..10 {
            slots.append(&mut acquire(&limiter, "192.0.2.1", 1));
            assert!(open_connections(&limiter) <= 256);
        }
        assert_eq!(open_connections(&limiter), 256);
    }

    #[test]
    fn a_large_network_without_idle_connections_does_not_hide_those_of_a_smaller_one() {
        // With a wrong count the search goes on to the smaller network.
        for wrong_count in [0, 1] {
            let limiter = ConnectionLimiter::new(ConnectionLimits { total: 5, ..LIMITS });
            let large = acquire_active(&limiter, "192.0.2.1", 3);
            drop(acquire(&limiter, "192.0.2.1", 1));
            let evictable = &large[0].0.0.connection.evictable;
            assert_eq!(evictable.fetch_add(wrong_count, Ordering::Relaxed), 0);
            let small = acquire(&limiter, "192.0.2.2", 2);
            let more = acquire(&limiter, "192.0.2.3", 1);
            assert_eq!((more.len(), evicted(&small)), (1, vec![true, false]));
        }
    }

    #[test]
    fn a_request_that_outlasts_its_connection_leaves_nothing_to_evict() {
        let limiter = ConnectionLimiter::new(LIMITS);
        let mut slots = acquire_active(&limiter, "192.0.2.1", 2);
        let (closed, phase) = slots.pop().unwrap();
        drop(closed);
        drop(phase);
        assert_eq!(slots[0].0.0.connection.evictable.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn candidates_that_were_all_used_are_searched_again() {
        let limiter = ConnectionLimiter::new(ConnectionLimits { total: 4, ..LIMITS });
        let slots = acquire_of_hosts(&limiter, 1..=5);
        for slot in &slots[1..4] {
            drop(slot.begin_request(false).unwrap());
        }
        assert_eq!(acquire_of_hosts(&limiter, 6..=6).len(), 1);
        assert_eq!(evicted(&slots), [true, false, false, false, true]);

        let limiter = ConnectionLimiter::new(LIMITS);
        let slots = acquire(&limiter, "192.0.2.1", 257);
        for slot in &slots[1..4] {
            drop(slot.begin_request(false).unwrap());
        }
        assert_eq!(acquire(&limiter, "192.0.2.1", 1).len(), 1);
        assert_eq!(evicted(&slots[..6]), [true, false, false, false, true, false]);
    }

    #[tokio::test]
    async fn a_connection_that_waits_gets_the_first_slot_that_is_released_or_idle() {
        let address = "192.0.2.1".parse().unwrap();
        for is_released in [true, false] {
            let limiter = ConnectionLimiter::new(ConnectionLimits { total: 1, ..LIMITS });
            let (slot, phase) = acquire_active(&limiter, "192.0.2.2", 1).pop().unwrap();
            let waiting = limiter.acquire(address);
            tokio::pin!(waiting);
            assert!(futures_util::poll!(waiting.as_mut()).is_pending());
            if is_released {
                drop((slot.clone(), slot));
            } else {
                drop(phase);
            }
            assert!(waiting.await.is_ok());
        }
    }

    #[test]
    fn the_oldest_handshake_of_the_largest_network_is_evicted() {
        let limiter = ConnectionLimiter::new(ConnectionLimits { handshakes: Some(3), ..LIMITS });
        let other = acquire(&limiter, "192.0.2.1", 1);
        let many = acquire(&limiter, "192.0.2.2", 5);
        assert_eq!(many.len(), 5);
        assert!(!is_evicted(&other[0]), "of a smaller network");
        assert_eq!(evicted(&many), [true, true, true, false, false]);
        let established = acquire(&limiter, "192.0.2.3", 1);
        established[0].establish();
        let more = acquire(&limiter, "192.0.2.2", 9);
        assert!(!is_evicted(&established[0]), "its handshake is finished");
        assert_eq!(more.len(), 9);
        drop((other, many, more));
        assert_eq!(limiter.shared.open.lock().handshakes, 0);
    }
}
