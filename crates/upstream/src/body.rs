//! Construction of a request's body from its template.
//!
//! A JSON template keeps its shape, and a string that is a single placeholder becomes the value with its type. A field or
//! list item without a value is left out. A text template is expanded as text, unless it is a JSON object or list: then it
//! is parsed first, so that no value can break out of its string.

use std::fmt;

use bytes::Bytes;
use hyper::header::HeaderValue;
use serde_json::{Map, Value};
use skills_manifest::template::{PlaceholderName, Template, ValueEncoding};
use url::form_urlencoded;

use crate::{
    UpstreamError,
    json_size::serialized_size,
    values::{Values, has_secret, value_text},
};

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const FORM: &str = "application/x-www-form-urlencoded";

/// Maximum nesting of a template.
const MAX_DEPTH: usize = 64;

/// Body of a request.
#[derive(Clone)]
pub(crate) struct Payload {
    pub(crate) bytes: Bytes,
    /// Media type, unless the manifest declares one.
    pub(crate) media_type: HeaderValue,
    /// True if the body contains a secret.
    pub(crate) is_secret: bool,
}

/// Prints the size only, since the body may contain a secret.
impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Payload({} bytes)", self.bytes.len())
    }
}

/// Builds the body of a template; `declared` is the media type in the manifest.
pub(crate) fn template_payload(
    template: &Value,
    values: &Values<'_>,
    declared: Option<&HeaderValue>,
) -> Result<Payload, UpstreamError> {
    let form = declared.is_some_and(is_form);
    let read;
    let tree = match template {
        Value::String(text) => match serde_json::from_str::<Value>(text) {
            Ok(tree @ (Value::Array(_) | Value::Object(_))) => {
                read = tree;
                &read
            }
            _ if Template::parse(text).as_single_placeholder().is_none() => {
                return text_payload(text, values, form);
            }
            _ => template,
        },
        _ => template,
    };
    let mut builder = BodyBuilder { values, remaining: values.max, is_secret: false };
    let Some(value) = builder.build(tree, 0)? else {
        let names = |text: &str| {
            let whole =
                Template::parse(text).as_single_placeholder().map(|it| it.name.as_str().to_owned());
            whole.into_iter().collect()
        };
        return Err(UpstreamError::MissingParameters(tree.as_str().map(names).unwrap_or_default()));
    };
    let is_secret = builder.is_secret;
    Ok(Payload { is_secret, ..serialize(&value, values.max, form)? })
}

/// Builds a body of the parameters themselves.
pub(crate) fn params_payload(
    params: &Map<String, Value>,
    max: usize,
    declared: Option<&HeaderValue>,
) -> Result<Payload, UpstreamError> {
    serialize(&Value::Object(params.clone()), max, declared.is_some_and(is_form))
}

fn is_form(media_type: &HeaderValue) -> bool {
    let named = media_type.to_str().unwrap_or_default().split(';').next().unwrap_or_default();
    named.trim().eq_ignore_ascii_case(FORM)
}

fn text_payload(text: &str, values: &Values<'_>, form: bool) -> Result<Payload, UpstreamError> {
    let template = Template::parse(text);
    let encoding = if form { ValueEncoding::Component } else { ValueEncoding::Plain };
    let text = values.expand(&template, encoding)?.map_err(UpstreamError::MissingParameters)?;
    let is_json = serde_json::from_str::<Value>(&text).is_ok();
    let media_type = if is_json { JSON } else { TEXT };
    Ok(Payload { bytes: text.into(), media_type, is_secret: has_secret(&template) })
}

/// Serializes a value as JSON, or an object as form fields.
fn serialize(value: &Value, max: usize, form: bool) -> Result<Payload, UpstreamError> {
    let bytes = match value {
        Value::Object(fields) if form => {
            let mut form = form_urlencoded::Serializer::new(String::new());
            for (name, value) in fields {
                if let Some(text) = value_text(value) {
                    form.append_pair(name, &text);
                }
            }
            form.finish().into_bytes()
        }
        _ => value.to_string().into_bytes(),
    };
    if bytes.len() > max {
        return Err(UpstreamError::RequestTooLarge { max });
    }
    Ok(Payload { bytes: bytes.into(), media_type: JSON, is_secret: false })
}

