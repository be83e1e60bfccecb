//! Templates: text with the placeholders `{{name}}`, `{{name|default}}` and `{{SECRETS.NAME}}`.
//!
//! The regular expression `PLACEHOLDER` is the grammar; everything else is text. Values are inserted once and never
//! expanded again, so a value cannot refer to another. The origin of values and the use of the result are not known here.

mod secret_requirements;

use std::{borrow::Cow, sync::LazyLock};

use regex::Regex;
use skills_core::uri::percent_encode_component;

pub use secret_requirements::{
    SecretRequirements, api_key_template, body_template, endpoint_template, has_placeholders,
    secret_requirements,
};

#[expect(clippy::expect_used, reason = "the pattern is a constant, and every test compiles it")]
static PLACEHOLDER: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\{\{([a-zA-Z0-9._-]+)(?:\|([^}]+))?\}\}").expect("a valid pattern")
});

/// Prefix of names that refer to secrets.
const SECRETS: &str = "SECRETS.";
/// Most names that an error lists.
const MAX_LISTED_NAMES: usize = 20;

/// Parsed template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template<'t> {
    parts: Vec<TemplatePart<'t>>,
}

/// Part of a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TemplatePart<'t> {
    /// Literal text, never empty.
    Text(&'t str),
    /// Placeholder for a value.
    Placeholder(Placeholder<'t>),
}

/// Placeholder for a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placeholder<'t> {
    /// Name of the value.
    pub name: PlaceholderName<'t>,
    /// Default for a missing value, never empty.
    pub default: Option<&'t str>,
}

/// Name of the value that a placeholder stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlaceholderName<'t> {
    /// Parameter of the call.
    Parameter(&'t str),
    /// Secret. The name in `SECRETS.A.B` is `A`.
    Secret(&'t str),
}

/// Error of expanding a template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExpandError {
    /// Values without a default are missing.
    #[error("there is no value for {}", .0.join(", "))]
    Unresolved(
        /// Names of the missing parameters and secrets, as in [`Template::missing_names`].
        Vec<String>,
    ),
    /// The result is too long.
    #[error("the text is too long with its values: at most {max} bytes are allowed")]
    TooLong {
        /// Limit in bytes.
        max: usize,
    },
}

/// Encoding of a value in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueEncoding {
    /// No encoding.
    Plain,
    /// Percent-encoding for a component of a URI.
    Component,
}

impl ValueEncoding {
    fn of(self, value: &str) -> Cow<'_, str> {
        match self {
            Self::Plain => Cow::Borrowed(value),
            Self::Component => Cow::Owned(percent_encode_component(value)),
        }
    }
}

impl<'t> Template<'t> {
    /// Finds the placeholders of a text in linear time: no match of the pattern reaches beyond the first `}}`.
    #[must_use]
    pub fn parse(text: &'t str) -> Self {
        let mut parts = Vec::new();
        let mut end = 0;
        for found in PLACEHOLDER.captures_iter(text) {
            let whole = found.get_match();
            let name = found.get(1).and_then(|name| PlaceholderName::parse(name.as_str()));
            // A secret without a name is text.
            let Some(name) = name else { continue };
            if end < whole.start() {
                parts.push(TemplatePart::Text(&text[end..whole.start()]));
            }
            let default = found.get(2).map(|default| default.as_str());
            parts.push(TemplatePart::Placeholder(Placeholder { name, default }));
            end = whole.end();
        }
        if end < text.len() {
            parts.push(TemplatePart::Text(&text[end..]));
        }
        Self { parts }
    }

    /// Returns the parts in the order of the text.
    #[must_use]
    pub fn parts(&self) -> &[TemplatePart<'t>] {
        &self.parts
    }

    /// Returns the placeholders in the order of the text.
    pub fn placeholders(&self) -> impl Iterator<Item = &Placeholder<'t>> {
        self.parts.iter().filter_map(|piece| match piece {
            TemplatePart::Text(_) => None,
            TemplatePart::Placeholder(placeholder) => Some(placeholder),
        })
    }

    /// Returns the placeholder if it is the whole text.
    #[must_use]
    pub fn as_single_placeholder(&self) -> Option<&Placeholder<'t>> {
        match self.parts.as_slice() {
            [TemplatePart::Placeholder(placeholder)] => Some(placeholder),
            _ => None,
        }
    }

    /// Returns the names of values without a value or a default, each once, in the order of the text; twenty at most.
    pub fn missing_names(&self, mut has: impl FnMut(&PlaceholderName<'t>) -> bool) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for Placeholder { name, default } in self.placeholders() {
            if names.len() == MAX_LISTED_NAMES {
                break;
            }
            let known = || names.iter().any(|known| known == name.as_str());
            if default.is_none() && !has(name) && !known() {
                names.push(name.as_str().to_owned());
            }
        }
        names
    }

    /// Replaces placeholders by values, or else by defaults.
    ///
    /// # Errors
    /// When a value is missing that has no default, and when the result would be longer than `max` bytes.
    pub fn expand<'v>(
        &self,
        encoding: ValueEncoding,
        max: usize,
        mut lookup: impl FnMut(&PlaceholderName<'t>) -> Option<Cow<'v, str>>,
    ) -> Result<String, ExpandError> {
        let mut text = String::new();
        for piece in &self.parts {
            let value;
            let part = match piece {
                TemplatePart::Text(part) => Cow::Borrowed(*part),
                TemplatePart::Placeholder(Placeholder { name, default }) => {
                    value = lookup(name);
                    let Some(value) = value.as_deref().or(*default) else {
                        let missing_names = self.missing_names(|name| lookup(name).is_some());
                        return Err(ExpandError::Unresolved(missing_names));
                    };
                    encoding.of(value)
                }
            };
            if text.len() + part.len() > max {
                return Err(ExpandError::TooLong { max });
            }
            text.push_str(&part);
        }
        Ok(text)
    }
}

impl<'t> PlaceholderName<'t> {
    /// Parses a name; `None` for a secret without a name.
    fn parse(name: &'t str) -> Option<Self> {
        match name.strip_prefix(SECRETS) {
            None => Some(Self::Parameter(name)),
            Some(path) => {
                let secret = path.split('.').next().unwrap_or(path);
                (!secret.is_empty()).then_some(Self::Secret(secret))
            }
        }
    }

    /// Returns the name without its kind.
    #[must_use]
    pub const fn as_str(&self) -> &'t str {
        match self {
            Self::Parameter(name) | Self::Secret(name) => name,
        }
    }
}

#[cfg(test)]
mod tests;
