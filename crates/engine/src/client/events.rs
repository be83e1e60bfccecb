//! Subscriptions to trigger types of this process, and observers of its functions, as the engine reports them.
//!
//! An engine resends every subscription after a reconnect. Unchanged ones are not passed on, so that their provider
//! continues where it was.

use std::{collections::HashMap, sync::Arc};

use skills_bus::{
    CallError, DeliveryMode, Json, Observer, TriggerBinding, TriggerProvider,
    client::{TriggerRequest, WorkerEvents},
};
use skills_core::Code;

use super::Inner;

/// A subscription that its provider has accepted.
pub(super) struct Bound {
    provider: Arc<dyn TriggerProvider>,
    /// Name of the function towards the provider; see [`Inner::target`].
    target: String,
    config: Json,
}

/// Subscriptions by trigger id. Providers are called while it is locked, so that they see all changes in one order.
pub(super) type Bindings = HashMap<String, Bound>;

impl WorkerEvents for Inner {
    fn trigger_added(&self, trigger: TriggerRequest<'_>) -> Result<(), CallError> {
        let TriggerRequest { id, trigger_type, function_id, namespace, config, epoch } = trigger;
        let provider = self.providers.lock().get(trigger_type).cloned();
        let (Some(provider), Some(this)) = (provider, self.this.upgrade()) else {
            let message = format!("{trigger_type} has no provider");
            return Err(CallError::remote(Code::TriggerRegistrationFailed, message));
        };
        let target = self.target(function_id, namespace);
        let mut bindings = self.bindings.lock();
        self.lanes.confirm(&this, &target, function_id, namespace, epoch);
        if bindings.get(id).is_some_and(|bound| {
            Arc::ptr_eq(&bound.provider, &provider)
                && bound.target == target
                && bound.config.as_str() == config.as_str()
        }) {
            return Ok(());
        }
        let binding = TriggerBinding {
            id: id.to_owned(),
            function_id: target.clone(),
            config: config.clone(),
            subscriber: None,
        };
        let outcome = provider.bind(binding);
        let unused = match &outcome {
            Ok(()) => {
                let bound = Bound { provider, target, config };
                bindings.insert(id.to_owned(), bound).map(|previous| previous.target)
            }
            Err(_) => {
                if bindings.remove(id).is_some() {
                    provider.unbind(id);
                }
                Some(target)
            }
        };
        if let Some(target) = unused {
            self.remove_unused_lane(&bindings, &target);
        }
        outcome
    }

    fn trigger_removed(&self, trigger_type: &str, id: &str) {
        let mut bindings = self.bindings.lock();
        let bound = bindings.remove(id);
        let provider = bound.as_ref().map(|bound| Arc::clone(&bound.provider));
        if let Some(provider) =
            provider.or_else(|| self.providers.lock().get(trigger_type).cloned())
        {
            provider.unbind(id);
        }
        if let Some(bound) = bound {
            self.remove_unused_lane(&bindings, &bound.target);
        }
    }

    /// Adds an observer. The engine builds the envelopes, so observers appear here as if they all wanted the input alone.
    fn observer_added(&self, function_id: &str, id: &str, target: &str) {
        self.observers.lock().insert(id.to_owned(), function_id.to_owned());
        let sink = self.sinks.lock().get(function_id).cloned();
        if let Some(sink) = sink {
            sink.observe(Observer {
                id: id.to_owned(),
                target: target.to_owned(),
                deliver: DeliveryMode::Input,
                metadata: None,
                subscriber: None,
            });
        }
    }

    fn observer_removed(&self, function_id: &str, id: &str) {
        self.observers.lock().remove(id);
        let sink = self.sinks.lock().get(function_id).cloned();
        if let Some(sink) = sink {
            sink.unobserve(id);
        }
    }
}

impl Inner {
    /// Returns the name of a subscriber's function towards providers: its id within the worker's own namespace, else
    /// `id@namespace`.
    fn target(&self, function_id: &str, namespace: Option<&str>) -> String {
        let own = self.namespace.as_deref().unwrap_or("default");
        match namespace {
            Some(other) if other != own => format!("{function_id}@{other}"),
            _ => function_id.to_owned(),
        }
    }

    /// Removes the lane of a function without subscriptions.
    fn remove_unused_lane(&self, bindings: &Bindings, target: &str) {
        if !bindings.values().any(|bound| bound.target == target) {
            self.lanes.remove(target);
        }
    }

    /// Ends the subscriptions of a function that is gone, unless it has returned meanwhile: `is_still_gone` is called
    /// under the lock.
    pub(crate) fn end_subscriptions(
        &self,
        target: &str,
        is_still_gone: impl FnOnce() -> bool,
    ) -> bool {
        let mut bindings = self.bindings.lock();
        if !is_still_gone() {
            return false;
        }
        for (id, bound) in bindings.extract_if(|_, bound| bound.target == target) {
            bound.provider.unbind(&id);
        }
        true
    }
}
