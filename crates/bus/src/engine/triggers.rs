//! Trigger types of this process, as the SDK serves them, and who is bound to them.
//!
//! An engine sends every subscription again when the connection is back. One that is known and
//! has not changed is not passed on, so that its provider goes on where it was.

use std::{collections::HashMap, sync::Arc};

use async_trait::async_trait;
use iii_sdk::{
    Error,
    trigger::{TriggerConfig, TriggerHandler},
};

use super::{Inner, functions::remote, lock};
use crate::{Json, TriggerBinding, TriggerProvider};

/// A subscription that its provider has.
pub(super) struct Bound {
    provider: Arc<dyn TriggerProvider>,
    /// What the provider calls the function; see [`Inner::target`].
    target: String,
    config: Json,
}

/// By trigger id. Providers are told while it is locked, so that they see subscriptions come and
/// go in one order.
pub(super) type Bindings = HashMap<String, Bound>;

pub(super) struct Provider {
    pub(super) provider: Arc<dyn TriggerProvider>,
    pub(super) inner: Arc<Inner>,
}

// The SDK starts both in the order of the engine's frames, and neither waits for anything.
#[async_trait]
impl TriggerHandler for Provider {
    async fn register_trigger(&self, config: TriggerConfig) -> Result<(), Error> {
        let TriggerConfig { id, function_id, config, namespace, .. } = config;
        let inner = &self.inner;
        let target = inner.target(&function_id, namespace.as_deref());
        let config = Json::from(&config);
        let _here = inner.runtime.enter();
        let mut bindings = lock(&inner.bindings);
        inner.lanes.heard(inner, &target, &function_id, namespace.as_deref());
        let known = bindings.get(&id);
        if known.is_some_and(|known| {
            Arc::ptr_eq(&known.provider, &self.provider)
                && known.target == target
                && known.config.as_str() == config.as_str()
        }) {
            return Ok(());
        }
        let binding =
            TriggerBinding { id: id.clone(), function_id: target.clone(), config: config.clone() };
        let outcome = self.provider.bind(binding);
        let former = match &outcome {
            Ok(()) => {
                let bound = Bound { provider: self.provider.clone(), target, config };
                bindings.insert(id, bound).map(|former| former.target)
            }
            Err(_) => {
                if bindings.remove(&id).is_some() {
                    self.provider.unbind(&id);
                }
                Some(target)
            }
        };
        if let Some(former) = former {
            inner.drop_unused(&bindings, &former);
        }
        outcome.map_err(|error| remote(&error))
    }

    async fn unregister_trigger(&self, config: TriggerConfig) -> Result<(), Error> {
        let _here = self.inner.runtime.enter();
        let mut bindings = lock(&self.inner.bindings);
        let bound = bindings.remove(&config.id);
        self.provider.unbind(&config.id);
        if let Some(bound) = bound {
            self.inner.drop_unused(&bindings, &bound.target);
        }
        Ok(())
    }
}

impl Inner {
    /// What providers call a subscriber's function. Within the worker's own namespace that is its
    /// id; the same id may exist in another one.
    fn target(&self, function_id: &str, namespace: Option<&str>) -> String {
        let own = self.namespace.as_deref().unwrap_or("default");
        match namespace {
            Some(other) if other != own => format!("{function_id}@{other}"),
            _ => function_id.to_owned(),
        }
    }

    /// Forgets how to reach a function that nobody is bound to any more.
    fn drop_unused(&self, bindings: &Bindings, target: &str) {
        if !bindings.values().any(|bound| bound.target == target) {
            self.lanes.remove(target);
        }
    }

    /// Ends the subscriptions of a function that has gone, unless it has come again meanwhile:
    /// `still` says whether it has not.
    pub(super) fn end_target(&self, target: &str, still: impl FnOnce() -> bool) -> bool {
        let _here = self.runtime.enter();
        let mut bindings = lock(&self.bindings);
        if !still() {
            return false;
        }
        for (id, bound) in bindings.extract_if(|_, bound| bound.target == target) {
            bound.provider.unbind(&id);
        }
        true
    }
}
