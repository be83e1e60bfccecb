//! Text with placeholders: `{{name}}`, `{{name|default}}` and `{{SECRETS.NAME}}`.
//!
//! The grammar is that of the regular expression `\{\{([a-zA-Z0-9._-]+)(?:\|([^}]+))?\}\}`, found by a scanner
//! that looks at every byte a fixed number of times. What does not match is text. Values are put in once and
//! never looked at again, so a value cannot ask for another. Nothing here knows where values come from or
//! where the result goes.

mod needs;
mod scan;

use std::borrow::Cow;

use self::scan::{OPEN, Scan, scan};
use crate::uri::percent_encoded_component;

pub use needs::{SecretNeeds, body_of, endpoint_of, is_templated, key_of, needed_secrets};

const SECRETS: &str = "SECRETS.";
/// How many names an error lists.
const MAX_NAMED: usize = 20;

/// Text with its placeholders found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template<'t> {
    pieces: Vec<Piece<'t>>,
}

/// A part of a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'t> {
    /// What stands for itself, never empty.
    Text(&'t str),
    /// What stands for a value.
    Placeholder(Placeholder<'t>),
}

/// What stands for a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placeholder<'t> {
    /// Whose value.
    pub name: Name<'t>,
    /// What to take when there is none, never empty.
    pub default: Option<&'t str>,
}

/// Whose value a placeholder stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Name<'t> {
    /// A parameter of the call.
    Parameter(&'t str),
    /// A secret. Of `SECRETS.A.B` the name is `A`.
    Secret(&'t str),
}

/// Why a template has no expansion.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExpandError {
    /// There is no value, and no default either.
    #[error("there is no value for {}", .0.join(", "))]
    Unresolved(
        /// The names of the parameters and secrets, as [`Template::lacking`] tells them.
        Vec<String>,
    ),
    /// The result would be longer than allowed.
    #[error("the text is too long with its values: at most {max} bytes are allowed")]
    TooLong {
        /// The limit in bytes.
        max: usize,
    },
}

/// How a value is written into the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// As it is.
    Plain,
    /// As a component of a URI: what has a meaning there is percent-encoded.
    Component,
}

impl Encoding {
    fn of(self, value: &str) -> Cow<'_, str> {
        match self {
            Self::Plain => Cow::Borrowed(value),
            Self::Component => Cow::Owned(percent_encoded_component(value)),
        }
    }
}

impl<'t> Template<'t> {
    /// Finds the placeholders of a text, in linear time.
    #[must_use]
    pub fn parse(text: &'t str) -> Self {
        let mut pieces = Vec::new();
        // Text from `told` on is in no piece yet; nothing before `at` opens a placeholder.
        let (mut told, mut at) = (0, 0);
        while let Some(open) = text[at..].find(OPEN).map(|found| at + found) {
            match scan(text, open) {
                Scan::Found { placeholder, end } => {
                    if told < open {
                        pieces.push(Piece::Text(&text[told..open]));
                    }
                    pieces.push(Piece::Placeholder(placeholder));
                    (told, at) = (end, end);
                }
                Scan::TextUpTo(next) => at = next,
            }
        }
        if told < text.len() {
            pieces.push(Piece::Text(&text[told..]));
        }
        Self { pieces }
    }

    /// The parts, in the order of the text.
    #[must_use]
    pub fn pieces(&self) -> &[Piece<'t>] {
        &self.pieces
    }

