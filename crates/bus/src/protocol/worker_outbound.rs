//! Writes the frames of a worker. Parameters named `…_json` are JSON text; all others are plain strings.

use serde_json::Value;
use uuid::Uuid;

use super::{IDENTIFY, object::Object};
use crate::{ErrorBody, FunctionSpec, TriggerTypeSpec};

/// Call of a function on a server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallFrame<'a> {
    pub(crate) function_id: &'a str,
    pub(crate) data_json: &'a str,
    pub(crate) namespace: Option<&'a str>,
    pub(crate) metadata_json: Option<&'a str>,
}

pub(crate) fn call(id: Uuid, call: &CallFrame<'_>) -> String {
    Object::new("invokefunction", call.data_json.len() + call.function_id.len() + 256)
        .uuid("invocation_id", id)
        .string("function_id", call.function_id)
        .json("data", call.data_json)
        .json_if("metadata", call.metadata_json)
        .string_if("namespace", call.namespace)
        .end()
}

/// Writes the call by which a worker identifies itself. No answer is wanted.
pub(crate) fn identify(identity: &Value) -> String {
    Object::new("invokefunction", 512)
        .string("function_id", IDENTIFY)
        .json("data", &identity.to_string())
        .json("action", "{\"type\":\"void\"}")
        .end()
}

pub(crate) fn reattach(previous_worker_id: &str, token: Option<&str>) -> String {
    Object::new("reattach", 128)
        .string("previous_worker_id", previous_worker_id)
        .string_if("reattach_token", token)
        .end()
}

/// Writes the registration of a function; an observable one selects the observers of its events itself.
pub(crate) fn register_function(spec: &FunctionSpec, is_observable: bool) -> String {
    let text = |value: &Option<Value>| value.as_ref().map(Value::to_string);
    let description = Some(spec.description.as_str()).filter(|text| !text.is_empty());
    Object::new("registerfunction", 512)
        .string("id", &spec.id)
        .string_if("description", description)
        .json_if("request_format", text(&spec.request_format).as_deref())
        .json_if("response_format", text(&spec.response_format).as_deref())
        .json_if("metadata", text(&spec.metadata).as_deref())
        .json_if("observe", is_observable.then_some("{\"delivery\":\"owner\"}"))
        .end()
}

pub(crate) fn register_trigger_type(spec: &TriggerTypeSpec) -> String {
    let text = |value: &Option<Value>| value.as_ref().map(Value::to_string);
    Object::new("registertriggertype", 512)
        .string("id", &spec.id)
        .string("description", &spec.description)
        .json_if("trigger_request_format", text(&spec.trigger_request_format).as_deref())
        .json_if("call_request_format", text(&spec.call_request_format).as_deref())
        .end()
}

/// Writes a subscription. The namespace is that of the subscribed function.
pub(crate) fn subscribe(
    id: &str,
    trigger_type: &str,
    function_id: &str,
    config_json: &str,
    namespace: Option<&str>,
) -> String {
    Object::new("registertrigger", config_json.len() + 192)
        .string("id", id)
        .string("trigger_type", trigger_type)
        .string("function_id", function_id)
        .json("config", config_json)
        .string_if("namespace", namespace)
        .end()
}

/// Writes the answer of a provider to a subscription.
pub(crate) fn trigger_result(
    id: &str,
    trigger_type: &str,
    function_id: &str,
    error: Option<&ErrorBody>,
) -> String {
    let frame = Object::new("triggerregistrationresult", 256)
        .string("id", id)
        .string("trigger_type", trigger_type)
        .string("function_id", function_id);
    match error {
        Some(error) => frame.error("error", error),
        None => frame,
    }
    .end()
}

/// Writes the answer of an owner to an observer.
pub(crate) fn observer_ack(
    function_id: &str,
    namespace: Option<&str>,
    id: &str,
    revision: u64,
    error: Option<&ErrorBody>,
) -> String {
    let frame = Object::new("observerack", 192)
        .string("function_id", function_id)
        .string_if("namespace", namespace)
        .string("id", id)
        .json("revision", &revision.to_string());
    match error {
        Some(error) => frame.error("error", error),
        None => frame,
    }
    .end()
}

/// Event of an observable function for one observer.
#[derive(Debug)]
pub(crate) struct ObservedEvent<'a> {
    pub(crate) function_id: &'a str,
    pub(crate) namespace: Option<&'a str>,
    pub(crate) event_id: Uuid,
    pub(crate) observer_id: &'a str,
    pub(crate) input_json: &'a str,
    /// Id and name of this worker.
    pub(crate) caller: (&'a str, &'a str),
    pub(crate) at_ms: u64,
}

pub(crate) fn observed(event: &ObservedEvent<'_>) -> String {
    let item = Object::anonymous(event.input_json.len() + 384)
        .string("function_id", event.function_id)
        .string_if("namespace", event.namespace)
        .uuid("invocation_id", event.event_id)
        .json("matched", &Value::from(vec![event.observer_id]).to_string())
        .string("status", "success")
        .json("input", event.input_json)
        .json(
            "caller",
            &serde_json::json!({"worker_id": event.caller.0, "worker_name": event.caller.1})
                .to_string(),
        )
        .json("started_at_ms", &event.at_ms.to_string())
        .json("duration_ms", "0.0")
        .json("observe_depth", "0")
        .end();
    let mut frame = Object::new("invocationsobserved", item.len() + 16);
    frame.name("items");
    let text = frame.text_mut();
    text.push('[');
    text.push_str(&item);
    text.push(']');
    frame.end()
}
