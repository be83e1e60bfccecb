//! Embedded hub: a server of the iii worker protocol to which unmodified SDKs connect.
//!
//! - `server`: routes, access control, shutdown; connections are accepted by `skills_net`
//! - `origin`: allowed origins of web pages
//! - `connection`: one WebSocket, its reader and its writer
//! - `route`: routing of frames
//! - `functions`, `triggers`, `observers`, `calls`: the tables, each with its rules; `observation`: a row of `observers`
//! - `function_access`: access to private functions
//! - `deliveries`: deduplication of calls that are sent again
//! - `activate`: activation of observers
//! - `peer`, `identity`: one connection, its SDK; `crate::wire` has its send queue
//! - `builtins`, `availability`: functions and trigger type of the hub itself, under `engine::`
//! - `local`: this process on the bus, `impl Bus for Hub`
//!
//! Payloads are JSON text that is passed on; only `engine::` functions parse theirs. Tables are behind mutexes that are
//! never held across an `await`.

mod activate;
mod availability;
mod builtins;
mod calls;
mod config;
mod connection;
mod deliveries;
mod engine_mode;
mod function_access;
mod functions;
mod identity;
mod local;
mod observation;
mod observers;
mod origin;
mod peer;
mod route;
mod routed_call_span;
mod server;
mod triggers;

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use parking_lot::Mutex;
use skills_core::{Code, LogLimiter, Timestamp, token::constant_time_eq};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use uuid::Uuid;

pub use config::HubConfig;
pub use engine_mode::EngineMode;

use self::{
    calls::Calls, deliveries::Deliveries, functions::Functions, identity::Identity,
    observers::Observers, peer::Peer, triggers::Triggers,
};
use crate::{protocol::outbound, wire::queue::CloseReason};

/// Embedded bus server. Clones are handles to the same hub.
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
    /// Disconnected workers that may reattach to their unanswered calls.
    detached: Mutex<HashMap<String, Arc<Peer>>>,
    /// Set at shutdown: running calls may finish, new calls are rejected.
    draining: AtomicBool,
    /// Closes every connection gracefully.
    closing: CancellationToken,
    /// Drops every connection.
    stop: CancellationToken,
    connections: TaskTracker,
    warnings: Warnings,
}

/// Limiters of warnings that a peer can cause at will.
#[derive(Default)]
struct Warnings {
    origin: LogLimiter,
    name: LogLimiter,
    reattach: LogLimiter,
    activation: LogLimiter,
}

