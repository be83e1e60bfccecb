//! Secret values, and their redaction from text.

use std::{collections::BTreeMap, fmt};

use skills_core::uri::percent_encode_component;
use url::form_urlencoded;
use zeroize::Zeroizing;

/// Replacement of a secret in text.
const MASK: &str = "***";

/// Secret value that is never printed. Its memory is zeroed on drop; that of requests with it is not.
#[derive(Clone)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Creates a secret.
    pub fn new(value: impl Into<String>) -> Self {
        Self(Zeroizing::new(value.into()))
    }

    /// Returns the plain text.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({MASK})")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

/// Removes secrets from text of upstreams, which may repeat a key in an error.
#[derive(Default)]
pub(crate) struct Redactor {
    /// All encoded forms of all secrets, longest first.
    needles: Vec<Zeroizing<String>>,
}

impl Redactor {
    /// Creates a redactor for the secrets of a call and the key of its manifest.
    pub(crate) fn new(secrets: &BTreeMap<String, Secret>, key: Option<&str>) -> Self {
        let mut needles = Vec::new();
        for value in secrets.values().map(Secret::expose).chain(key).filter(|it| !it.is_empty()) {
            let form = form_urlencoded::byte_serialize(value.as_bytes()).collect();
            let component = percent_encode_component(value);
            let once = escaped(value);
            // JSON may be nested in JSON; hosts are in lower case.
            let forms =
                [value.to_owned(), value.to_lowercase(), component, form, escaped(&once), once];
            needles.extend(forms.map(Zeroizing::new));
        }
        needles.sort_by(|one, other| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
        needles.dedup();
        Self { needles }
    }

    /// Returns the text with all secrets masked.
    pub(crate) fn redact(&self, text: &str) -> String {
        let mut clean = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(next) = rest.chars().next() {
            match self.needles.iter().find(|needle| rest.starts_with(needle.as_str())) {
                Some(needle) => {
                    clean.push_str(MASK);
                    rest = &rest[needle.len()..];
                }
                None => {
                    clean.push(next);
                    rest = &rest[next.len_utf8()..];
                }
            }
        }
        clean
    }
}

/// Returns a text as it is written in JSON, without quotes.
fn escaped(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_never_printed() {
        let secret = Secret::new("hunter2");
        assert_eq!(format!("{secret} {secret:?} {secret:#?}"), "*** Secret(***) Secret(***)");
        assert_eq!(secret.expose(), "hunter2");
    }

    #[test]
    fn every_form_of_a_secret_is_masked() {
        let secrets = [("A", "a b\"c"), ("B", "a b\"cd"), ("EMPTY", "")];
        let secrets = secrets.map(|(name, value)| (name.to_owned(), Secret::new(value)));
        let redactor = Redactor::new(&secrets.into(), Some("literal"));
        for (text, wanted) in [
            ("nothing", "nothing"),
            ("key a b\"c!", "key ***!"),
            ("a b\"cd", "***"),
            ("?k=a%20b%22c&k=a+b%22c", "?k=***&k=***"),
            (r#"{"k":"a b\"c"}"#, r#"{"k":"***"}"#),
            (r#""{\"k\":\"a b\\\"c\"}""#, r#""{\"k\":\"***\"}""#),
            ("é literally", "é ***ly"),
        ] {
            assert_eq!(redactor.redact(text), wanted, "{text}");
        }
    }
}
