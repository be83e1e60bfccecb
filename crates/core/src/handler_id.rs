//! Ids of the functions that may back a section or a prompt.

use std::{fmt, str::FromStr, sync::Arc};

use crate::{Field, RuleError, limits::MAX_FUNCTION_ID_BYTES};

/// Namespaces of the infrastructure. A section or a prompt backed by such a function would give content access to the
/// engine, its state, or the registry's own administration.
pub const RESERVED_PREFIXES: [&str; 11] = [
    "engine::",
    "state::",
    "stream::",
    "iii.",
    "iii::",
    "mcp::",
    "mdp::",
    "a2a::",
    "skills::",
    "prompts::",
    "collections::",
];

/// Id of a function that may back a section or a prompt. Surrounding white space is trimmed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HandlerId(Arc<str>);

impl HandlerId {
    /// Returns the id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for HandlerId {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(RuleError::Empty(Field::FunctionId));
        }
        if text.len() > MAX_FUNCTION_ID_BYTES {
            return Err(RuleError::TooLong {
                field: Field::FunctionId,
                len: text.len(),
                max: MAX_FUNCTION_ID_BYTES,
            });
        }
        match RESERVED_PREFIXES.into_iter().find(|prefix| text.starts_with(prefix)) {
            Some(prefix) => {
                Err(RuleError::InternalNamespace { function_id: text.to_owned(), prefix })
            }
            None => Ok(Self(text.into())),
        }
    }
}

impl fmt::Display for HandlerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_prefixes_are_refused() {
        for prefix in RESERVED_PREFIXES {
            for id in [format!("{prefix}x"), format!("  {prefix}x"), prefix.to_owned()] {
                let error = id.parse::<HandlerId>().expect_err(&id).to_string();
                assert!(error.contains("internal namespace"), "{error}");
            }
        }
    }

    #[test]
    fn a_similar_name_is_not_reserved() {
        for id in ["engineer::x", "statement::y", "iii_x::y", "skillset::z", "my::state::get"] {
            assert!(id.parse::<HandlerId>().is_ok(), "{id}");
        }
    }

    #[test]
    fn empty_and_oversized_ids_are_refused() {
        for id in ["", "  \t\n"] {
            let error = id.parse::<HandlerId>().expect_err("empty").to_string();
            assert_eq!(error, "function_id must be non-empty", "{id}");
        }
        assert!("f".repeat(513).parse::<HandlerId>().is_err());
    }
}
