//! Functions of the hub itself, under `engine::`. Their results have the keys that any SDK version expects.

use std::{
    collections::HashMap,
    sync::{Arc, atomic::Ordering},
    time::Instant,
};

use serde_json::{Value, json};
use skills_core::{Code, text::first_chars};

use super::{
    Hub,
    functions::{FunctionInfo, HUB_PREFIX, Row},
    identity::Identity,
    peer::Peer,
    triggers::Binding,
};
use crate::{CallError, Json, protocol::IDENTIFY, protocol::inbound::truncate_name};

/// Length limit of a worker's log line.
const MAX_LOG_CHARS: usize = 8 * 1024;

const NAMES: [&str; 9] = [
    IDENTIFY,
    "engine::functions::list",
    "engine::functions::info",
    "engine::workers::list",
    "engine::triggers::list",
    "engine::trigger-types::list",
    "engine::registered-triggers::list",
    "engine::log::{level}",
    "engine::baggage::*",
];

/// Executes an `engine::` function. `caller` is `None` for a call of this process.
pub(super) fn call(
    hub: &Hub,
    caller: Option<&Arc<Peer>>,
    id: &str,
    data: &str,
) -> Result<Json, CallError> {
    let data: Value = serde_json::from_str(data)
        .map_err(|error| CallError::remote(Code::DeserializationError, format!("{id}: {error}")))?;
    if let Some(level) = id.strip_prefix("engine::log::") {
        log(level, caller, &data);
        return Ok(Json::null());
    }
    if id.starts_with("engine::baggage::") {
        return Ok(Json::null());
    }
    let answer = match id {
        IDENTIFY => {
            if let Some(peer) = caller {
                hub.identify(peer, Identity::parse(&data));
            }
            json!({"success": true})
        }
        "engine::functions::list" => functions(hub, &data),
        "engine::functions::info" => function_info(hub, &data)?,
        "engine::workers::list" => workers(hub),
        "engine::triggers::list" => json!({"triggers": triggers(hub, caller, &data)}),
        "engine::trigger-types::list" => json!({"trigger_types": trigger_types(hub, &data)}),
        "engine::registered-triggers::list" => json!({"registered_triggers": bindings(hub)}),
        "engine::channels::create" => {
            return Err(CallError::remote(
                Code::FunctionNotFound,
                "Function engine::channels::create not found: this hub does not offer channels",
            ));
        }
        _ => return Err(CallError::NotFound(truncate_name(id).into_owned())),
    };
    Ok(Json::from(&answer))
}

fn log(level: &str, caller: Option<&Arc<Peer>>, data: &Value) {
    let worker = caller.map_or("", |peer| peer.id.as_str());
    if let Some(peer) = caller {
        match peer.log_lines.check(Instant::now()) {
            None => return,
            Some(0) => {}
            Some(suppressed) => {
                tracing::warn!(worker, suppressed, "log lines of a worker suppressed");
            }
        }
    }
    let message =
        data.get("message").and_then(Value::as_str).map_or_else(|| data.to_string(), str::to_owned);
    let message = first_chars(&message, MAX_LOG_CHARS);
    match level {
        "error" => tracing::error!(target: "worker", worker, "{message}"),
        "warn" => tracing::warn!(target: "worker", worker, "{message}"),
        "info" => tracing::info!(target: "worker", worker, "{message}"),
        _ => tracing::debug!(target: "worker", worker, "{message}"),
    }
}

