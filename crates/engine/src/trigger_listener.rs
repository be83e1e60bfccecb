//! Functions of this process that triggers of other workers call, for the lifetime of the process.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use serde::Deserialize;
use skills_bus::{Bus as _, CallError, FunctionCall, FunctionSpec, Json};
use skills_core::Code;
use uuid::Uuid;

use crate::EngineBus;

/// Trigger type that lists all functions whenever they change.
pub const FUNCTIONS_AVAILABLE: &str = "engine::functions-available";

/// Registers a handler function and subscribes it to triggers, each a type and a configuration.
///
/// The function id gets a random suffix: an engine gives a function to one worker only.
///
/// # Errors
/// When the engine rejects a subscription.
pub fn listen(
    bus: &EngineBus,
    name: &str,
    description: &str,
    triggers: &[(&str, Json)],
    handler: impl Fn(&Json) -> Result<(), serde_json::Error> + Send + Sync + 'static,
) -> Result<(), CallError> {
    let id = format!("{name}::{}", Uuid::new_v4().simple());
    let spec = FunctionSpec {
        id: id.clone(),
        description: description.to_owned(),
        ..FunctionSpec::default()
    };
    let function = move |call: FunctionCall| {
        let answer = handler(&call.data).map(|()| Json::null()).map_err(|error| {
            CallError::remote(Code::InvalidInput, format!("unexpected event payload: {error}"))
        });
        std::future::ready(answer)
    };
    bus.register_function(spec, Arc::new(function));
    for (trigger_type, config) in triggers {
        // Kept for the lifetime of the client.
        let _ = bus.subscribe(trigger_type, &id, config)?;
    }
    Ok(())
}

/// Returns the configuration of a trigger without settings.
#[must_use]
pub fn empty_config() -> Json {
    Json::from(&serde_json::json!({}))
}

/// Tracks whether any worker serves a function. A worker that disappeared and returned may have other content.
#[derive(Debug)]
pub struct FunctionPresence {
    function_id: &'static str,
    was_present: AtomicBool,
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

impl FunctionPresence {
    /// Creates a tracker that assumes the function to be present.
    #[must_use]
    pub const fn new(function_id: &'static str) -> Self {
        Self { function_id, was_present: AtomicBool::new(true) }
    }

    /// Applies an event of [`FUNCTIONS_AVAILABLE`] and returns whether the function was absent and has returned.
    ///
    /// # Errors
    /// When the payload has another shape.
    pub fn has_returned(&self, event: &Json) -> Result<bool, serde_json::Error> {
        let Available { functions } = event.parse()?;
        let is_present = functions.iter().any(|function| function.function_id == self.function_id);
        Ok(!self.was_present.swap(is_present, Ordering::SeqCst) && is_present)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_returning_function_is_reported_once() {
        let presence = FunctionPresence::new("state::get");
        let has_returned = |ids: &[&str]| {
            let rows: Vec<_> = ids.iter().map(|id| json!({ "function_id": id })).collect();
            presence.has_returned(&Json::from(&json!({ "functions": rows }))).unwrap()
        };
        assert!(!has_returned(&["state::get", "a::b"]));
        assert!(!has_returned(&["a::b"]));
        assert!(has_returned(&["state::get"]));
        assert!(!has_returned(&["state::get"]));
        assert!(presence.has_returned(&Json::from(&json!({"id": "a"}))).is_err());
    }
}