    /// The placeholders, in the order of the text.
    pub fn placeholders(&self) -> impl Iterator<Item = &Placeholder<'t>> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Text(_) => None,
            Piece::Placeholder(placeholder) => Some(placeholder),
        })
    }

    /// The one placeholder that is the whole text, if it is one.
    #[must_use]
    pub fn whole(&self) -> Option<&Placeholder<'t>> {
        match self.pieces.as_slice() {
            [Piece::Placeholder(placeholder)] => Some(placeholder),
            _ => None,
        }
    }

    /// The names of what has neither a value nor a default, each once, in the order of the text; the first
    /// twenty.
    pub fn lacking(&self, mut has: impl FnMut(&Name<'t>) -> bool) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for Placeholder { name, default } in self.placeholders() {
            if names.len() == MAX_NAMED {
                break;
            }
            let known = || names.iter().any(|known| known == name.as_str());
            if default.is_none() && !has(name) && !known() {
                names.push(name.as_str().to_owned());
            }
        }
        names
    }

    /// The text with values, or else defaults, in the place of its placeholders.
    ///
    /// # Errors
    /// When a value is missing that has no default, and when the result would be longer than `max` bytes.
    pub fn expand<'v>(
        &self,
        encoding: Encoding,
        max: usize,
        mut lookup: impl FnMut(&Name<'t>) -> Option<Cow<'v, str>>,
    ) -> Result<String, ExpandError> {
        let mut text = String::new();
        for piece in &self.pieces {
            let value;
            let part = match piece {
                Piece::Text(part) => Cow::Borrowed(*part),
                Piece::Placeholder(Placeholder { name, default }) => {
                    value = lookup(name);
                    let Some(value) = value.as_deref().or(*default) else {
                        let lacking = self.lacking(|name| lookup(name).is_some());
                        return Err(ExpandError::Unresolved(lacking));
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

impl<'t> Name<'t> {
    /// `None` for what names a secret without a name.
    fn parse(name: &'t str) -> Option<Self> {
        match name.strip_prefix(SECRETS) {
            None => Some(Self::Parameter(name)),
            Some(path) => {
                let secret = path.split('.').next().unwrap_or(path);
                (!secret.is_empty()).then_some(Self::Secret(secret))
            }
        }
    }

    /// The name, without saying of what.
    #[must_use]
    pub const fn as_str(&self) -> &'t str {
        match self {
            Self::Parameter(name) | Self::Secret(name) => name,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn expanded(text: &str) -> Result<String, ExpandError> {
        Template::parse(text).expand(Encoding::Plain, 1 << 20, |name| match name {
            Name::Parameter("city") => Some("São Paulo".into()),
            Name::Parameter("nested") => Some("{{city}}".into()),
            Name::Secret("KEY") => Some("s3cret".into()),
            _ => None,
        })
    }

    #[test]
    fn values_take_the_place_of_placeholders() {
        for (text, wanted) in [
            ("", ""),
            ("plain { } }} text", "plain { } }} text"),
            ("in {{city}}!", "in São Paulo!"),
            ("{{city}}{{city}}", "São PauloSão Paulo"),
            ("Bearer {{SECRETS.KEY}}", "Bearer s3cret"),
            ("{{SECRETS.KEY.more}}", "s3cret"),
            ("{{none|a default}}", "a default"),
            ("{{none|{{city}}", "{{city"),
            ("{{city|Rome}}", "São Paulo"),
            ("{{SECRETS.NONE|free}}", "free"),
            ("{{{city}}}", "{São Paulo}"),
            // A value is not looked at again.
            ("{{nested}}", "{{city}}"),
        ] {
            assert_eq!(expanded(text).as_deref(), Ok(wanted), "{text}");
        }
    }

    #[test]
    fn what_is_no_placeholder_is_text() {
        for text in [
            "{{}}",
            "{{ city }}",
            "{{city",
            "{{city}",
            "{{city} }",
            "{{city|}}",
            "{{city|x} }",
            "{{é}}",
            "{{SECRETS.}}",
            "{{SECRETS..KEY}}",
            "{ {city}}",
            "{{a|{{b|{{c|",
        ] {
            assert_eq!(expanded(text).as_deref(), Ok(text), "{text}");
        }
        assert_eq!(expanded("{{city|{x}{{city}}").as_deref(), Ok("{{city|{x}São Paulo"));
    }

    #[test]
    fn what_is_missing_is_named_once() {
        let missing = ["b", "A"].map(str::to_owned).to_vec();
        let error = expanded("{{b}} {{SECRETS.A}} {{b}} {{c|d}}").unwrap_err();
        assert_eq!(error, ExpandError::Unresolved(missing));
    }

    #[test]
    fn values_and_defaults_are_encoded_and_bounded() {
        let template = Template::parse("/a?q={{q}}&r={{r|x y}}");
        let value = |name: &Name<'_>| (name.as_str() == "q").then(|| Cow::from("1&r=../é"));
        let text = template.expand(Encoding::Component, 100, value).unwrap();
        assert_eq!(text, "/a?q=1%26r%3D..%2F%C3%A9&r=x%20y");
        let error = template.expand(Encoding::Component, 30, value).unwrap_err();
        assert_eq!(error, ExpandError::TooLong { max: 30 });
    }

    proptest! {
        #[test]
        fn pieces_are_the_text(text in "([{}|. a-cS]|\\{\\{|\\}\\}|SECRETS\\.|é){0,40}") {
            let template = Template::parse(&text);
            let mut again = String::new();
            for piece in template.pieces() {
                match piece {
                    Piece::Text(part) => again.push_str(part),
                    Piece::Placeholder(placeholder) => {
                        // The part after the name of a secret is not kept, so it is found by its end.
                        let rest = &text[again.len()..];
                        let end = rest.find("}}").unwrap() + 2;
                        prop_assert!(rest.starts_with("{{"));
                        prop_assert!(rest[..end].contains(placeholder.name.as_str()));
                        again.push_str(&rest[..end]);
                    }
                }
            }
            prop_assert_eq!(again, text);
        }
    }
}
