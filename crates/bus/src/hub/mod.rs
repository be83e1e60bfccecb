//! The embedded hub: a server of the iii worker protocol to which unmodified SDKs connect.
//!
//! - `server`: listening, the handshake, stopping
//! - `connection`: one socket, its reader and its writer
//! - `route`: what each frame does
//! - `functions`, `triggers`, `observe`, `calls`: the tables, each with its rules
//! - `peer`, `queue`, `identify`: one connection, what waits for it, what it has said it is
//! - `builtins`, `availability`: what the hub itself offers under `engine::`
//! - `local`: this process on the bus, `impl Bus for Hub`
//!
//! A payload is JSON text that is passed on; only `engine::` functions look into one. Tables are
//! behind plain mutexes that are never held across an `await`.

mod availability;
mod builtins;
mod calls;
mod config;
mod connection;
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
    calls::Calls, functions::Functions, observe::Observers, peer::Peer, queue::Close,
    triggers::Triggers,
};

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
    peers: Mutex<HashMap<String, Arc<Peer>>>,
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
            peers: Mutex::default(),
            draining: AtomicBool::new(false),
            closing: CancellationToken::new(),
            stop: CancellationToken::new(),
            connections: TaskTracker::new(),
        };
        let hub = Self { inner: Arc::new(inner) };
        availability::provide(&hub);
        hub
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
        self.inner.functions.forget(peer);
        self.inner.calls.forget(peer);
        self.inner.triggers.forget(peer);
        self.inner.observers.forget(peer);
        tracing::debug!(worker = peer.id, "worker left");
    }

    /// Replaces the connection of a worker that has come back. Its calls are stopped, its
    /// registrations gone, before the worker registers again.
    fn reattach(&self, peer: &Arc<Peer>, previous_worker_id: &str, token: &str) {
        use subtle::ConstantTimeEq as _;

        let previous = self.inner.lock_peers().get(previous_worker_id).cloned();
        // The hub may have restarted, or noticed the loss first: then there is nothing to replace.
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
        previous.queue.close(Close { code: 1000, reason: "replaced by a new connection" });
    }
}

impl Inner {
    fn lock_peers(&self) -> MutexGuard<'_, HashMap<String, Arc<Peer>>> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
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