impl Hub {
    /// Creates a hub without connections.
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
            detached: Mutex::default(),
            draining: AtomicBool::new(false),
            closing: CancellationToken::new(),
            stop: CancellationToken::new(),
            connections: TaskTracker::new(),
            warnings: Warnings::default(),
        };
        let hub = Self { inner: Arc::new(inner) };
        availability::register(&hub);
        hub
    }

    /// Stores the identity of a worker. Rejects the worker if names must be unique and its name is taken.
    fn identify(&self, peer: &Arc<Peer>, identity: Identity) {
        let name = identity
            .name
            .clone()
            .filter(|_| self.inner.config.unique_names && identity.understands_conflicts());
        peer.identify(identity);
        let Some(name) = name else { return };
        let owner = self.inner.peers().into_iter().find(|other| {
            let has_name = || other.identity().is_some_and(|it| it.name.as_ref() == Some(&name));
            !Arc::ptr_eq(other, peer) && !other.is_gone() && has_name()
        });
        if let Some(owner) = owner {
            if let Some(suppressed) = self.inner.warnings.name.check(Instant::now()) {
                tracing::warn!(
                    worker = peer.id,
                    name,
                    owner = owner.id,
                    suppressed,
                    "worker rejected: its name is taken"
                );
            }
            peer.queue.push_control(outbound::worker_rejected(&name, &owner.id));
            peer.queue.close(CloseReason { code: 1008, reason: "the worker's name is taken" });
        }
    }

    /// Returns a check whether a connected worker is a process of the user of this process, on the Unix socket.
    pub fn owner_check(&self) -> impl Fn(&str) -> bool + Send + Sync + 'static {
        // Functions of the hub use it, which must not keep the hub alive.
        let inner = Arc::downgrade(&self.inner);
        move |worker_id| {
            let is_owner = |inner: Arc<Inner>| {
                inner.peers.lock().get(worker_id).is_some_and(|peer| peer.is_owner)
            };
            inner.upgrade().is_some_and(is_owner)
        }
    }

    /// Returns the ids of the functions that connected workers serve to others, sorted.
    #[must_use]
    pub fn worker_functions(&self) -> Vec<String> {
        self.inner.functions.of_workers()
    }

    /// Subscribes to changes of the functions.
    #[must_use]
    pub fn function_changes(&self) -> tokio::sync::watch::Receiver<u64> {
        self.inner.functions.changed.subscribe()
    }

    /// Returns the number of connected workers.
    #[must_use]
    pub fn worker_count(&self) -> usize {
        self.inner.peers.lock().len()
    }

    fn add_peer(&self, peer: &Arc<Peer>) {
        self.inner.peers.lock().insert(peer.id.clone(), peer.clone());
    }

    /// Removes a peer from every table. Safe to call twice, and while its frames are being handled.
    fn remove_peer(&self, peer: &Arc<Peer>) {
        // A reattaching worker waits until the end of its previous connection is handled.
        let _removal = peer.removal.lock();
        if !peer.mark_gone() {
            return;
        }
        let may_reattach = peer.identity().is_some_and(|identity| identity.supports_reattach());
        if may_reattach && peer.open_calls.load(Ordering::SeqCst) > 0 {
            self.detach(peer);
        } else {
            self.inner.calls.remove_calls_from(peer);
        }
        // Only now, so that a reattaching worker finds it here or among the detached ones.
        self.inner.peers.lock().remove(&peer.id);
        let served = self.inner.functions.remove_peer(peer);
        self.inner.calls.fail_calls_to(peer);
        // At shutdown subscriptions stay: workers repeat them on the next hub, and providers continue.
        if !self.inner.is_draining() {
            self.inner.triggers.remove_peer(peer);
            self.inner.observers.remove_peer(peer);
            for id in served {
                self.inner.observers.source_changed(self, &id);
            }
        }
        tracing::debug!(worker = peer.id, "worker removed");
    }

    /// Buffers the replies to a disconnected worker for [`HubConfig::reattach_timeout`]: it may reattach.
    fn detach(&self, peer: &Arc<Peer>) {
        peer.buffer_replies();
        self.inner.detached.lock().insert(peer.id.clone(), peer.clone());
        let (inner, peer) = (Arc::downgrade(&self.inner), peer.clone());
        let (timeout, stop) = (self.inner.config.reattach_timeout, self.inner.stop.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = tokio::time::sleep(timeout) => {}
                () = stop.cancelled() => {}
            }
            let Some(inner) = inner.upgrade() else { return };
            inner.detached.lock().remove(&peer.id);
            if peer.stop_buffering() {
                inner.calls.remove_calls_from(&peer);
            }
        });
    }

    /// Replaces the previous connection of a worker. The calls that it served fail, and its registrations are removed
    /// before it repeats them; its own calls are answered on the new connection.
    fn reattach(&self, peer: &Arc<Peer>, previous_worker_id: &str, token: &str) {
        let connected = self.inner.peers.lock().get(previous_worker_id).cloned();
        let previous =
            connected.or_else(|| self.inner.detached.lock().get(previous_worker_id).cloned());
        // After a restart of the hub, or without unanswered calls, there is nothing to replace.
        let Some(previous) = previous.filter(|previous| !Arc::ptr_eq(previous, peer)) else {
            return;
        };
        if !constant_time_eq(previous.reattach_token.as_bytes(), token.as_bytes()) {
            if let Some(suppressed) = self.inner.warnings.reattach.check(Instant::now()) {
                tracing::warn!(worker = peer.id, suppressed, "reattach rejected: wrong token");
            }
            peer.send_error(&crate::CallError::remote(
                Code::ReattachRefused,
                "the reattach_token does not belong to that worker; the old connection stays",
            ));
            return;
        }
        tracing::debug!(worker = peer.id, previous = previous.id, "worker reattached");
        self.remove_peer(&previous);
        if self.inner.detached.lock().remove(&previous.id).is_some() {
            previous.forward_replies(peer);
        }
        previous.queue.close(CloseReason { code: 1000, reason: "replaced by a new connection" });
    }
}

impl Inner {
    fn peers(&self) -> Vec<Arc<Peer>> {
        self.peers.lock().values().cloned().collect()
    }

    fn is_draining(&self) -> bool {
        self.draining.load(Ordering::SeqCst)
    }
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hub")
            .field("config", &self.inner.config)
            .field("workers", &self.worker_count())
            .finish()
    }
}

fn now_ms() -> u64 {
    Timestamp::now().as_millis()
}
