//! What a prompt holds, and what makes one acceptable.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use crate::{Digest, Field, HandlerId, RuleError, limits::MAX_PROMPT_BYTES};

/// One argument of a slash command. It tells a client what to ask for; the handler decides what it accepts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptArgument {
    /// Unique within the prompt.
    pub name: String,
    /// Shown next to the input field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether a client should insist on it.
    #[serde(default)]
    pub required: bool,
}

/// A prompt without its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptDefinition {
    /// Shown in the client's prompt picker.
    pub description: String,
    /// What the client asks the user for.
    #[serde(default)]
    pub arguments: Vec<PromptArgument>,
    /// The function that renders the messages.
    pub function_id: String,
}

impl PromptDefinition {
    /// Checks every rule and takes the white space off the function id.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn checked(mut self) -> Result<Self, RuleError> {
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

    /// What identifies this version of the definition.
    #[must_use]
    pub fn digest(&self) -> Digest {
        // A struct of strings always serialises; the fallback only keeps the function total.
        Digest::of(&serde_json::to_vec(self).unwrap_or_default())
    }

    /// The bytes of all its texts.
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
    fn says_what_is_wrong_in_the_words_of_the_contract() {
        for (prompt, words) in [
            (prompt("  ", "a::b", &[]), "description must be non-empty"),
            (prompt("d", "\t", &[]), "function_id must be non-empty"),
            (prompt("d", "a::b", &["x", ""]), "argument name must be non-empty"),
            (prompt("d", "a::b", &["x", "y", "x"]), "duplicate argument name: \"x\""),
            (prompt("d", "prompts::list", &[]), "internal namespace"),
            (prompt(&"d".repeat(16_382), "a::b", &[]), "prompt too large"),
        ] {
            let error = prompt.checked().expect_err(words).to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn a_good_one_is_kept_with_its_function_trimmed() {
        let checked = prompt(" d ", " a::b\n", &["x", "y"]).checked().unwrap();
        assert_eq!(checked.function_id, "a::b");
        assert_eq!(checked.description, " d ");
    }
}
