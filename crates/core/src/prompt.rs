//! Prompt definitions and the rules for them.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use crate::{Digest, Field, HandlerId, RuleError, limits::MAX_PROMPT_BYTES};

/// Argument of a slash command. It tells a client which values to ask for; the handler decides what it accepts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptArgument {
    /// Unique within the prompt.
    pub name: String,
    /// Shown next to the input field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// True if a client should insist on a value.
    #[serde(default)]
    pub required: bool,
}

/// Prompt without its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptDefinition {
    /// Shown in the client's prompt picker.
    pub description: String,
    /// Arguments that the client asks the user for.
    #[serde(default)]
    pub arguments: Vec<PromptArgument>,
    /// Function that renders the messages.
    pub function_id: String,
}

impl PromptDefinition {
    /// Checks every rule and trims the function id.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn validate(mut self) -> Result<Self, RuleError> {
        if self.description.trim().is_empty() {
            return Err(RuleError::Empty(Field::Description));
        }
        self.function_id = self.function_id.parse::<HandlerId>()?.to_string();
        let mut seen = HashSet::new();
        for argument in &self.arguments {
            if argument.name.trim().is_empty() {
                return Err(RuleError::Empty(Field::ArgumentName));
            }
            if !seen.insert(argument.name.as_str()) {
                return Err(RuleError::DuplicateArgument(argument.name.clone()));
            }
        }
        let len = self.bytes();
        if len > MAX_PROMPT_BYTES {
            return Err(RuleError::TooLarge { field: Field::Prompt, len, max: MAX_PROMPT_BYTES });
        }
        Ok(self)
    }

    /// Returns the digest that identifies this version of the definition.
    #[must_use]
    pub fn digest(&self) -> Digest {
        // A struct of strings always serialises; the fallback only keeps the function total.
        Digest::of(&serde_json::to_vec(self).unwrap_or_default())
    }

    /// Returns the bytes of all texts.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let arguments = self.arguments.iter().map(|argument| {
            argument.name.len() + argument.description.as_ref().map_or(0, String::len)
        });
        self.description.len() + self.function_id.len() + arguments.sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The digest is the same on every server, so its input must not change. docs/versions.md has this example.
    #[test]
    fn the_digest_is_that_of_the_definition_as_json() {
        let json = r#"{"description":"Greets","arguments":[{"name":"who","description":"Name","required":true}],"function_id":"demo::hello"}"#;
        let definition: PromptDefinition = serde_json::from_str(json).unwrap();
        assert_eq!(definition.digest(), Digest::of(json.as_bytes()));
        assert_eq!(
            definition.digest().to_string(),
            "2f45e385d6f9215d4febc0f1d93e2e63b21b72ef04c68da26d6d7658b496ef3a"
        );
    }

    fn prompt(description: &str, function_id: &str, arguments: &[&str]) -> PromptDefinition {
        PromptDefinition {
            description: description.into(),
            function_id: function_id.into(),
            arguments: arguments
                .iter()
                .map(|name| PromptArgument {
                    name: (*name).into(),
                    description: None,
                    required: false,
                })
                .collect(),
        }
    }

    #[test]
    fn errors_use_the_words_of_the_contract() {
        for (prompt, words) in [
            (prompt("  ", "a::b", &[]), "description must be non-empty"),
            (prompt("d", "\t", &[]), "function_id must be non-empty"),
            (prompt("d", "a::b", &["x", ""]), "argument name must be non-empty"),
            (prompt("d", "a::b", &["x", "y", "x"]), "duplicate argument name: \"x\""),
            (prompt("d", "prompts::list", &[]), "internal namespace"),
            (prompt(&"d".repeat(16_382), "a::b", &[]), "prompt too large"),
        ] {
            let error = prompt.validate().expect_err(words).to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn validation_trims_the_function_id() {
        let checked = prompt(" d ", " a::b\n", &["x", "y"]).validate().unwrap();
        assert_eq!(checked.function_id, "a::b");
        assert_eq!(checked.description, " d ");
    }
}