/// Builder of a JSON body that replaces placeholders.
struct BodyBuilder<'f> {
    values: &'f Values<'f>,
    /// Remaining bytes. Counted while building, because a small template can insert a large value many times.
    remaining: usize,
    is_secret: bool,
}

impl BodyBuilder<'_> {
    fn build(&mut self, template: &Value, depth: usize) -> Result<Option<Value>, UpstreamError> {
        if depth > MAX_DEPTH {
            return Err(UpstreamError::invalid(format!(
                "its body is nested deeper than {MAX_DEPTH}"
            )));
        }
        Ok(Some(match template {
            Value::String(text) => return self.string(text),
            Value::Array(items) => {
                let mut list = Vec::with_capacity(items.len());
                for item in items {
                    list.extend(self.build(item, depth + 1)?);
                }
                Value::Array(list)
            }
            Value::Object(fields) => {
                let mut object = Map::new();
                for (name, value) in fields {
                    if let Some(value) = self.build(value, depth + 1)? {
                        object.insert(name.clone(), value);
                    }
                }
                Value::Object(object)
            }
            plain @ (Value::Null | Value::Bool(_) | Value::Number(_)) => plain.clone(),
        }))
    }

    fn string(&mut self, text: &str) -> Result<Option<Value>, UpstreamError> {
        let template = Template::parse(text);
        if let Some(placeholder) = template.as_single_placeholder()
            && let PlaceholderName::Parameter(name) = placeholder.name
            && let Some(value) = self.values.params.get(name)
            && !(value.is_null() && placeholder.default.is_some())
        {
            self.count(serialized_size(value, self.remaining))?;
            return Ok(Some(value.clone()));
        }
        match self.values.expand(&template, ValueEncoding::Plain)? {
            Ok(text) => {
                self.count(text.len())?;
                self.is_secret |= has_secret(&template);
                Ok(Some(Value::String(text)))
            }
            Err(_) => Ok(None),
        }
    }

    fn count(&mut self, bytes: usize) -> Result<(), UpstreamError> {
        let too_large = UpstreamError::RequestTooLarge { max: self.values.max };
        self.remaining = self.remaining.checked_sub(bytes).ok_or(too_large)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use skills_core::Coded as _;

    use super::*;
    use crate::Secret;

    const FORM_TYPE: HeaderValue = HeaderValue::from_static("application/x-www-form-urlencoded");

    fn build(template: Value, declared: Option<&HeaderValue>) -> Result<Payload, UpstreamError> {
        let params =
            json!({"n": 9, "q": "a\"b&c", "list": [1, {"x": 2}], "null": null, "t": "{{n}}"});
        let secrets = BTreeMap::from([("K".to_owned(), Secret::new("s3cret"))]);
        let values = Values { params: params.as_object().unwrap(), secrets: &secrets, max: 100 };
        template_payload(&template, &values, declared)
    }

    fn sent(template: Value) -> Value {
        serde_json::from_slice(&build(template, None).unwrap().bytes).unwrap()
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
        let text = build(json!("hello {{q}}"), None).unwrap();
        assert_eq!((text.bytes.as_ref(), text.media_type), (&b"hello a\"b&c"[..], TEXT));
        let form = build(json!("q={{q}}&n={{n}}"), Some(&FORM_TYPE)).unwrap();
        assert_eq!(form.bytes.as_ref(), b"q=a%22b%26c&n=9");
        let form = build(json!({"q": "{{q}}", "x": "{{none}}"}), Some(&FORM_TYPE)).unwrap();
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
            assert_eq!(build(template.clone(), None).unwrap().is_secret, wanted, "{template}");
        }
    }

    #[test]
    fn what_cannot_be_a_body() {
        let code = |template| build(template, None).unwrap_err().code().as_str();
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
        let begun = skills_testkit::thread_cpu_time();
        assert_eq!(template_payload(&template, &values, None).unwrap().bytes.as_ref(), b"[]");
        // Putting each together before leaving it out would move 50 GB.
        assert!((skills_testkit::thread_cpu_time() - begun).as_secs() < 5);
    }
}