/// Returns `{"functions": [...]}`, filtered as `data` requests.
pub(super) fn functions(hub: &Hub, data: &Value) -> Value {
    let text = |key: &str| data.get(key).and_then(Value::as_str).unwrap_or("");
    let (prefix, search, worker) = (text("prefix"), text("search").to_lowercase(), text("worker"));
    let internal = data.get("include_internal").and_then(Value::as_bool).unwrap_or(false);
    let mut rows: Vec<Value> = hub
        .inner
        .functions
        .rows()
        .iter()
        .filter(|row| row.id.starts_with(prefix))
        .filter(|row| {
            let described =
                || row.info.description.as_deref().unwrap_or("").to_lowercase().contains(&search);
            search.is_empty() || row.id.to_lowercase().contains(&search) || described()
        })
        .map(|row| function_row(hub, row))
        .filter(|row| {
            worker.is_empty() || row.get("worker_name").and_then(Value::as_str) == Some(worker)
        })
        .collect();
    if internal {
        let own = NAMES.iter().filter(|name| name.starts_with(prefix)).map(|name| {
            let info = Arc::new(FunctionInfo::default());
            function_row(hub, &Row { id: (*name).to_owned(), info, owner: None })
        });
        rows.extend(own);
    }
    json!({"functions": rows})
}

fn function_row(hub: &Hub, row: &Row) -> Value {
    let mut fields = json!({
        "function_id": row.id,
        "description": row.info.description,
        "request_format": schema(row.info.request_format.as_ref()),
        "response_format": schema(row.info.response_format.as_ref()),
        "metadata": schema(row.info.metadata.as_ref()),
        "namespace": "default",
        "worker_name": worker_name(hub, row.owner.as_ref()),
    });
    mark_private(&mut fields, row);
    fields
}

/// Adds the flag of a private function. Other rows have none, as SDKs expect.
fn mark_private(row_json: &mut Value, row: &Row) {
    if row.info.private
        && let Value::Object(fields) = row_json
    {
        fields.insert("private".to_owned(), true.into());
    }
}

/// Returns a schema, or null: Python 0.11 rejects the whole list for one value that is neither an object nor null.
fn schema(json: Option<&Json>) -> Value {
    json.and_then(|json| json.parse::<Value>().ok()).filter(Value::is_object).unwrap_or(Value::Null)
}

fn worker_name(hub: &Hub, owner: Option<&Arc<Peer>>) -> String {
    match owner {
        None => hub.inner.config.name.clone(),
        Some(peer) => {
            peer.identity().and_then(|it| it.name.clone()).unwrap_or_else(|| peer.id.clone())
        }
    }
}

fn function_info(hub: &Hub, data: &Value) -> Result<Value, CallError> {
    const MAX: usize = 32;
    let info = |id: &str| {
        let row = hub.inner.functions.row(id)?;
        let triggers: Vec<Value> =
            hub.inner.triggers.bindings_of(id).iter().map(binding_row).collect();
        let mut info = json!({
            "function_id": row.id,
            "namespace": "default",
            "worker_name": worker_name(hub, row.owner.as_ref()),
            "description": row.info.description,
            "request_schema": schema(row.info.request_format.as_ref()),
            "response_schema": schema(row.info.response_format.as_ref()),
            "metadata": schema(row.info.metadata.as_ref()),
            "registered_triggers": triggers,
        });
        mark_private(&mut info, &row);
        Some(info)
    };
    if let Some(id) = data.get("function_id").and_then(Value::as_str) {
        return info(id).ok_or_else(|| CallError::NotFound(truncate_name(id).into_owned()));
    }
    match data.get("function_ids").and_then(Value::as_array) {
        Some(ids) if ids.len() <= MAX => {
            let found: Vec<Value> = ids.iter().filter_map(Value::as_str).filter_map(info).collect();
            Ok(json!({"functions": found}))
        }
        _ => Err(CallError::remote(
            Code::DeserializationError,
            format!(
                "engine::functions::info needs \"function_id\", or \"function_ids\" with at most {MAX} ids"
            ),
        )),
    }
}

fn workers(hub: &Hub) -> Value {
    let mut functions: HashMap<String, Vec<String>> = HashMap::new();
    for row in hub.inner.functions.rows() {
        if let Some(owner) = row.owner {
            functions.entry(owner.id.clone()).or_default().push(row.id);
        }
    }
    let mut peers = hub.inner.peers();
    peers.sort_by(|a, b| (a.connected_at_ms, &a.id).cmp(&(b.connected_at_ms, &b.id)));
    let rows: Vec<Value> = peers
        .iter()
        .map(|peer| {
            let functions = functions.remove(&peer.id).unwrap_or_default();
            worker_row(peer, &functions)
        })
        .collect();
    json!({"workers": rows, "timestamp": super::now_ms()})
}

