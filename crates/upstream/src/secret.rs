//! Values that are not shown, and taking them out of what is shown.

use std::{collections::BTreeMap, fmt};

use skills_core::uri::percent_encoded_component;
use url::form_urlencoded;
use zeroize::Zeroizing;

/// What stands in the place of a secret.
const MARK: &str = "***";

/// A value that is never shown. Its memory is wiped when it is dropped; requests that carry it are not.
#[derive(Clone)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Takes a value in.
    pub fn new(value: impl Into<String>) -> Self {
        Self(Zeroizing::new(value.into()))
    }

    /// The value, for where it has to be sent.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({MARK})")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MARK)
    }
}

/// Takes secrets out of text that others wrote: an upstream that refuses a key likes to repeat it.
pub(crate) struct Redactor {
    /// Every form of every secret, the longest first.
    needles: Vec<Zeroizing<String>>,
}

impl Redactor {
    /// For the secrets of a call and the key of its manifest.
    pub(crate) fn new(secrets: &BTreeMap<String, Secret>, key: Option<&str>) -> Self {
        let mut needles = Vec::new();
        for value in secrets.values().map(Secret::expose).chain(key).filter(|it| !it.is_empty()) {
            let form = form_urlencoded::byte_serialize(value.as_bytes()).collect();
            let component = percent_encoded_component(value);
            let once = escaped(value);
            // JSON may be told within JSON; hosts are told in lower case.
            let forms =
                [value.to_owned(), value.to_lowercase(), component, form, escaped(&once), once];
            needles.extend(forms.map(Zeroizing::new));
        }
        needles.sort_by(|one, other| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
        needles.dedup();
        Self { needles }
    }

    /// The text without any of them.
    pub(crate) fn redacted(&self, text: &str) -> String {
        let mut clean = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(next) = rest.chars().next() {
            match self.needles.iter().find(|needle| rest.starts_with(needle.as_str())) {
                Some(needle) => {
                    clean.push_str(MARK);
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

/// A text as it stands in JSON, without its quotes.
fn escaped(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_shows_nothing() {
        let secret = Secret::new("hunter2");
        assert_eq!(format!("{secret} {secret:?} {secret:#?}"), "*** Secret(***) Secret(***)");
        assert_eq!(secret.expose(), "hunter2");
    }

    #[test]
    fn every_form_of_a_secret_is_taken_out() {
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
            assert_eq!(redactor.redacted(text), wanted);
        }
    }
}
