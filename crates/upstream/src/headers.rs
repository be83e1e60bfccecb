//! The headers of a request: ours, those of the manifest, and its key.
//!
//! A value that holds a secret is marked as sensitive; that mark decides what another origin does not get.

use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value};
use skills_core::{
    manifest::is_of_connection,
    template::{Encoding, ExpandError, Name, Template, key_of},
};

use crate::{
    ExecuteError,
    values::{Values, is_secret, text_of},
};

/// Under which name the upstream is told the id of the call.
const TRACE_ID: HeaderName = HeaderName::from_static("x-uniskill-trace-id");

/// The templates of the headers, in the order in which a later one takes the place of an earlier one: what is
/// sent has those of `request`. Those that a tool is shown with have the others first, as they always had; both
/// are what existing manifests were written for.
fn templates(implementation: &Map<String, Value>) -> Result<Vec<(&String, &Value)>, ExecuteError> {
    let request = implementation.get("request").and_then(|request| request.get("headers"));
    let mut found = Vec::new();
    for headers in [implementation.get("headers"), request].into_iter().flatten() {
        match headers {
            Value::Null => {}
            Value::Object(fields) => found.extend(fields),
            _ => return Err(ExecuteError::invalid("its headers are not an object")),
        }
    }
    Ok(found)
}

/// All headers but those of the connection and the body. One of the manifest that lacks a parameter is
/// left out.
pub(crate) fn headers(
    implementation: &Map<String, Value>,
    values: &Values<'_>,
    trace_id: &str,
) -> Result<HeaderMap, ExecuteError> {
    let mut headers = HeaderMap::new();
    headers.insert(header::USER_AGENT, HeaderValue::from_static(crate::upstream::USER_AGENT));
    headers.insert(
        header::ACCEPT,
        HeaderValue::from_static("application/json, text/*;q=0.9, */*;q=0.5"),
    );
    let mut bytes = 0;
    for (name, value) in templates(implementation)? {
        let refused = || ExecuteError::InvalidHeader { name: name.clone() };
        let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| refused())?;
        let text = match value {
            Value::Array(_) | Value::Object(_) => return Err(refused()),
            plain => text_of(plain),
        };
        let Some(text) = text.filter(|_| !is_of_connection(key.as_str())) else { continue };
        let template = Template::parse(&text);
        let Ok(text) = values.expanded(&template, Encoding::Plain)? else { continue };
        bytes += name.len() + text.len();
        if bytes > values.max {
            return Err(ExecuteError::RequestTooLarge { max: values.max });
        }
        headers.insert(key, value_of(&text, is_secret(&template)).ok_or_else(refused)?);
    }
    let refused = |name: &HeaderName| ExecuteError::InvalidHeader { name: name.to_string() };
    let trace = value_of(trace_id, false).ok_or_else(|| refused(&TRACE_ID))?;
    headers.insert(TRACE_ID, trace);
    headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    if let Some(key) = key(implementation, values)? {
        let value = value_of(&format!("Bearer {key}"), true);
        headers
            .insert(header::AUTHORIZATION, value.ok_or_else(|| refused(&header::AUTHORIZATION))?);
    }
    Ok(headers)
}

/// `None` when it has a line break or another character that no header may have.
fn value_of(text: &str, is_secret: bool) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_bytes(text.trim().as_bytes()).ok()?;
    value.set_sensitive(is_secret);
    Some(value)
}

