//! The embedded hub: a server of the iii worker protocol to which unmodified SDKs connect.
//!
//! - `server`: listening, the handshake, stopping
//! - `connection`: one socket, its reader and its writer
//! - `route`: what each frame does
//! - `functions`, `triggers`, `observe`, `calls`: the tables, each with its rules
//! - `deliveries`: calls that are sent again and must not be brought twice
//! - `activate`: what observers of workers' functions receive
//! - `peer`, `queue`, `identify`: one connection, what waits for it, what it has said it is
//! - `builtins`, `availability`: what the hub itself offers under `engine::`
//! - `local`: this process on the bus, `impl Bus for Hub`
//!
//! A payload is JSON text that is passed on; only `engine::` functions look into one. Tables are
//! behind plain mutexes that are never held across an `await`.

mod activate;
mod availability;
mod builtins;
mod calls;
mod config;
mod connection;
mod deliveries;
mod functions;
mod identify;
mod local;
mod observe;
mod peer;
mod queue;
mod route;
mod server;
mod triggers;

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use tokio_util::{sync::CancellationToken, task::TaskTracker};
use uuid::Uuid;

pub use config::HubConfig;

use self::{
    calls::Calls, deliveries::Deliveries, functions::Functions, identify::Identity,
    observe::Observers, peer::Peer, queue::Close, triggers::Triggers,
};
use crate::protocol::outbound;

/// The hub. Clones are handles to the same one.
#[derive(Clone)]
pub struct Hub {
    inner: Arc<Inner>,
}

struct Inner {
    config: HubConfig,
    functions: Functions,
    triggers: Triggers,
    observers: Observers,
    calls: Calls,
    deliveries: Deliveries,
    peers: Mutex<HashMap<String, Arc<Peer>>>,
    /// Workers without a connection whose calls are still under way.
    away: Mutex<HashMap<String, Arc<Peer>>>,
    /// Set when the hub stops: workers may finish calls but not begin any.
    draining: AtomicBool,
    /// Set when connections are to part in good order.
    closing: CancellationToken,
    /// Ends every connection at once.
    stop: CancellationToken,
    connections: TaskTracker,
}

impl Hub {
    /// A hub without connections.
    #[must_use]
    pub fn new(config: HubConfig) -> Self {
        let inner = Inner {
            config,
            functions: Functions::new(Uuid::new_v4().to_string()),
            triggers: Triggers::default(),
            observers: Observers::default(),
            calls: Calls::new(),
            deliveries: Deliveries::default(),
            peers: Mutex::default(),
            away: Mutex::default(),
            draining: AtomicBool::new(false),
            closing: CancellationToken::new(),
            stop: CancellationToken::new(),
            connections: TaskTracker::new(),
        };
        let hub = Self { inner: Arc::new(inner) };
        availability::provide(&hub);
        hub
    }

    /// Notes what a worker says it is. One whose name is taken is refused, where names are unique.
    fn identify(&self, peer: &Arc<Peer>, identity: Identity) {
        let name = identity
            .name
            .clone()
            .filter(|_| self.inner.config.unique_names && identity.expects_conflicts());
        peer.identify(identity);
        let Some(name) = name else { return };
        let owner = self.inner.peers().into_iter().find(|other| {
            let same = || other.identity().is_some_and(|it| it.name.as_ref() == Some(&name));
            !Arc::ptr_eq(other, peer) && !other.is_gone() && same()
        });
        if let Some(owner) = owner {
            tracing::warn!(
                worker = peer.id,
                name,
                owner = owner.id,
                "worker refused: its name is taken"
            );
            peer.queue.push(outbound::worker_rejected(&name, &owner.id));
            peer.queue.close(Close { code: 1008, reason: "the worker's name is taken" });
        }
    }

    /// How many workers are connected.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.inner.lock_peers().len()
    }

    fn join(&self, peer: &Arc<Peer>) {
        self.inner.lock_peers().insert(peer.id.clone(), peer.clone());
    }

    /// Takes a peer out of every table. It is safe to do so twice, and while its frames are
    /// still being handled.
    fn leave(&self, peer: &Arc<Peer>) {
        if !peer.retire() {
            return;
        }
        self.inner.lock_peers().remove(&peer.id);
        let served = self.inner.functions.forget(peer);
        self.inner.calls.stop(peer);
        let comes_back = peer.identity().is_some_and(|identity| identity.comes_back());
        if comes_back && peer.open_calls.load(Ordering::SeqCst) > 0 {
            self.await_return(peer);
        } else {
            self.inner.calls.forget(peer);
        }
        // Whoever goes because the hub stops still wants what it subscribed to: its providers
        // are not told otherwise, and find it again on the next hub.
        if !self.inner.is_draining() {
            self.inner.triggers.forget(peer);
            self.inner.observers.forget(peer);
            for id in served {
                self.inner.observers.source_changed(self, &id);
            }
        }
        tracing::debug!(worker = peer.id, "worker left");
    }

    /// Keeps the answers to a worker's calls for a while: it may come back for them.
    fn await_return(&self, peer: &Arc<Peer>) {
        peer.away();
        self.inner.lock_away().insert(peer.id.clone(), peer.clone());
        let (inner, peer) = (Arc::downgrade(&self.inner), peer.clone());
        let (wait, stop) = (self.inner.config.reattach_wait, self.inner.stop.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = stop.cancelled() => {}
            }
            let Some(inner) = inner.upgrade() else { return };
            inner.lock_away().remove(&peer.id);
            if peer.give_up() {
                inner.calls.forget(&peer);
            }
        });
    }

    /// Replaces the connection of a worker that has come back. What it was asked to do is stopped
    /// and its registrations are gone before it registers again; what it asked for is still
    /// answered, on the new connection.
    fn reattach(&self, peer: &Arc<Peer>, previous_worker_id: &str, token: &str) {
        use subtle::ConstantTimeEq as _;

        let live = self.inner.lock_peers().get(previous_worker_id).cloned();
        let previous = live.or_else(|| self.inner.lock_away().get(previous_worker_id).cloned());
        // The hub may have restarted, or nobody waits for anything: then there is nothing to replace.
        let Some(previous) = previous.filter(|previous| !Arc::ptr_eq(previous, peer)) else {
            return;
        };
        if !bool::from(previous.reattach_token.as_bytes().ct_eq(token.as_bytes())) {
            tracing::warn!(worker = peer.id, "reattach refused: wrong token");
            peer.complain(&crate::CallError::remote(
                "reattach_refused",
                "the reattach_token does not belong to that worker; the old connection stays",
            ));
            return;
        }
        tracing::debug!(worker = peer.id, previous = previous.id, "worker reattached");
        self.leave(&previous);
        if self.inner.lock_away().remove(&previous.id).is_some() {
            previous.moved(peer);
        }
        previous.queue.close(Close { code: 1000, reason: "replaced by a new connection" });
    }
}

impl Inner {
    fn lock_peers(&self) -> MutexGuard<'_, HashMap<String, Arc<Peer>>> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_away(&self) -> MutexGuard<'_, HashMap<String, Arc<Peer>>> {
        self.away.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn peers(&self) -> Vec<Arc<Peer>> {
        self.lock_peers().values().cloned().collect()
    }

    fn is_draining(&self) -> bool {
        self.draining.load(Ordering::SeqCst)
    }
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hub")
            .field("config", &self.inner.config)
            .field("workers", &self.workers())
            .finish()
    }
}

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}
