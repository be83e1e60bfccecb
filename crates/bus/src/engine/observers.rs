//! Functions of this process that are there to be observed.
//!
//! They are owner-delivered: the engine tells who observes, and this process says which of them an
//! event is for. The engine makes the envelope, so observers look here as if they all wanted the
//! input alone. Whoever also subscribed by trigger has the same target, and its announcer, who
//! sees both, sends each event once.

use std::sync::{Arc, atomic::Ordering};

use async_trait::async_trait;
use iii_sdk::{ObserveHandler, ObserveRejection, Observer as Observing};
use serde_json::Value;

use super::{Inner, lock};
use crate::{Activation, CallError, Deliver, Json, Observer, ObserverSink};

/// Events that are handed to the SDK before it is waited for. It drops what it cannot hold, which
/// is ten thousand.
const BURST: usize = 2000;

pub(super) struct Hooks {
    pub(super) sink: Arc<dyn ObserverSink>,
    pub(super) inner: Arc<Inner>,
}

#[async_trait]
impl ObserveHandler for Hooks {
    async fn on_observer_added(&self, observing: &Observing) -> Result<(), ObserveRejection> {
        let id = observing.id().to_owned();
        lock(&self.inner.observers).insert(id.clone(), observing.clone());
        let _here = self.inner.runtime.enter();
        self.sink.observe(Observer {
            id,
            target: observing.target().to_owned(),
            deliver: Deliver::Input,
            metadata: None,
        });
        Ok(())
    }

    async fn on_observer_removed(&self, observing: &Observing) {
        let mut observers = lock(&self.inner.observers);
        // Perhaps it has come again already.
        if observers.get(observing.id()).is_some_and(Observing::is_active) {
            return;
        }
        observers.remove(observing.id());
        drop(observers);
        let _here = self.inner.runtime.enter();
        self.sink.unobserve(observing.id());
    }
}

impl Inner {
    /// Activates one observer. The engine checks its filters and limits and wraps the event.
    pub(super) async fn activate(
        &self,
        target: &str,
        data: &Json,
        activation: &Activation,
    ) -> Result<(), CallError> {
        self.connected(target).await?;
        let inactive = || {
            let id = &activation.observer_id;
            CallError::remote("OBSERVER_NOT_ACTIVE", format!("the observer {id} has gone"))
        };
        let observing =
            lock(&self.observers).get(&activation.observer_id).cloned().ok_or_else(inactive)?;
        let event: Value = data
            .parse()
            .map_err(|error| CallError::remote("serialization_error", error.to_string()))?;
        if self.emitted.fetch_add(1, Ordering::Relaxed) >= BURST {
            self.emitted.store(0, Ordering::Relaxed);
            self.flushed().await;
        }
        match observing.emit(&event) {
            Ok(true) => Ok(()),
            // Its filters, which the engine keeps to itself, do not want the event.
            Ok(false) if observing.is_active() => Ok(()),
            Ok(false) => Err(inactive()),
            Err(error) => Err(CallError::remote("invocation_failed", error.to_string())),
        }
    }
}
