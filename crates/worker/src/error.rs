//! Mapping from registry errors to bus errors.

use skills_bus::CallError;
use skills_core::{Code, Coded};
use skills_execution::ExecuteError;
use skills_registry::RegistryError;

/// Converts a registry error for callers on the bus.
pub(crate) fn to_bus(error: &RegistryError) -> CallError {
    remote(error)
}

/// Maps a failure of a tool call to the bus.
pub(crate) fn execute_error(error: &ExecuteError) -> CallError {
    remote(error)
}

fn remote(error: &dyn Coded) -> CallError {
    let (code, message) = (error.code_text().into_owned(), message(error));
    if error.is_outcome_unknown() {
        CallError::OutcomeUnknown { code, message }
    } else {
        CallError::Remote { code, message }
    }
}

/// Returns the message of an error, with its hint.
pub(crate) fn message(error: &dyn Coded) -> String {
    match error.hint() {
        Some(hint) => format!("{error} (hint: {hint})"),
        None => error.to_string(),
    }
}

/// Returns the error for a payload that does not match the function's input.
pub(crate) fn bad_input(function_id: &str, error: &serde_json::Error) -> CallError {
    let reason = error.to_string();
    // The position in the text and the name of the Rust type mean nothing to a caller.
    let reason = reason.split(" at line ").next().unwrap_or_default();
    let reason = match reason.split_once("expected struct ") {
        Some((found, _)) => format!("{found}expected an object"),
        None => reason.to_owned(),
    };
    CallError::remote(Code::InvalidInput, format!("invalid input for {function_id}: {reason}"))
}

/// Returns the error for an output that cannot be serialized.
pub(crate) fn bad_output(error: &serde_json::Error) -> CallError {
    CallError::remote(Code::SerializationError, error.to_string())
}
