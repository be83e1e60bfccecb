//! Construction of a request's headers: default ones, those of the manifest, and its API key.
//!
//! A value with a secret is marked as sensitive, and not sent to another origin after a redirect.

use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value};
use skills_manifest::{
    is_connection_header,
    template::{ExpandError, PlaceholderName, Template, ValueEncoding, api_key_template},
};

use crate::{
    UpstreamError,
    values::{Values, has_secret, value_text},
};

/// Header with the id of the call.
const TRACE_ID: HeaderName = HeaderName::from_static("x-uniskill-trace-id");

/// Returns the header templates; a later one replaces an earlier one. Requests prefer the headers of `request`, while the
/// published form of a tool prefers the others: existing manifests rely on both.
fn header_templates(
    implementation: &Map<String, Value>,
) -> Result<Vec<(&String, &Value)>, UpstreamError> {
    let request = implementation.get("request").and_then(|request| request.get("headers"));
    let mut found = Vec::new();
    for headers in [implementation.get("headers"), request].into_iter().flatten() {
        match headers {
            Value::Null => {}
            Value::Object(fields) => found.extend(fields),
            _ => return Err(UpstreamError::invalid("its headers are not an object")),
        }
    }
    Ok(found)
}

/// Builds all headers except those of the connection and the body. A header of the manifest without a value for a
/// parameter is left out.
pub(crate) fn build_headers(
    implementation: &Map<String, Value>,
    values: &Values<'_>,
    trace_id: &str,
) -> Result<HeaderMap, UpstreamError> {
    let mut headers = HeaderMap::new();
    headers.insert(header::USER_AGENT, HeaderValue::from_static(crate::client::USER_AGENT));
    headers.insert(
        header::ACCEPT,
        HeaderValue::from_static("application/json, text/*;q=0.9, */*;q=0.5"),
    );
    let mut bytes = 0;
    for (name, value) in header_templates(implementation)? {
        let invalid = || UpstreamError::InvalidHeader { name: name.clone() };
        let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid())?;
        let text = match value {
            Value::Array(_) | Value::Object(_) => return Err(invalid()),
            plain => value_text(plain),
        };
        let Some(text) = text.filter(|_| !is_connection_header(key.as_str())) else { continue };
        let template = Template::parse(&text);
        let Ok(text) = values.expand(&template, ValueEncoding::Plain)? else { continue };
        bytes += name.len() + text.len();
        if bytes > values.max {
            return Err(UpstreamError::RequestTooLarge { max: values.max });
        }
        headers.insert(key, header_value(&text, has_secret(&template)).ok_or_else(invalid)?);
    }
    let invalid = |name: &HeaderName| UpstreamError::InvalidHeader { name: name.to_string() };
    let trace = header_value(trace_id, false).ok_or_else(|| invalid(&TRACE_ID))?;
    headers.insert(TRACE_ID, trace);
    headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    if let Some(key) = api_key(implementation, values)? {
        let value = header_value(&format!("Bearer {key}"), true);
        headers
            .insert(header::AUTHORIZATION, value.ok_or_else(|| invalid(&header::AUTHORIZATION))?);
    }
    Ok(headers)
}

/// Returns a header value; `None` if the text has a character that HTTP does not allow, such as a line break.
fn header_value(text: &str, is_secret: bool) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_bytes(text.trim().as_bytes()).ok()?;
    value.set_sensitive(is_secret);
    Some(value)
}

