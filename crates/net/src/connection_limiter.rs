//! Limits on open connections, in total and per address.
//!
//! A connection takes its slot before anything is read from it and releases it when its last part has ended.
//! Connections without a finished handshake can have a smaller limit of their own. At that limit the oldest handshake of
//! the network with the most handshakes is evicted: a good client needs a moment for its handshake, and clients that send
//! nothing keep no other client out. Loopback addresses have no limit of their own: all of them belong to one operator.

use std::{
    collections::{BTreeMap, HashMap},
    net::{IpAddr, Ipv6Addr},
    sync::{Arc, Weak},
};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Limits on open connections.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionLimits {
    /// Open connections in total.
    pub total: usize,
    /// Open connections from one address of another machine; for IPv6, from one /64 network.
    pub per_address: usize,
    /// Open connections without a finished handshake; `None` for no such limit.
    pub handshakes: Option<usize>,
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
    /// Signals a released slot.
    released: Notify,
}

#[derive(Debug, Default)]
struct OpenConnections {
    total: usize,
    by_network: HashMap<IpAddr, usize>,
    /// Connections without a finished handshake, by sequence number.
    handshakes: BTreeMap<u64, Handshake>,
    next: u64,
}

#[derive(Debug)]
struct Handshake {
    network: IpAddr,
    evicted: CancellationToken,
}

impl OpenConnections {
    /// Evicts the oldest handshake of the network with the most handshakes.
    fn evict(&mut self) {
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        for handshake in self.handshakes.values() {
            *counts.entry(handshake.network).or_default() += 1;
        }
        let count = |handshake: &Handshake| counts.get(&handshake.network).copied();
        // `max_by_key` returns the last of equal elements, here the oldest.
        let oldest = self.handshakes.iter().rev().max_by_key(|(_, handshake)| count(handshake));
        if let Some(number) = oldest.map(|(number, _)| *number)
            && let Some(handshake) = self.handshakes.remove(&number)
        {
            handshake.evicted.cancel();
        }
    }
}

impl ConnectionLimiter {
    pub(crate) fn new(limits: ConnectionLimits) -> Self {
        Self { limits, shared: Arc::default() }
    }

    /// Returns whether the total limit leaves a slot.
    pub(crate) fn has_capacity(&self) -> bool {
        self.shared.open.lock().total < self.limits.total
    }

    /// Waits until the total limit leaves a slot.
    pub(crate) async fn wait_for_capacity(&self) {
        while !self.has_capacity() {
            self.shared.released.notified().await;
        }
    }

    /// Takes a slot, if the limits leave one for the address.
    pub(crate) fn try_acquire(&self, address: IpAddr) -> Option<ConnectionSlot> {
        let network = host_network(address);
        let mut open = self.shared.open.lock();
        let of_network = open.by_network.get(&network).copied().unwrap_or(0);
        let is_share_used = !network.is_loopback() && of_network >= self.limits.per_address;
        if open.total >= self.limits.total || is_share_used {
            return None;
        }
        open.total += 1;
        open.by_network.insert(network, of_network + 1);
        let (number, evicted) = (open.next, CancellationToken::new());
        open.next += 1;
        if let Some(max) = self.limits.handshakes {
            if open.handshakes.len() >= max {
                open.evict();
            }
            open.handshakes.insert(number, Handshake { network, evicted: evicted.clone() });
        }
        let acquired = Acquired { shared: Arc::clone(&self.shared), network, number, evicted };
        Some(ConnectionSlot(Arc::new(acquired)))
    }
}

/// Slot of one open connection, released when its last clone is dropped.
#[derive(Debug, Clone)]
pub struct ConnectionSlot(Arc<Acquired>);

impl ConnectionSlot {
    /// Marks the handshake as finished: the connection cannot be evicted any more.
    pub fn establish(&self) {
        self.0.shared.open.lock().handshakes.remove(&self.0.number);
    }

    /// Waits until the connection has to make room for another one.
    pub async fn evicted(&self) {
        self.0.evicted.cancelled().await;
    }

    pub(crate) fn downgrade(&self) -> WeakConnectionSlot {
        WeakConnectionSlot(Arc::downgrade(&self.0))
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
    network: IpAddr,
    number: u64,
    evicted: CancellationToken,
}

impl Drop for Acquired {
    fn drop(&mut self) {
        let mut open = self.shared.open.lock();
        open.total -= 1;
        open.handshakes.remove(&self.number);
        if let Some(count) = open.by_network.get_mut(&self.network) {
            *count -= 1;
            if *count == 0 {
                open.by_network.remove(&self.network);
            }
        }
        drop(open);
        self.shared.released.notify_one();
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
    use std::time::Duration;

    use super::*;

    const LIMITS: ConnectionLimits =
        ConnectionLimits { total: 1024, per_address: 256, handshakes: None };

    fn acquire(limiter: &ConnectionLimiter, address: &str, times: usize) -> Vec<ConnectionSlot> {
        let address = address.parse().unwrap();
        (0..times).map_while(|_| limiter.try_acquire(address)).collect()
    }

    #[test]
    fn one_address_has_a_share_and_loopback_has_all() {
        let limiter =
            ConnectionLimiter::new(ConnectionLimits { total: 10, per_address: 3, ..LIMITS });
        let first = acquire(&limiter, "192.0.2.1", 9);
        assert_eq!(first.len(), 3);
        assert_eq!(acquire(&limiter, "::ffff:192.0.2.1", 1).len(), 0, "the same address");
        let second = acquire(&limiter, "2001:db8::1", 2);
        let third = acquire(&limiter, "2001:db8::2", 9);
        assert_eq!((second.len(), third.len()), (2, 1), "one network");
        let own = acquire(&limiter, "127.0.0.1", 99);
        assert_eq!(own.len(), 4, "the rest of the total");
        drop((first, third));
        assert_eq!(acquire(&limiter, "192.0.2.1", 9).len(), 3);
    }

    #[tokio::test]
    async fn a_slot_is_released_with_its_last_clone() {
        let limiter = ConnectionLimiter::new(ConnectionLimits { total: 1, ..LIMITS });
        let slot = acquire(&limiter, "::1", 1);
        let clone = slot.clone();
        drop(slot);
        assert!(acquire(&limiter, "::1", 1).is_empty() && !limiter.has_capacity());
        let release = async {
            tokio::time::sleep(Duration::from_millis(10)).await;
            drop(clone);
        };
        tokio::join!(limiter.wait_for_capacity(), release);
        assert_eq!(acquire(&limiter, "::1", 1).len(), 1);
        assert!(limiter.shared.open.lock().by_network.is_empty());
    }

    #[test]
    fn the_oldest_handshake_of_the_largest_network_is_evicted() {
        let limiter = ConnectionLimiter::new(ConnectionLimits { handshakes: Some(3), ..LIMITS });
        let is_evicted = |slot: &ConnectionSlot| slot.0.evicted.is_cancelled();
        let other = acquire(&limiter, "192.0.2.1", 1);
        let many = acquire(&limiter, "192.0.2.2", 5);
        assert_eq!(many.len(), 5);
        assert!(!is_evicted(&other[0]), "of a smaller network");
        assert_eq!(
            many.iter().map(is_evicted).collect::<Vec<_>>(),
            [true, true, true, false, false]
        );
        let established = acquire(&limiter, "192.0.2.3", 1);
        established[0].establish();
        let more = acquire(&limiter, "192.0.2.2", 9);
        assert!(!is_evicted(&established[0]), "its handshake is finished");
        assert_eq!(more.len(), 9);
        drop((other, many, more));
        assert!(limiter.shared.open.lock().handshakes.is_empty());
    }
}
