//! The body of a request, from its template.
//!
//! A template that is a tree keeps its shape, and a string that is one placeholder becomes the value itself,
//! with its type. What lacks a value is left out: a field with its name, an item of a list, not the rest.
//! A template that is text is expanded as text, unless it reads as a JSON object or list: then it is that tree,
//! and no value can break out of its string.

use std::fmt;

use bytes::Bytes;
use hyper::header::HeaderValue;
use serde_json::{Map, Value};
use skills_core::template::{Encoding, Name, Template};
use url::form_urlencoded;

use crate::{
    ExecuteError,
    size::json_size,
    values::{Values, is_secret, text_of},
};

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const FORM: &str = "application/x-www-form-urlencoded";

/// How deep a template may be.
const MAX_DEPTH: usize = 64;

/// What is sent.
#[derive(Clone)]
pub(crate) struct Payload {
    pub(crate) bytes: Bytes,
    /// What it is, if the manifest does not say.
    pub(crate) media_type: HeaderValue,
    /// Whether a secret is in it.
    pub(crate) is_secret: bool,
}

/// It may hold a secret.
impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Payload({} bytes)", self.bytes.len())
    }
}

/// The body that a template stands for; `declared` is the media type that the manifest gives it.
pub(crate) fn payload(
    template: &Value,
    values: &Values<'_>,
    declared: Option<&HeaderValue>,
) -> Result<Payload, ExecuteError> {
    let form = declared.is_some_and(is_form);
    let read;
    let tree = match template {
        Value::String(text) => match serde_json::from_str::<Value>(text) {
            Ok(tree @ (Value::Array(_) | Value::Object(_))) => {
                read = tree;
                &read
            }
            _ if Template::parse(text).whole().is_none() => {
                return text_payload(text, values, form);
            }
            _ => template,
        },
        _ => template,
    };
    let mut filling = Filling { values, left: values.max, is_secret: false };
    let Some(value) = filling.filled(tree, 0)? else {
        let names = |text: &str| {
            let whole = Template::parse(text).whole().map(|it| it.name.as_str().to_owned());
            whole.into_iter().collect()
        };
        return Err(ExecuteError::MissingParameters(tree.as_str().map(names).unwrap_or_default()));
    };
    let is_secret = filling.is_secret;
    Ok(Payload { is_secret, ..written(&value, values.max, form)? })
}

/// The parameters as they are.
pub(crate) fn of_params(
    params: &Map<String, Value>,
    max: usize,
    declared: Option<&HeaderValue>,
) -> Result<Payload, ExecuteError> {
    written(&Value::Object(params.clone()), max, declared.is_some_and(is_form))
}

fn is_form(media_type: &HeaderValue) -> bool {
    let named = media_type.to_str().unwrap_or_default().split(';').next().unwrap_or_default();
    named.trim().eq_ignore_ascii_case(FORM)
}

fn text_payload(text: &str, values: &Values<'_>, form: bool) -> Result<Payload, ExecuteError> {
    let template = Template::parse(text);
    let encoding = if form { Encoding::Component } else { Encoding::Plain };
    let text = values.expanded(&template, encoding)?.map_err(ExecuteError::MissingParameters)?;
    let is_json = serde_json::from_str::<Value>(&text).is_ok();
    let media_type = if is_json { JSON } else { TEXT };
    Ok(Payload { bytes: text.into(), media_type, is_secret: is_secret(&template) })
}

/// Writes a value as JSON, or an object as the fields of a form if it is to be one.
fn written(value: &Value, max: usize, form: bool) -> Result<Payload, ExecuteError> {
    let bytes = match value {
        Value::Object(fields) if form => {
            let mut form = form_urlencoded::Serializer::new(String::new());
            for (name, value) in fields {
                if let Some(text) = text_of(value) {
                    form.append_pair(name, &text);
                }
            }
            form.finish().into_bytes()
        }
        _ => value.to_string().into_bytes(),
    };
    if bytes.len() > max {
        return Err(ExecuteError::RequestTooLarge { max });
    }
    Ok(Payload { bytes: bytes.into(), media_type: JSON, is_secret: false })
}

/// Filling in a tree.
struct Filling<'f> {
    values: &'f Values<'f>,
    /// How many bytes may still come. Counted while filling, since few bytes of a template can ask for a
    /// large value many times.
    left: usize,
    is_secret: bool,
}

