//! Activates the observers of functions of workers: of those that are called through the hub, and
//! of those whose owner reports what happened.

use std::{sync::Arc, time::Instant};

use serde_json::{Map, Value, value::RawValue};
use tokio::runtime::Handle;
use uuid::Uuid;

use super::{Hub, functions::Target, observe::Watch, peer::Peer};
use crate::{
    Activation, Call, Deliver, ErrorBody, Json,
    protocol::{frame::Observed, outbound},
    running::guarded,
};

/// A call of an observed function that is under way.
pub(super) struct Observation {
    hub: Hub,
    function_id: String,
    input: Json,
    caller: Option<Arc<Peer>>,
    started_at_ms: u64,
    started: Instant,
}

impl std::fmt::Debug for Observation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Observation")
            .field("function_id", &self.function_id)
            .finish_non_exhaustive()
    }
}

/// What happened, as an envelope tells it. Payloads are JSON text.
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

impl Observation {
    /// Notes a call, if anyone observes the function.
    pub(super) fn begin(
        hub: &Hub,
        function_id: &str,
        data_json: &str,
        caller: Option<&Arc<Peer>>,
    ) -> Option<Box<Self>> {
        if !hub.inner.observers.any() || hub.inner.observers.lock().of(function_id).next().is_none()
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

    /// Activates the observers of a call that is done: all of them, or those its callee named.
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
            table.of(&self.function_id).cloned().collect()
        };
        let named = |id: &String| matched.is_none_or(|ids| ids.contains(id));
        for id in observers.iter().filter(|id| named(id)) {
            activate(&self.hub, id, &event, Watch::is_called_here);
        }
    }
}

/// Activates the observers that the owner of a function names.
pub(super) fn reported(hub: &Hub, owner: &Arc<Peer>, items: &[Observed<'_>]) {
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
            activate(hub, id, &event, |watch| watch.is_owned_by(owner));
        }
    }
}

fn activate(hub: &Hub, id: &str, event: &Event<'_>, by: impl Fn(&Watch) -> bool) {
    let mut table = hub.inner.observers.lock();
    let wants = |watch: &Watch| match watch.on.as_str() {
        "error" => !event.success,
        "complete" => true,
        _ => event.success,
    };
    let Some(watch) =
        table.watch(id).filter(|watch| watch.is_active() && by(watch) && wants(watch))
    else {
        return;
    };
    let Some((target, _)) = hub.inner.functions.find(&watch.target) else { return };
    let activation = Activation {
        observer_id: id.to_owned(),
        activation_id: Uuid::now_v7().to_string(),
        metadata: watch.metadata.clone(),
    };
    let data = payload(event, watch, &activation);
    watch.fire();
    // Sent under the lock, so that activations of one observer keep the order of the events.
    match target {
        Target::Worker(callee) => {
            let call = hub.inner.calls.next_id();
            let text = outbound::notification(call, &watch.target, &data, Some(&activation));
            if callee.queue.offer(text).is_err() {
                tracing::warn!(
                    observer = id,
                    "an activation was dropped: its worker does not read"
                );
            }
        }
        Target::Local(function) => {
            let raw = RawValue::from_string(data).ok();
            if let (Some(raw), Ok(runtime)) = (raw, Handle::try_current()) {
                runtime.spawn(guarded(function, Call { data: Json::from(raw), caller: None }));
            }
        }
        Target::Observable(_) => {}
    }
    drop(table);
    hub.inner.observers.fired(id);
}

fn payload(event: &Event<'_>, watch: &Watch, activation: &Activation) -> String {
    match watch.deliver {
        Deliver::Input => return event.input.unwrap_or("null").to_owned(),
        Deliver::Output => return event.output.unwrap_or("null").to_owned(),
        Deliver::Envelope => {}
    }
    let captures = |part: &str| watch.capture.iter().any(|captured| captured == part);
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
    // Payloads are text already: they go in as they are.
    let parts = [("input", event.input), ("output", event.output), ("metadata", event.metadata)];
    for (part, json) in parts {
        if let Some(json) = json.filter(|_| captures(part)) {
            text.pop();
            text.push_str(&format!(",\"{part}\":{json}}}"));
        }
    }
    text
}
