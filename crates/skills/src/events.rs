//! Being told of things on a bus: functions of ours that triggers of others call, for as long as the process
//! lasts.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use serde::Deserialize;
use skills_bus::{Bus as _, Call, CallError, FunctionSpec, Json, engine::EngineBus};
use uuid::Uuid;

use crate::Failure;

/// The trigger type that tells which functions there are, whenever that changes.
pub(crate) const FUNCTIONS_AVAILABLE: &str = "engine::functions-available";

/// Has a function of ours called for triggers, each a type and a configuration. Each process has a function of
/// its own under the name: an engine gives a function to one worker only.
///
/// # Errors
/// When the bus does not take a subscription.
pub(crate) fn subscribe(
    bus: &EngineBus,
    name: &str,
    description: &str,
    triggers: &[(&str, Json)],
    tell: impl Fn(&Json) -> Result<(), serde_json::Error> + Send + Sync + 'static,
) -> Result<(), Failure> {
    let id = format!("{name}::{}", Uuid::new_v4().simple());
    let spec = FunctionSpec {
        id: id.clone(),
        description: description.to_owned(),
        ..FunctionSpec::default()
    };
    let function = move |call: Call| {
        let answer = tell(&call.data).map(|()| Json::null()).map_err(|error| {
            CallError::remote("invalid_input", format!("not such an event: {error}"))
        });
        std::future::ready(answer)
    };
    bus.register_function(spec, Arc::new(function));
    for (trigger_type, config) in triggers {
        bus.subscribe(trigger_type, &id, config)
            .map(std::mem::forget)
            .map_err(|error| Failure::new(error.code(), error.to_string()))?;
    }
    Ok(())
}

/// The configuration of a trigger that has none.
pub(crate) fn any() -> Json {
    Json::from(&serde_json::json!({}))
}

/// Whether somebody serves a function. Who has gone and come back may have other content.
pub(crate) struct Presence {
    function_id: &'static str,
    was_there: AtomicBool,
}

#[derive(Deserialize)]
struct Available {
    functions: Vec<Function>,
}

#[derive(Deserialize)]
struct Function {
    #[serde(default)]
    function_id: String,
}

impl Presence {
    pub(crate) const fn new(function_id: &'static str) -> Self {
        Self { function_id, was_there: AtomicBool::new(true) }
    }

    /// Takes in which functions there are, and says whether it has come back.
    ///
    /// # Errors
    /// When the event is not of [`FUNCTIONS_AVAILABLE`].
    pub(crate) fn is_back(&self, event: &Json) -> Result<bool, serde_json::Error> {
        let Available { functions } = event.parse()?;
        let is_there = functions.iter().any(|function| function.function_id == self.function_id);
        Ok(!self.was_there.swap(is_there, Ordering::SeqCst) && is_there)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn who_was_gone_is_back_once() {
        let presence = Presence::new("state::get");
        let is_back = |ids: &[&str]| {
            let rows: Vec<_> = ids.iter().map(|id| json!({ "function_id": id })).collect();
            presence.is_back(&Json::from(&json!({ "functions": rows }))).unwrap()
        };
        assert!(!is_back(&["state::get", "a::b"]));
        assert!(!is_back(&["a::b"]));
        assert!(is_back(&["state::get"]));
        assert!(!is_back(&["state::get"]));
        assert!(presence.is_back(&Json::from(&json!({"id": "a"}))).is_err());
    }
}
