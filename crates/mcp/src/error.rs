//! Mapping from registry errors to MCP errors.

use rmcp::ErrorData;
use rmcp::model::ErrorCode;
use serde_json::{Value, json};
use skills_core::{Code, Coded, text::truncate};
use skills_registry::RegistryError;

/// Longest message, in characters: a message may repeat long input.
const MAX_CHARS: usize = 500;

/// Converts a registry error. Errors that the caller can correct are invalid parameters, missing entries are
/// "resource not found" (which rmcp translates for newer revisions), all others are internal.
pub(crate) fn to_mcp(error: &RegistryError) -> ErrorData {
    let code = match error {
        RegistryError::NotFound { .. } | RegistryError::SectionNotLinked { .. } => {
            ErrorCode::RESOURCE_NOT_FOUND
        }
        RegistryError::Version(error) => match error.code() {
            Code::NotFound | Code::Collected | Code::Purged => ErrorCode::RESOURCE_NOT_FOUND,
            _ => ErrorCode::INVALID_PARAMS,
        },
        RegistryError::Live(error) if error.code == Code::NotFound => ErrorCode::RESOURCE_NOT_FOUND,
        RegistryError::Rule(_) => ErrorCode::INVALID_PARAMS,
        // A registry behind a bus that runs this software uses the same codes.
        RegistryError::Remote { code, message } => match Code::from_remote(code) {
            Code::NotFound | Code::SectionNotLinked | Code::Collected | Code::Purged => {
                ErrorCode::RESOURCE_NOT_FOUND
            }
            Code::InvalidInput | Code::InvalidUri | Code::ReservedFunction | Code::TooLarge => {
                ErrorCode::INVALID_PARAMS
            }
            Code::FunctionNotFound => ErrorCode::INTERNAL_ERROR,
            // Other software has no code for it, but the contract prescribes the words.
            _ if message.contains("not found") => ErrorCode::RESOURCE_NOT_FOUND,
            _ => ErrorCode::INTERNAL_ERROR,
        },
        _ => ErrorCode::INTERNAL_ERROR,
    };
    ErrorData::new(code, truncate(error.to_string(), MAX_CHARS).into_owned(), Some(data(error)))
}

fn data(error: &RegistryError) -> Value {
    match error.hint() {
        Some(hint) => json!({ "code": error.code_text(), "hint": hint }),
        None => json!({ "code": error.code_text() }),
    }
}

/// Returns the error for a parameter that breaks a rule of this protocol.
pub(crate) fn invalid(message: impl AsRef<str>) -> ErrorData {
    ErrorData::invalid_params(truncate(message.as_ref(), MAX_CHARS).into_owned(), None)
}

/// Turns "resource not found" into an invalid parameter, for methods whose subject is not a resource.
pub(crate) fn into_invalid_params(mut error: ErrorData) -> ErrorData {
    if error.code == ErrorCode::RESOURCE_NOT_FOUND {
        error.code = ErrorCode::INVALID_PARAMS;
    }
    error
}
