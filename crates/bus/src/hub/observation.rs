//! One observation: which worker observes which function, and how it is activated.

use std::sync::Arc;

use serde_json::Value;
use tokio::task::AbortHandle;

use super::peer::Peer;
use crate::{DeliveryMode, ErrorBody, Json, Observer, ObserverSink, protocol::outbound};

/// Component that activates an observer.
#[derive(Clone)]
pub(super) enum DeliverySource {
    /// This process, which knows the observer.
    Local(Arc<dyn ObserverSink>),
    /// The worker that serves the function. The observer is active once the worker has acknowledged it.
    Owner(Arc<Peer>),
    /// The hub.
    Hub,
    /// No worker serves the function.
    Unavailable,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Pending,
    Active,
    Suspended,
}

/// Observation of a function by a worker.
pub(super) struct Observation {
    pub(super) peer: Arc<Peer>,
    pub(super) function_id: String,
    pub(super) source: DeliverySource,
    pub(super) state: State,
    pub(super) target: String,
    pub(super) deliver: DeliveryMode,
    pub(super) metadata: Option<Json>,
    /// `success`, `error` or `complete`.
    pub(super) on: String,
    pub(super) capture: Vec<String>,
    pub(super) args: Value,
    pub(super) fires: u64,
    pub(super) max_fires: Option<u64>,
    pub(super) size: usize,
    pub(super) expiry: Option<AbortHandle>,
}

impl Drop for Observation {
    fn drop(&mut self) {
        if let Some(expiry) = &self.expiry {
            expiry.abort();
        }
    }
}

impl Observation {
    pub(super) fn is_active(&self) -> bool {
        self.state == State::Active && !self.is_exhausted()
    }

    /// Returns whether this worker is the observer.
    pub(super) fn is_from(&self, peer: &Arc<Peer>) -> bool {
        Arc::ptr_eq(&self.peer, peer)
    }

    pub(super) fn is_hub_delivered(&self) -> bool {
        matches!(self.source, DeliverySource::Hub)
    }

    pub(super) fn is_delivered_by(&self, peer: &Arc<Peer>) -> bool {
        matches!(&self.source, DeliverySource::Owner(owner) if Arc::ptr_eq(owner, peer))
    }

    pub(super) fn is_exhausted(&self) -> bool {
        self.max_fires.is_some_and(|max| self.fires >= max)
    }

    /// Returns the observer for a sink of this process.
    pub(super) fn to_observer(&self, id: &str) -> Observer {
        Observer {
            id: id.to_owned(),
            target: self.target.clone(),
            deliver: self.deliver,
            metadata: self.metadata.clone(),
            subscriber: Some(self.peer.id.clone()),
        }
    }

    /// Returns the observer for the worker that delivers it.
    pub(super) fn to_json(&self, id: &str) -> Value {
        serde_json::json!({
            "id": id,
            "args": self.args,
            "filters": {},
            "target": self.target,
            "capture": self.capture,
            "on": self.on,
        })
    }

    pub(super) fn set_state(&mut self, id: &str, state: State, reason: Option<&ErrorBody>) {
        if self.state == state {
            return;
        }
        self.state = state;
        let name = match state {
            State::Pending => "pending",
            State::Active => "active",
            State::Suspended => "suspended",
        };
        self.peer.queue.push_control(outbound::observer_state(id, name, reason, self.fires));
    }
}
