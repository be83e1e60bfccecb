//! Registrations of a worker, which are sent again on each connection.

use std::{collections::BTreeMap, sync::Arc};

use uuid::Uuid;

use crate::{
    Function, FunctionSpec, TriggerTypeSpec, protocol::worker_outbound, wire::queue::Queue,
};

/// Id of a subscription of this worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubscriptionId(String);

struct FunctionEntry {
    frame: String,
    function: Arc<dyn Function>,
}

struct Subscription {
    frame: String,
    trigger_type: String,
}

/// Functions, trigger types and subscriptions of a worker.
#[derive(Default)]
pub(super) struct Registrations {
    functions: BTreeMap<String, FunctionEntry>,
    trigger_types: BTreeMap<String, String>,
    subscriptions: BTreeMap<String, Subscription>,
}

impl Registrations {
    /// Adds a function, or replaces the one of the same id, and returns its frame.
    pub(super) fn add_function(
        &mut self,
        spec: &FunctionSpec,
        function: Arc<dyn Function>,
        is_observable: bool,
    ) -> String {
        let frame = worker_outbound::register_function(spec, is_observable);
        self.functions.insert(spec.id.clone(), FunctionEntry { frame: frame.clone(), function });
        frame
    }

    pub(super) fn function(&self, id: &str) -> Option<Arc<dyn Function>> {
        self.functions.get(id).map(|entry| Arc::clone(&entry.function))
    }

    pub(super) fn add_trigger_type(&mut self, spec: &TriggerTypeSpec) -> String {
        let frame = worker_outbound::register_trigger_type(spec);
        self.trigger_types.insert(spec.id.clone(), frame.clone());
        frame
    }

    pub(super) fn has_trigger_type(&self, id: &str) -> bool {
        self.trigger_types.contains_key(id)
    }

    pub(super) fn add_subscription(
        &mut self,
        trigger_type: &str,
        function_id: &str,
        config_json: &str,
        namespace: Option<&str>,
    ) -> (SubscriptionId, String) {
        let id = Uuid::new_v4().to_string();
        let frame =
            worker_outbound::subscribe(&id, trigger_type, function_id, config_json, namespace);
        let subscription =
            Subscription { frame: frame.clone(), trigger_type: trigger_type.to_owned() };
        self.subscriptions.insert(id.clone(), subscription);
        (SubscriptionId(id), frame)
    }

    /// Removes a subscription and returns the frame that ends it.
    pub(super) fn remove_subscription(&mut self, id: &SubscriptionId) -> Option<String> {
        let subscription = self.subscriptions.remove(&id.0)?;
        Some(crate::protocol::outbound::unregister_trigger(&id.0, &subscription.trigger_type))
    }

    /// Queues all registrations on a new connection.
    pub(super) fn replay(&self, queue: &Queue) {
        let functions = self.functions.values().map(|entry| &entry.frame);
        let subscriptions = self.subscriptions.values().map(|subscription| &subscription.frame);
        for frame in self.trigger_types.values().chain(functions).chain(subscriptions) {
            queue.push_control(frame.clone());
        }
    }

    /// Removes everything. Functions may hold handles to the client.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}
