//! Writes the frames of a hub by concatenation, around payloads that are JSON text already.
//!
//! Parameters named `…_json` are JSON text; all others are plain strings that are escaped here.

use skills_core::Code;
use uuid::Uuid;

pub(crate) use super::object::quote;
use super::{frame::CallContext, object::Object};
use crate::{Activation, CALLER_FIELD, ErrorBody, Json};

/// Appends a payload without parsing it. An object gets the caller's id as its last key, which overrides one that the
/// caller wrote itself.
pub(crate) fn push_payload(text: &mut String, data_json: &str, caller_id: Option<&str>) {
    let object = data_json.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    let (Some(caller_id), Some(body)) = (caller_id, object) else {
        text.push_str(data_json);
        return;
    };
    text.push('{');
    text.push_str(body);
    if !body.trim_ascii().is_empty() {
        text.push(',');
    }
    text.push_str(&format!("\"{CALLER_FIELD}\":{}}}", quote(caller_id)));
}

pub(crate) fn worker_registered(
    worker_id: &str,
    reattach_token: Option<&str>,
    features: &[&str],
) -> String {
    let token = reattach_token.map(quote);
    let features: Vec<_> = features.iter().copied().map(quote).collect();
    let features = (!features.is_empty()).then(|| format!("[{}]", features.join(",")));
    Object::new("workerregistered", 200)
        .string("worker_id", worker_id)
        .json_if("reattach_token", token.as_deref())
        .json_if("features", features.as_deref())
        .end()
}

pub(crate) fn invoke(
    id: Uuid,
    function_id_json: &str,
    data_json: &str,
    caller_id: Option<&str>,
    context: &CallContext<'_>,
) -> String {
    let mut frame = Object::new("invokefunction", data_json.len() + function_id_json.len() + 192)
        .uuid("invocation_id", id)
        .json("function_id", function_id_json);
    frame.name("data");
    push_payload(frame.text_mut(), data_json, caller_id);
    frame.context(context).end()
}

/// Writes a void call from the hub: a trigger that fires, or the activation of an observer.
pub(crate) fn notification(
    id: Uuid,
    function_id: &str,
    data_json: &str,
    activation: Option<&Activation>,
) -> String {
    let mut frame = Object::new("invokefunction", data_json.len() + 256)
        .uuid("invocation_id", id)
        .string("function_id", function_id)
        .json("data", data_json)
        .json("action", "{\"type\":\"void\"}");
    if let Some(Activation { observer_id, activation_id, metadata }) = activation {
        let json = format!(
            "{{\"observer_id\":{},\"activation_id\":{}}}",
            quote(observer_id),
            quote(activation_id)
        );
        frame = frame
            .json("observe_depth", "1")
            .json("activation", &json)
            .json_if("metadata", metadata.as_ref().map(Json::as_str));
    }
    frame.end()
}

pub(crate) fn result(
    invocation_id_json: &str,
    function_id_json: &str,
    result_json: &str,
    context: &CallContext<'_>,
) -> String {
    let capacity = result_json.len() + invocation_id_json.len() + function_id_json.len() + 64;
    Object::new("invocationresult", capacity)
        .json("invocation_id", invocation_id_json)
        .json("function_id", function_id_json)
        .json("result", result_json)
        .context(context)
        .end()
}

pub(crate) fn failure(
    invocation_id_json: &str,
    function_id_json: &str,
    error: &ErrorBody,
) -> String {
    Object::new("invocationresult", error.message.len() + 160)
        .json("invocation_id", invocation_id_json)
        .json("function_id", function_id_json)
        .error("error", error)
        .end()
}

/// Writes an error about a frame that has no answer. SDKs ignore the type.
pub(crate) fn error(error: &ErrorBody) -> String {
    Object::new("error", error.message.len() + 64).error("error", error).end()
}

pub(crate) fn pong() -> String {
    Object::new("pong", 0).end()
}

pub(crate) fn registration_rejected(function_id: &str, owner_worker_id: &str) -> String {
    // Any other code makes SDKs give up for good, and they require each of these fields.
    Object::new("registrationrejected", 200)
        .string("code", Code::FunctionNamespaceConflict.as_str())
        .string("namespace", "default")
        .string("function_id", function_id)
        .string("owner_worker_id", owner_worker_id)
        .end()
}

pub(crate) fn worker_rejected(name: &str, owner_worker_id: &str) -> String {
    Object::new("registrationrejected", 200)
        .string("code", Code::WorkerNamespaceConflict.as_str())
        .string("namespace", "default")
        .string("worker_name", name)
        .string("owner_worker_id", owner_worker_id)
        .end()
}

pub(crate) fn register_trigger(
    id: &str,
    trigger_type: &str,
    function_id: &str,
    config_json: &str,
    metadata_json: Option<&str>,
) -> String {
    Object::new("registertrigger", config_json.len() + 160)
        .string("id", id)
        .string("trigger_type", trigger_type)
        .string("function_id", function_id)
        .json("config", config_json)
        .json_if("metadata", metadata_json)
        .end()
}

pub(crate) fn unregister_trigger(id: &str, trigger_type: &str) -> String {
    Object::new("unregistertrigger", 128)
        .string("id", id)
        .string("trigger_type", trigger_type)
        .end()
}

pub(crate) fn trigger_failed(
    id: &str,
    trigger_type: &str,
    function_id: &str,
    error: &ErrorBody,
) -> String {
    Object::new("triggerregistrationresult", 256)
        .string("id", id)
        .string("trigger_type", trigger_type)
        .string("function_id", function_id)
        .error("error", error)
        .end()
}

pub(crate) fn observe_result(id: &str, state: &str) -> String {
    Object::new("observeresult", 160).string("id", id).string("state", state).end()
}

pub(crate) fn observe_rejected(id: &str, error: &ErrorBody) -> String {
    Object::new("observeresult", 160)
        .string("id", id)
        .string("state", "error")
        .error("error", error)
        .end()
}

pub(crate) fn observer_state(
    id: &str,
    state: &str,
    reason: Option<&ErrorBody>,
    fires: u64,
) -> String {
    let frame = Object::new("observerstatechanged", 160).string("id", id).string("state", state);
    match reason {
        Some(reason) => frame.error("reason", reason),
        None => frame,
    }
    .json("fires", &fires.to_string())
    .end()
}

/// Writes the confirmation of a function for its owner, with the observers of the function.
pub(crate) fn function_registered(id: &str, revision: u64, observers_json: &str) -> String {
    Object::new("functionregistered", observers_json.len() + 96)
        .string("id", id)
        .string("namespace", "default")
        .json("revision", &revision.to_string())
        .json("local_dispatch", "false")
        .json("observers", observers_json)
        .end()
}

pub(crate) fn observer_added(function_id: &str, revision: u64, observer_json: &str) -> String {
    Object::new("observeradded", observer_json.len() + 96)
        .string("function_id", function_id)
        .string("namespace", "default")
        .json("revision", &revision.to_string())
        .json("observer", observer_json)
        .end()
}

pub(crate) fn observer_removed(function_id: &str, revision: u64, id: &str) -> String {
    Object::new("observerremoved", 160)
        .string("function_id", function_id)
        .string("namespace", "default")
        .json("revision", &revision.to_string())
        .string("id", id)
        .end()
}