impl Filling<'_> {
    fn filled(&mut self, template: &Value, depth: usize) -> Result<Option<Value>, ExecuteError> {
        if depth > MAX_DEPTH {
            return Err(ExecuteError::invalid(format!(
                "its body is nested deeper than {MAX_DEPTH}"
            )));
        }
        Ok(Some(match template {
            Value::String(text) => return self.string(text),
            Value::Array(items) => {
                let mut list = Vec::with_capacity(items.len());
                for item in items {
                    list.extend(self.filled(item, depth + 1)?);
                }
                Value::Array(list)
            }
            Value::Object(fields) => {
                let mut object = Map::new();
                for (name, value) in fields {
                    if let Some(value) = self.filled(value, depth + 1)? {
                        object.insert(name.clone(), value);
                    }
                }
                Value::Object(object)
            }
            plain @ (Value::Null | Value::Bool(_) | Value::Number(_)) => plain.clone(),
        }))
    }

    fn string(&mut self, text: &str) -> Result<Option<Value>, ExecuteError> {
        let template = Template::parse(text);
        if let Some(placeholder) = template.whole()
            && let Name::Parameter(name) = placeholder.name
            && let Some(value) = self.values.params.get(name)
            && !(value.is_null() && placeholder.default.is_some())
        {
            self.take(json_size(value, self.left))?;
            return Ok(Some(value.clone()));
        }
        match self.values.expanded(&template, Encoding::Plain)? {
            Ok(text) => {
                self.take(text.len())?;
                self.is_secret |= is_secret(&template);
                Ok(Some(Value::String(text)))
            }
            Err(_) => Ok(None),
        }
    }

    fn take(&mut self, bytes: usize) -> Result<(), ExecuteError> {
        let too_large = ExecuteError::RequestTooLarge { max: self.values.max };
        self.left = self.left.checked_sub(bytes).ok_or(too_large)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;
    use crate::Secret;

    const FORM_TYPE: HeaderValue = HeaderValue::from_static("application/x-www-form-urlencoded");

    fn made(template: Value, declared: Option<&HeaderValue>) -> Result<Payload, ExecuteError> {
        let params =
            json!({"n": 9, "q": "a\"b&c", "list": [1, {"x": 2}], "null": null, "t": "{{n}}"});
        let secrets = BTreeMap::from([("K".to_owned(), Secret::new("s3cret"))]);
        let values = Values { params: params.as_object().unwrap(), secrets: &secrets, max: 100 };
        payload(&template, &values, declared)
    }

    fn sent(template: Value) -> Value {
        serde_json::from_slice(&made(template, None).unwrap().bytes).unwrap()
    }

    #[test]
    fn a_tree_is_filled_in() {
        for (template, wanted) in [
            (json!({"a": "{{n}}"}), json!({"a": 9})),
            (json!({"a": "{{list}}"}), json!({"a": [1, {"x": 2}]})),
            (json!({"a": "n is {{n}}"}), json!({"a": "n is 9"})),
            (
                json!({"a": {"b": ["{{q}}", {"c": "{{n}}"}]}}),
                json!({"a": {"b": ["a\"b&c", {"c": 9}]}}),
            ),
            (json!({"a": "{{none}}", "b": "x{{none}}", "c": 1}), json!({"c": 1})),
            (json!({"a": ["{{none}}", 1, {"b": "{{none}}"}]}), json!({"a": [1, {}]})),
            (
                json!({"a": "{{none|5}}", "b": "{{null}}", "c": "{{null|d}}"}),
                json!({"a": "5", "b": null, "c": "d"}),
            ),
            (json!({"a": "{{t}}"}), json!({"a": "{{n}}"})),
            (json!({"a": "{{SECRETS.K}}"}), json!({"a": "s3cret"})),
            (json!("{{list}}"), json!([1, {"x": 2}])),
            (json!(r#"{"a": "{{q}}", "b": "{{n}}"}"#), json!({"a": "a\"b&c", "b": 9})),
            (json!(r#"{"a": {{n}}}"#), json!({"a": 9})),
            (json!([true, 1.5, null]), json!([true, 1.5, null])),
        ] {
            assert_eq!(sent(template.clone()), wanted, "{template}");
        }
    }

    #[test]
    fn text_and_forms() {
        let text = made(json!("hello {{q}}"), None).unwrap();
        assert_eq!((text.bytes.as_ref(), text.media_type), (&b"hello a\"b&c"[..], TEXT));
        let form = made(json!("q={{q}}&n={{n}}"), Some(&FORM_TYPE)).unwrap();
        assert_eq!(form.bytes.as_ref(), b"q=a%22b%26c&n=9");
        let form = made(json!({"q": "{{q}}", "x": "{{none}}"}), Some(&FORM_TYPE)).unwrap();
        assert_eq!(form.bytes.as_ref(), b"q=a%22b%26c");
    }

    #[test]
    fn whether_a_secret_is_in_it() {
        for (template, wanted) in [
            (json!({"a": ["{{SECRETS.K}}"]}), true),
            (json!("key={{SECRETS.K}}"), true),
            (json!({"a": "{{n}}"}), false),
            (json!({"a": "{{SECRETS.NONE}}"}), false),
        ] {
            assert_eq!(made(template.clone(), None).unwrap().is_secret, wanted, "{template}");
        }
    }

    #[test]
    fn what_cannot_be_a_body() {
        let code = |template| made(template, None).unwrap_err().code();
        assert_eq!(code(json!("{{none}}")), "missing_parameters");
        assert_eq!(code(json!("a={{none}}")), "missing_parameters");
        let mut deep = json!(1);
        for _ in 0..=MAX_DEPTH {
            deep = json!([deep]);
        }
        assert_eq!(code(deep), "invalid_implementation");
        // Small as a template, large when filled in.
        assert_eq!(code(json!(vec!["{{list}}"; 20])), "request_too_large");
        assert_eq!(code(json!(vec!["x{{q}}"; 20])), "request_too_large");
        assert_eq!(code(json!("x".repeat(101))), "request_too_large");
    }

    #[test]
    fn what_is_left_out_costs_nothing() {
        let params = Map::from_iter([("big".to_owned(), json!("x".repeat(1 << 20)))]);
        let values = Values { params: &params, secrets: &BTreeMap::new(), max: 1 << 21 };
        let template = json!(vec!["{{big}}{{none}}"; 50_000]);
        let begun = std::time::Instant::now();
        assert_eq!(payload(&template, &values, None).unwrap().bytes.as_ref(), b"[]");
        // Putting each together before leaving it out would move 50 GB.
        assert!(begun.elapsed() < std::time::Duration::from_secs(5));
    }
}
