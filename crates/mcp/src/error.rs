//! What MCP clients are told when the registry cannot do what they asked.

use rmcp::ErrorData;
use rmcp::model::ErrorCode;
use serde_json::{Value, json};
use skills_registry::RegistryError;

/// How much of a message is passed on: the input it repeats may be long.
const MAX_CHARS: usize = 500;

/// The one mapping. What the caller can mend is an invalid parameter, what is not there is a resource
/// that was not found (which rmcp translates for newer revisions), the rest is ours.
pub(crate) fn to_mcp(error: &RegistryError) -> ErrorData {
    let code = match error {
        RegistryError::NotFound { .. } => ErrorCode::RESOURCE_NOT_FOUND,
        RegistryError::Live(error) if error.code == "not_found" => ErrorCode::RESOURCE_NOT_FOUND,
        RegistryError::Rule(_) => ErrorCode::INVALID_PARAMS,
        // A registry at the other end of a bus: its codes are those of this one, if it is of this make.
        RegistryError::Remote { code, message } => match code.as_str() {
            "not_found" => ErrorCode::RESOURCE_NOT_FOUND,
            "invalid_input" | "invalid_uri" | "reserved_function" | "too_large" => {
                ErrorCode::INVALID_PARAMS
            }
            "function_not_found" => ErrorCode::INTERNAL_ERROR,
            // Another make has no code for it, but the words of the contract.
            _ if message.contains("not found") => ErrorCode::RESOURCE_NOT_FOUND,
            _ => ErrorCode::INTERNAL_ERROR,
        },
        _ => ErrorCode::INTERNAL_ERROR,
    };
    ErrorData::new(code, brief(&error.to_string()), Some(data(error)))
}

fn data(error: &RegistryError) -> Value {
    match error.hint() {
        Some(hint) => json!({ "code": error.code(), "hint": hint }),
        None => json!({ "code": error.code() }),
    }
}

/// A parameter that is wrong in a way that only this protocol knows.
pub(crate) fn invalid(message: impl AsRef<str>) -> ErrorData {
    ErrorData::invalid_params(brief(message.as_ref()), None)
}

/// The same where what was not found is no resource: then a parameter is wrong, on every revision.
pub(crate) fn wrong_parameter(mut error: ErrorData) -> ErrorData {
    if error.code == ErrorCode::RESOURCE_NOT_FOUND {
        error.code = ErrorCode::INVALID_PARAMS;
    }
    error
}

fn brief(message: &str) -> String {
    match message.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}...", &message[..end]),
        None => message.to_owned(),
    }
}
