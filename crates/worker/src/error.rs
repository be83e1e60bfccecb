//! The one mapping from the registry's errors to the bus's.

use skills_bus::CallError;
use skills_registry::RegistryError;

/// The error as callers on the bus see it.
pub(crate) fn to_bus(error: &RegistryError) -> CallError {
    let message = match error.hint() {
        Some(hint) => format!("{error} (hint: {hint})"),
        None => error.to_string(),
    };
    CallError::remote(error.code(), message)
}

/// The error for a payload that does not have the shape of the function's input.
pub(crate) fn bad_input(function_id: &str, error: &serde_json::Error) -> CallError {
    let reason = error.to_string();
    // Where in the text, and what the type is called here, mean nothing to a caller.
    let reason = reason.split(" at line ").next().unwrap_or_default();
    let reason = match reason.split_once("expected struct ") {
        Some((found, _)) => format!("{found}expected an object"),
        None => reason.to_owned(),
    };
    CallError::remote("invalid_input", format!("invalid input for {function_id}: {reason}"))
}

/// The error for a result that cannot be written as JSON.
pub(crate) fn bad_output(error: &serde_json::Error) -> CallError {
    CallError::remote("serialization_error", error.to_string())
}