fn worker_row(peer: &Peer, functions: &[String]) -> Value {
    let identity = peer.identity().unwrap_or_default();
    json!({
        "id": peer.id,
        "name": identity.name,
        "runtime": identity.runtime,
        "version": identity.version,
        "os": identity.os,
        "pid": identity.pid,
        "ip_address": peer.address.map(|address| address.ip().to_string()),
        // Python 0.11 rejects values other than its four.
        "status": "connected",
        "connected_at_ms": peer.connected_at_ms,
        "function_count": functions.len(),
        "functions": functions,
        "active_invocations": peer.serving.load(Ordering::Relaxed),
        "isolation": identity.isolation,
        "namespace": "default",
        "description": identity.description,
    })
}

fn binding_row(binding: &Binding) -> Value {
    json!({
        "id": binding.id,
        "trigger_type": binding.trigger_type,
        "function_id": binding.function_id,
        "config": binding.config,
        "metadata": binding.metadata,
        "namespace": "default",
        "status": if binding.is_bound { "active" } else { "pending" },
    })
}

fn bindings(hub: &Hub) -> Vec<Value> {
    hub.inner.triggers.bindings().iter().map(binding_row).collect()
}

fn is_hidden(data: &Value, id: &str) -> bool {
    id.starts_with(HUB_PREFIX)
        && !data.get("include_internal").and_then(Value::as_bool).unwrap_or(false)
}

/// Lists bindings for SDKs before 0.13, types for later ones, and both for other callers. Every row has the keys of both.
fn triggers(hub: &Hub, caller: Option<&Arc<Peer>>, data: &Value) -> Vec<Value> {
    let lists_bindings =
        caller.and_then(|peer| peer.identity()).and_then(|identity| identity.lists_bindings());
    let types = hub.inner.triggers.types();
    let row = |id: &str, trigger_type: &str, binding: Option<&Binding>| {
        let found = types.iter().find(|(id, _, _)| id == trigger_type);
        json!({
            "id": id,
            "trigger_type": trigger_type,
            "function_id": binding.map_or("", |binding| binding.function_id.as_str()),
            "config": binding.map(|binding| &binding.config),
            "metadata": binding.and_then(|binding| binding.metadata.as_ref()),
            "namespace": "default",
            "worker_name": found.map(|(_, _, owner)| worker_name(hub, owner.as_ref())),
            "description": found.map(|(_, info, _)| info.description.as_str()),
        })
    };
    let mut rows = Vec::new();
    if lists_bindings != Some(false) {
        let bindings = hub.inner.triggers.bindings();
        let visible = bindings.iter().filter(|binding| !is_hidden(data, &binding.trigger_type));
        rows.extend(visible.map(|binding| row(&binding.id, &binding.trigger_type, Some(binding))));
    }
    if lists_bindings != Some(true) {
        let visible = types.iter().filter(|(id, _, _)| !is_hidden(data, id));
        rows.extend(visible.map(|(id, _, _)| row(id, id, None)));
    }
    rows
}

fn trigger_types(hub: &Hub, data: &Value) -> Vec<Value> {
    let types = hub.inner.triggers.types();
    let visible = types.iter().filter(|(id, _, _)| !is_hidden(data, id));
    visible
        .map(|(id, info, owner)| {
            json!({
                "id": id,
                "description": info.description,
                "trigger_request_format": schema(info.trigger_request_format.as_ref()),
                "call_request_format": schema(info.call_request_format.as_ref()),
                "namespace": "default",
                "worker_name": worker_name(hub, owner.as_ref()),
            })
        })
        .collect()
}