/// Returns the API key of the manifest, if any.
fn api_key(
    implementation: &Map<String, Value>,
    values: &Values<'_>,
) -> Result<Option<String>, UpstreamError> {
    let Some(text) = api_key_template(implementation) else { return Ok(None) };
    let template = Template::parse(text);
    // In a key, a plain name may denote a secret too.
    let lookup = |name: &PlaceholderName<'_>| values.text(&name.as_api_key_name());
    match template.expand(ValueEncoding::Plain, values.max, lookup) {
        Ok(key) => Ok(Some(key).filter(|key| !key.is_empty())),
        Err(ExpandError::Unresolved(names)) => Err(UpstreamError::MissingParameters(names)),
        Err(ExpandError::TooLong { max }) => Err(UpstreamError::RequestTooLarge { max }),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde_json::json;

    use skills_core::Coded as _;

    use super::*;
    use crate::Secret;

    fn build(implementation: Value, params: Value) -> Result<HeaderMap, UpstreamError> {
        let names = ["KEY", "TAVILY_API_KEY"];
        let secrets: BTreeMap<_, _> =
            names.map(|name| (name.to_owned(), Secret::new("s3cret"))).into();
        let params = params.as_object().unwrap();
        let values = Values { params, secrets: &secrets, max: 100 };
        build_headers(implementation.as_object().unwrap(), &values, "trace-1")
    }

    fn code(implementation: Value, params: Value) -> &'static str {
        build(implementation, params).unwrap_err().code().as_str()
    }

    #[test]
    fn headers_of_request_win_and_the_key_comes_last() {
        let built = build(
            json!({
                "headers": {"X-A": "one", "x-b": "{{b}}", "X-C": "{{none}}", "X-N": 7, "X-Z": null},
                "request": {"headers": {"x-a": "two", "Authorization": "mine", "X-S": "{{SECRETS.KEY}}"}},
                "api_key": "{{SECRETS.KEY}}",
            }),
            json!({"b": [1, 2]}),
        )
        .unwrap();
        let at = |name: &str| built.get(name).map(|value| value.to_str().unwrap());
        assert_eq!(at("x-a"), Some("two"));
        assert_eq!(at("x-b"), Some("1,2"));
        assert_eq!((at("x-c"), at("x-z"), at("x-n")), (None, None, Some("7")));
        assert_eq!(at("authorization"), Some("Bearer s3cret"));
        assert_eq!(at("x-uniskill-trace-id"), Some("trace-1"));
        assert_eq!(at("user-agent"), Some(concat!("skills/", env!("CARGO_PKG_VERSION"))));
        assert_eq!(at("content-type"), None);
        let sensitive: Vec<_> = built.iter().filter(|(_, value)| value.is_sensitive()).collect();
        assert_eq!(sensitive.len(), 2, "{sensitive:?}");
    }

    #[test]
    fn headers_of_the_connection_cannot_be_set() {
        let headers = json!({
            "Host": "evil.test", "Connection": "upgrade", "Content-Length": "7", "TE": "trailers",
            "Transfer-Encoding": "chunked", "Accept-Encoding": "gzip", "X-UniSkill-Trace-ID": "x",
        });
        let built = build(json!({"headers": headers}), json!({})).unwrap();
        assert_eq!(built[header::ACCEPT_ENCODING], "identity");
        assert_eq!(built[TRACE_ID], "trace-1");
        assert_eq!(built.len(), 4, "{built:?}");
    }

    #[test]
    fn keys_of_old_manifests_are_secrets() {
        let built = build(json!({"api_key": "{{TAVILY_API_KEY}}"}), json!({})).unwrap();
        assert_eq!(built[header::AUTHORIZATION], "Bearer s3cret");
        assert_eq!(code(json!({"api_key": "{{key}}"}), json!({})), "missing_parameters");
    }

    #[test]
    fn invalid_headers_are_refused() {
        for value in ["a\r\nX-Evil: 1", "a\nb", "a\0b", "a\x7fb"] {
            let headers = json!({"headers": {"X-A": "{{v}}"}});
            assert_eq!(code(headers, json!({"v": value})), "invalid_header", "{value:?}");
            assert_eq!(
                code(json!({"api_key": "{{v}}"}), json!({"v": value})),
                "invalid_header",
                "{value}"
            );
        }
        for headers in
            [json!({"X A": "b"}), json!({"": "b"}), json!({"X-A\r\n": "b"}), json!({"X": []})]
        {
            assert_eq!(
                code(json!({"headers": headers}), json!({})),
                "invalid_header",
                "{headers:?}"
            );
        }
        assert_eq!(code(json!({"headers": ["X-A"]}), json!({})), "invalid_implementation");
        let long = json!({"v": "x".repeat(60)});
        let twice = json!({"headers": {"A": "{{v}}", "B": "{{v}}"}});
        assert_eq!(code(twice, long), "request_too_large");
    }

    proptest! {
        #[test]
        fn no_value_adds_a_header(value in "(\\PC|[\r\n:\t ]){0,12}") {
            let headers = json!({"headers": {"X-A": "a{{v}}"}});
            if let Ok(built) = build(headers, json!({"v": value})) {
                prop_assert_eq!(built.len(), 5);
                let bytes = built["x-a"].as_bytes();
                prop_assert!(!bytes.iter().any(|byte| b"\r\n".contains(byte)));
            }
        }
    }
}