/// The key that goes with the request, if the manifest has one.
fn key(
    implementation: &Map<String, Value>,
    values: &Values<'_>,
) -> Result<Option<String>, ExecuteError> {
    let Some(text) = key_of(implementation) else { return Ok(None) };
    let template = Template::parse(text);
    // A name without the word for secrets may still be one here.
    let meant = |name: &Name<'_>| values.text(&name.in_key());
    match template.expand(Encoding::Plain, values.max, meant) {
        Ok(key) => Ok(Some(key).filter(|key| !key.is_empty())),
        Err(ExpandError::Unresolved(names)) => Err(ExecuteError::MissingParameters(names)),
        Err(ExpandError::TooLong { max }) => Err(ExecuteError::RequestTooLarge { max }),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::Secret;

    fn made(implementation: Value, params: Value) -> Result<HeaderMap, ExecuteError> {
        let names = ["KEY", "TAVILY_API_KEY"];
        let secrets: BTreeMap<_, _> =
            names.map(|name| (name.to_owned(), Secret::new("s3cret"))).into();
        let params = params.as_object().unwrap();
        let values = Values { params, secrets: &secrets, max: 100 };
        headers(implementation.as_object().unwrap(), &values, "trace-1")
    }

    fn code(implementation: Value, params: Value) -> &'static str {
        made(implementation, params).unwrap_err().code()
    }

    #[test]
    fn the_request_wins_and_the_key_comes_last() {
        let made = made(
            json!({
                "headers": {"X-A": "one", "x-b": "{{b}}", "X-C": "{{none}}", "X-N": 7, "X-Z": null},
                "request": {"headers": {"x-a": "two", "Authorization": "mine", "X-S": "{{SECRETS.KEY}}"}},
                "api_key": "{{SECRETS.KEY}}",
            }),
            json!({"b": [1, 2]}),
        )
        .unwrap();
        let at = |name: &str| made.get(name).map(|value| value.to_str().unwrap());
        assert_eq!(at("x-a"), Some("two"));
        assert_eq!(at("x-b"), Some("1,2"));
        assert_eq!((at("x-c"), at("x-z"), at("x-n")), (None, None, Some("7")));
        assert_eq!(at("authorization"), Some("Bearer s3cret"));
        assert_eq!(at("x-uniskill-trace-id"), Some("trace-1"));
        assert_eq!(at("user-agent"), Some(concat!("skills/", env!("CARGO_PKG_VERSION"))));
        assert_eq!(at("content-type"), None);
        let sensitive: Vec<_> = made.iter().filter(|(_, value)| value.is_sensitive()).collect();
        assert_eq!(sensitive.len(), 2, "{sensitive:?}");
    }

    #[test]
    fn what_belongs_to_the_connection_is_ours() {
        let headers = json!({
            "Host": "evil.test", "Connection": "upgrade", "Content-Length": "7", "TE": "trailers",
            "Transfer-Encoding": "chunked", "Accept-Encoding": "gzip", "X-UniSkill-Trace-ID": "x",
        });
        let made = made(json!({"headers": headers}), json!({})).unwrap();
        assert_eq!(made[header::ACCEPT_ENCODING], "identity");
        assert_eq!(made[TRACE_ID], "trace-1");
        assert_eq!(made.len(), 4, "{made:?}");
    }

    #[test]
    fn keys_of_old_manifests_are_secrets() {
        let made = made(json!({"api_key": "{{TAVILY_API_KEY}}"}), json!({})).unwrap();
        assert_eq!(made[header::AUTHORIZATION], "Bearer s3cret");
        assert_eq!(code(json!({"api_key": "{{key}}"}), json!({})), "missing_parameters");
    }

    #[test]
    fn what_cannot_be_a_header() {
        for value in ["a\r\nX-Evil: 1", "a\nb", "a\0b", "a\x7fb"] {
            let headers = json!({"headers": {"X-A": "{{v}}"}});
            assert_eq!(code(headers, json!({"v": value})), "invalid_header", "{value:?}");
            assert_eq!(code(json!({"api_key": "{{v}}"}), json!({"v": value})), "invalid_header");
        }
        for headers in
            [json!({"X A": "b"}), json!({"": "b"}), json!({"X-A\r\n": "b"}), json!({"X": []})]
        {
            assert_eq!(code(json!({"headers": headers}), json!({})), "invalid_header");
        }
        assert_eq!(code(json!({"headers": ["X-A"]}), json!({})), "invalid_implementation");
        let long = json!({"v": "x".repeat(60)});
        let twice = json!({"headers": {"A": "{{v}}", "B": "{{v}}"}});
        assert_eq!(code(twice, long), "request_too_large");
    }

    proptest! {
        #[test]
        fn no_value_makes_another_header(value in "(\\PC|[\r\n:\t ]){0,12}") {
            let headers = json!({"headers": {"X-A": "a{{v}}"}});
            if let Ok(made) = made(headers, json!({"v": value})) {
                prop_assert_eq!(made.len(), 5);
                let bytes = made["x-a"].as_bytes();
                prop_assert!(!bytes.iter().any(|byte| b"\r\n".contains(byte)));
            }
        }
    }
}
