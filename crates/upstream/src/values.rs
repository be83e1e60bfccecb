//! Values of placeholders: the caller's parameters, and secrets.

use std::{borrow::Cow, collections::BTreeMap};

use serde_json::{Map, Value};
use skills_manifest::template::{ExpandError, PlaceholderName, Template, ValueEncoding};

use crate::{Secret, UpstreamError};

/// Values of the placeholders of a call.
pub(crate) struct Values<'a> {
    pub(crate) params: &'a Map<String, Value>,
    pub(crate) secrets: &'a BTreeMap<String, Secret>,
    /// Maximum bytes of the request.
    pub(crate) max: usize,
}

impl<'a> Values<'a> {
    /// Returns a value as text. A null parameter counts as absent.
    pub(crate) fn text(&self, name: &PlaceholderName<'_>) -> Option<Cow<'a, str>> {
        match name {
            PlaceholderName::Parameter(name) => self.params.get(*name).and_then(value_text),
            PlaceholderName::Secret(name) => {
                self.secrets.get(*name).map(|it| Cow::Borrowed(it.expose()))
            }
        }
    }

    fn has(&self, name: &PlaceholderName<'_>) -> bool {
        match name {
            PlaceholderName::Parameter(name) => {
                self.params.get(*name).is_some_and(|value| !value.is_null())
            }
            PlaceholderName::Secret(name) => self.secrets.contains_key(*name),
        }
    }

    /// Expands a template; the inner error has the names of missing values. They are found before anything is built, so
    /// that the work is limited by the bytes that are sent.
    pub(crate) fn expand(
        &self,
        template: &Template<'_>,
        encoding: ValueEncoding,
    ) -> Result<Result<String, Vec<String>>, UpstreamError> {
        let missing = template.missing_names(|name| self.has(name));
        if !missing.is_empty() {
            return Ok(Err(missing));
        }
        match template.expand(encoding, self.max, |name| self.text(name)) {
            Ok(text) => Ok(Ok(text)),
            Err(ExpandError::Unresolved(names)) => Ok(Err(names)),
            Err(ExpandError::TooLong { max }) => Err(UpstreamError::RequestTooLarge { max }),
        }
    }
}

/// Returns whether a template has a placeholder of a secret.
pub(crate) fn has_secret(template: &Template<'_>) -> bool {
    template
        .placeholders()
        .any(|placeholder| matches!(placeholder.name, PlaceholderName::Secret(_)))
}

/// Returns a value as text: a flat list is joined by commas, anything nested is JSON; `None` for null.
pub(crate) fn value_text(value: &Value) -> Option<Cow<'_, str>> {
    Some(match value {
        Value::Null => return None,
        Value::String(text) => Cow::Borrowed(text),
        Value::Array(items) if items.iter().all(is_plain) => {
            let texts: Vec<_> =
                items.iter().map(|item| value_text(item).unwrap_or_default()).collect();
            Cow::Owned(texts.join(","))
        }
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            Cow::Owned(value.to_string())
        }
    })
}

const fn is_plain(value: &Value) -> bool {
    !matches!(value, Value::Array(_) | Value::Object(_))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_as_text() {
        for (value, wanted) in [
            (json!(null), None),
            (json!("a b"), Some("a b")),
            (json!(9), Some("9")),
            (json!(1.5), Some("1.5")),
            (json!(true), Some("true")),
            (json!([1, "a", null]), Some("1,a,")),
            (json!([[1], 2]), Some("[[1],2]")),
            (json!({"a": 1}), Some(r#"{"a":1}"#)),
        ] {
            assert_eq!(value_text(&value).as_deref(), wanted, "{value:?}");
        }
    }
}
