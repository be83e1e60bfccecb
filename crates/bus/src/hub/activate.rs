//! Activation of the observers of workers' functions: functions that are called through the hub, and functions whose
//! owner reports its events.

use std::{sync::Arc, time::Instant};

use serde_json::{Map, Value, value::RawValue};
use uuid::Uuid;

use super::{
    Hub, function_access::may_call_for_subscription, functions::Target, observation::Observation,
    peer::Peer,
};
use crate::{
    Activation, DeliveryMode, ErrorBody, Json,
    protocol::{frame::ObservedEvent, outbound},
};

/// Unanswered call of an observed function.
pub(super) struct ObservedCall {
    hub: Hub,
    function_id: String,
    input: Json,
    caller: Option<Arc<Peer>>,
    started_at_ms: u64,
    started: Instant,
}

impl std::fmt::Debug for ObservedCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Observation")
            .field("function_id", &self.function_id)
            .finish_non_exhaustive()
    }
}

/// Event that observers receive. Payloads are JSON text.
struct Event<'a> {
    function_id: &'a str,
    invocation_id: &'a str,
    success: bool,
    input: Option<&'a str>,
    output: Option<&'a str>,
    error: Option<Value>,
    caller: Option<Value>,
    metadata: Option<&'a str>,
    started_at_ms: u64,
    duration_ms: f64,
}

impl ObservedCall {
    /// Starts observing a call; `None` if the function has no observers.
    pub(super) fn begin(
        hub: &Hub,
        function_id: &str,
        data_json: &str,
        caller: Option<&Arc<Peer>>,
    ) -> Option<Box<Self>> {
        if !hub.inner.observers.has_any()
            || hub.inner.observers.lock().ids_of(function_id).next().is_none()
        {
            return None;
        }
        let input = RawValue::from_string(data_json.to_owned()).ok()?;
        Some(Box::new(Self {
            hub: hub.clone(),
            function_id: function_id.to_owned(),
            input: Json::from(input),
            caller: caller.cloned(),
            started_at_ms: super::now_ms(),
            started: Instant::now(),
        }))
    }

    /// Activates the observers of a finished call: all of them, or those that the callee selected.
    pub(super) fn complete(self, outcome: Result<&str, &ErrorBody>, matched: Option<&[String]>) {
        let caller = self.caller.as_ref().map(|peer| {
            let name = peer.identity().and_then(|identity| identity.name.clone());
            serde_json::json!({"worker_id": peer.id, "worker_name": name})
        });
        let event = Event {
            function_id: &self.function_id,
            invocation_id: &Uuid::new_v4().to_string(),
            success: outcome.is_ok(),
            input: Some(self.input.as_str()),
            output: outcome.ok(),
            error: outcome
                .err()
                .map(|error| serde_json::json!({"code": error.code, "message": error.message})),
            caller,
            metadata: None,
            started_at_ms: self.started_at_ms,
            duration_ms: self.started.elapsed().as_secs_f64() * 1000.0,
        };
        let observers: Vec<String> = {
            let table = self.hub.inner.observers.lock();
            table.ids_of(&self.function_id).cloned().collect()
        };
        for id in observers.iter().filter(|id| matched.is_none_or(|ids| ids.contains(id))) {
            activate(&self.hub, id, &event, Observation::is_hub_delivered);
        }
    }
}

/// Activates the observers that the owner of a function selected.
pub(super) fn activate_reported(hub: &Hub, owner: &Arc<Peer>, items: &[ObservedEvent<'_>]) {
    let value = |raw: &RawValue| serde_json::from_str(raw.get()).ok();
    for item in items {
        let event = Event {
            function_id: &item.function_id,
            invocation_id: &item.invocation_id,
            success: item.status == "success",
            input: item.input.map(RawValue::get),
            output: item.output.map(RawValue::get),
            error: item.error.and_then(value),
            caller: item.caller.and_then(value),
            metadata: item.metadata.map(RawValue::get),
            started_at_ms: item.started_at_ms,
            duration_ms: item.duration_ms,
        };
        for id in &item.matched {
            activate(hub, id, &event, |observation| observation.is_delivered_by(owner));
        }
    }
}

fn activate(hub: &Hub, id: &str, event: &Event<'_>, is_allowed: impl Fn(&Observation) -> bool) {
    let mut table = hub.inner.observers.lock();
    let is_wanted = |observation: &Observation| match observation.on.as_str() {
        "error" => !event.success,
        "complete" => true,
        _ => event.success,
    };
    let Some(observation) =
        table.get_mut(id).filter(|it| it.is_active() && is_allowed(it) && is_wanted(it))
    else {
        return;
    };
    let Some((target, is_private)) = hub.inner.functions.lookup(&observation.target) else {
        return;
    };
    if !may_call_for_subscription(&target, is_private, |owner| observation.is_from(owner)) {
        return;
    }
    let activation = Activation {
        observer_id: id.to_owned(),
        activation_id: Uuid::now_v7().to_string(),
        metadata: observation.metadata.clone(),
    };
    let data = payload(event, observation, &activation);
    observation.fires += 1;
    // Sent under the lock, so that activations of one observer keep the order of the events.
    match target {
        Target::Worker(callee) => {
            let call = hub.inner.calls.next_id();
            let text = outbound::notification(call, &observation.target, &data, Some(&activation));
            if callee.queue.try_push_call(text).is_err()
                && let Some(suppressed) = hub.inner.warnings.activation.check(Instant::now())
            {
                tracing::warn!(
                    observer = id,
                    suppressed,
                    "activation dropped: the worker does not read its messages"
                );
            }
        }
        // Not subscribable; see `may_call_for_subscription`.
        Target::Local(_) | Target::Observable(_) => {}
    }
    drop(table);
    hub.inner.observers.remove_if_exhausted(id);
}

fn payload(event: &Event<'_>, observation: &Observation, activation: &Activation) -> String {
    match observation.deliver {
        DeliveryMode::Input => return event.input.unwrap_or("null").to_owned(),
        DeliveryMode::Output => return event.output.unwrap_or("null").to_owned(),
        DeliveryMode::Envelope => {}
    }
    let captures = |part: &str| observation.capture.iter().any(|captured| captured == part);
    let mut envelope = Map::new();
    let mut put = |key: &str, value: Value| {
        envelope.insert(key.to_owned(), value);
    };
    put("observer_id", activation.observer_id.as_str().into());
    put("activation_id", activation.activation_id.as_str().into());
    put("function_id", event.function_id.into());
    put("namespace", "default".into());
    put("invocation_id", event.invocation_id.into());
    put("status", if event.success { "success" } else { "error" }.into());
    put("started_at_ms", event.started_at_ms.into());
    put("duration_ms", event.duration_ms.into());
    for (part, value) in [("error", &event.error), ("caller", &event.caller)] {
        if let Some(value) = value.as_ref().filter(|_| captures(part)) {
            put(part, value.clone());
        }
    }
    let mut text = Value::Object(envelope).to_string();
    // Payloads are JSON text already.
    let parts = [("input", event.input), ("output", event.output), ("metadata", event.metadata)];
    for (part, json) in parts {
        if let Some(json) = json.filter(|_| captures(part)) {
            text.pop();
            text.push_str(&format!(",\"{part}\":{json}}}"));
        }
    }
    text
}
