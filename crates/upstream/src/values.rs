//! The values of a call: parameters of the caller and secrets.

use std::{borrow::Cow, collections::BTreeMap};

use serde_json::{Map, Value};
use skills_core::template::{Encoding, ExpandError, Name, Template};

use crate::{ExecuteError, Secret};

/// What placeholders stand for, and how much may be made of it.
pub(crate) struct Values<'a> {
    pub(crate) params: &'a Map<String, Value>,
    pub(crate) secrets: &'a BTreeMap<String, Secret>,
    /// The most bytes that a request may have.
    pub(crate) max: usize,
}

impl<'a> Values<'a> {
    /// The text of a value. A parameter that is null counts as not given.
    pub(crate) fn text(&self, name: &Name<'_>) -> Option<Cow<'a, str>> {
        match name {
            Name::Parameter(name) => self.params.get(*name).and_then(text_of),
            Name::Secret(name) => self.secrets.get(*name).map(|it| Cow::Borrowed(it.expose())),
        }
    }

    fn has(&self, name: &Name<'_>) -> bool {
        match name {
            Name::Parameter(name) => self.params.get(*name).is_some_and(|value| !value.is_null()),
            Name::Secret(name) => self.secrets.contains_key(*name),
        }
    }

    /// The text of a template; the names of what it lacks, if it lacks something. What it lacks is found
    /// before anything is put together, so that work is paid for by bytes that are sent.
    pub(crate) fn expanded(
        &self,
        template: &Template<'_>,
        encoding: Encoding,
    ) -> Result<Result<String, Vec<String>>, ExecuteError> {
        let lacking = template.lacking(|name| self.has(name));
        if !lacking.is_empty() {
            return Ok(Err(lacking));
        }
        match template.expand(encoding, self.max, |name| self.text(name)) {
            Ok(text) => Ok(Ok(text)),
            Err(ExpandError::Unresolved(names)) => Ok(Err(names)),
            Err(ExpandError::TooLong { max }) => Err(ExecuteError::RequestTooLarge { max }),
        }
    }
}

/// Whether a secret is put into it.
pub(crate) fn is_secret(template: &Template<'_>) -> bool {
    template.placeholders().any(|placeholder| matches!(placeholder.name, Name::Secret(_)))
}

/// A value as text: a list of plain values is joined by commas, anything deeper is JSON; null is nothing.
pub(crate) fn text_of(value: &Value) -> Option<Cow<'_, str>> {
    Some(match value {
        Value::Null => return None,
        Value::String(text) => Cow::Borrowed(text),
        Value::Array(items) if items.iter().all(is_plain) => {
            let texts: Vec<_> =
                items.iter().map(|item| text_of(item).unwrap_or_default()).collect();
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
            assert_eq!(text_of(&value).as_deref(), wanted);
        }
    }
}
