//! Credentials that an author wrote into a manifest instead of naming a secret.
//!
//! A manifest is read by everyone who may call the tool, so it should say `{{SECRETS.NAME}}`. What is
//! written out is reported when it is stored and replaced when it is shown: the key, headers, fields of the query
//! and of the body whose names say that they are credentials. What has another name is not found.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::spec::SkillSpec;
use crate::template::{Piece, Template};

/// What stands for a credential that is not shown.
pub const REDACTED: &str = "[redacted]";

/// What names of credentials are, without case and punctuation.
const NAMES: [&str; 7] = ["auth", "credential", "credentials", "passwd", "pwd", "sig", "signature"];
/// What names of credentials end with.
const ENDINGS: [&str; 9] = [
    "accesskey",
    "apikey",
    "authkey",
    "authorization",
    "password",
    "privatekey",
    "secret",
    "subscriptionkey",
    "token",
];
/// Longer words beside a placeholder are more than the name of a scheme.
const MAX_SCHEME_BYTES: usize = 16;

impl SkillSpec {
    /// The same without literal credentials: what may be shown to others.
    #[must_use]
    pub fn redacted(&self) -> Cow<'_, Self> {
        let literals = literals(&self.implementation);
        if literals.is_empty() {
            return Cow::Borrowed(self);
        }
        let mut spec = self.clone();
        let mut implementation = Value::Object(std::mem::take(&mut spec.implementation));
        for (place, shown) in literals {
            if let Some(value) = implementation.pointer_mut(&place) {
                *value = shown;
            }
        }
        if let Value::Object(fields) = implementation {
            spec.implementation = fields;
        }
        Cow::Owned(spec)
    }
}

/// Whether the value of a header, its name in lower case, is a credential.
#[must_use]
pub fn is_credential_header(name: &str) -> bool {
    name == "cookie" || is_credential(name)
}

fn is_credential(name: &str) -> bool {
    let plain: String =
        name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    NAMES.contains(&plain.as_str()) || ENDINGS.iter().any(|ending| plain.ends_with(ending))
}

/// The JSON pointer of everything in an implementation that holds a literal credential, and what is shown there
/// instead.
pub(super) fn literals(implementation: &Map<String, Value>) -> Vec<(String, Value)> {
    let request = implementation.get("request").and_then(Value::as_object);
    let mut found = Vec::new();
    for (prefix, fields) in [("", Some(implementation)), ("/request", request)] {
        let Some(fields) = fields else { continue };
        if fields.get("api_key").is_some_and(is_literal) {
            found.push((format!("{prefix}/api_key"), REDACTED.into()));
        }
        for (name, value) in fields.get("headers").and_then(Value::as_object).into_iter().flatten()
        {
            if is_credential_header(&name.to_ascii_lowercase()) && is_literal(value) {
                let name = name.replace('~', "~0").replace('/', "~1");
                found.push((format!("{prefix}/headers/{name}"), REDACTED.into()));
            }
        }
        for key in ["endpoint", "url"] {
            let shown = fields.get(key).and_then(Value::as_str).and_then(redacted_url);
            found.extend(shown.map(|shown| (format!("{prefix}/{key}"), shown.into())));
        }
        for key in ["body", "payload"] {
            let shown = fields.get(key).and_then(redacted_body);
            found.extend(shown.map(|shown| (format!("{prefix}/{key}"), shown)));
        }
    }
    found
}

/// A URL without the credentials of its query; `None` when there are none.
fn redacted_url(url: &str) -> Option<String> {
    let (before, query) = url.split_once('?')?;
    Some(format!("{before}?{}", redacted_fields(query)?))
}

/// The same for `name=value` pairs with `&` between them.
fn redacted_fields(fields: &str) -> Option<String> {
    let mut is_redacted = false;
    let mut redacted = |field: &str| match field.split_once('=') {
        // A query knows keys by this name, too.
        Some((name, value))
            if (is_credential(name) || name.eq_ignore_ascii_case("key")) && is_written(value) =>
        {
            is_redacted = true;
            format!("{name}={REDACTED}")
        }
        _ => field.to_owned(),
    };
    let fields: Vec<_> = fields.split('&').map(&mut redacted).collect();
    is_redacted.then(|| fields.join("&"))
}

/// A body without credentials, whether it is a tree or a text; `None` when there are none.
fn redacted_body(body: &Value) -> Option<Value> {
    if let Value::String(text) = body {
        return redacted_text(text).map(Value::String);
    }
    let mut shown = body.clone();
    let mut is_redacted = false;
    // By hand: a manifest may be nested more deeply than a stack is.
    let mut waiting = vec![&mut shown];
    while let Some(value) = waiting.pop() {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    if is_credential(name) && !value.is_object() && is_literal(value) {
                        *value = REDACTED.into();
                        is_redacted = true;
                    } else {
                        waiting.push(value);
                    }
                }
            }
            Value::Array(items) => waiting.extend(items),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    is_redacted.then_some(shown)
}

/// The same for a text that is a form, or holds a tree, which is then not shown at all.
fn redacted_text(text: &str) -> Option<String> {
    if !text.trim_start().starts_with(['{', '[']) {
        return redacted_fields(text);
    }
    let tree: Value = serde_json::from_str(text).ok()?;
    redacted_body(&tree).map(|_| REDACTED.to_owned())
}

/// Whether a value is written out. What is not text is no placeholder, whatever it is.
fn is_literal(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::String(text) => is_written(text),
        _ => true,
    }
}

/// Whether a text is more than a placeholder and the name of a scheme. The default of a placeholder is written
/// out too.
fn is_written(text: &str) -> bool {
    let mut beside = String::new();
    let mut has_placeholder = false;
    let template = Template::parse(text);
    for piece in template.pieces() {
        match piece {
            Piece::Text(text) => beside.push_str(text),
            Piece::Placeholder(placeholder) if placeholder.default.is_some() => return true,
            Piece::Placeholder(_) => has_placeholder = true,
        }
    }
    let beside = beside.trim();
    match has_placeholder {
        true => beside.len() > MAX_SCHEME_BYTES || beside.bytes().any(|b| b.is_ascii_digit()),
        false => !beside.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_placeholder_and_its_scheme_are_no_credential() {
        for value in
            ["", "{{SECRETS.K}}", "Bearer {{SECRETS.K}}", "Token token={{K}}", "{{U}}:{{P}}"]
        {
            assert!(!is_literal(&json!(value)), "{value}");
        }
        for value in [
            "sk-1",
            "Bearer abc",
            "{{K|sk-1}}",
            "sk-live-0{{K}}",
            "{{K",
            "Basic dXNlcjpwYXNzd29yZA== {{K}}",
        ] {
            assert!(is_literal(&json!(value)), "{value}");
        }
        assert!(is_literal(&json!(7)) && is_literal(&json!({"a": 1})) && !is_literal(&json!(null)));
    }

    #[test]
    fn what_is_named_like_a_credential_is_one() {
        for name in [
            "authorization",
            "x-api-key",
            "api_key",
            "X-RapidAPI-Key",
            "access_token",
            "client-secret",
        ] {
            assert!(is_credential_header(&name.to_ascii_lowercase()), "{name}");
        }
        for name in ["accept", "x-key-count", "max_tokens", "author", "monkey", "content-type"] {
            assert!(!is_credential_header(name), "{name}");
        }
    }

    #[test]
    fn queries_and_bodies_are_shown_without_credentials() {
        let shown = |implementation: Value| {
            let mut implementation = implementation;
            for (place, shown) in literals(implementation.as_object().unwrap()) {
                *implementation.pointer_mut(&place).unwrap() = shown;
            }
            implementation
        };
        for (written, wanted) in [
            (
                json!({"endpoint": "https://a?q=1&key=sk-1&x"}),
                json!({"endpoint": "https://a?q=1&key=[redacted]&x"}),
            ),
            (
                json!({"url": "https://a?api_key={{K|sk-1}}"}),
                json!({"url": "https://a?api_key=[redacted]"}),
            ),
            (
                json!({"request": {"url": "https://a?token=x"}}),
                json!({"request": {"url": "https://a?token=[redacted]"}}),
            ),
            (
                json!({"body": {"q": 1, "auth": {"password": "p", "user": "u"}, "l": [{"apiKey": 7}]}}),
                json!({"body": {"q": 1, "auth": {"password": "[redacted]", "user": "u"}, "l": [{"apiKey": "[redacted]"}]}}),
            ),
            (
                json!({"payload": "q={{q}}&secret=s"}),
                json!({"payload": "q={{q}}&secret=[redacted]"}),
            ),
            (json!({"body": "{\"token\": \"t\"}"}), json!({"body": "[redacted]"})),
        ] {
            assert_eq!(shown(written), wanted);
        }
        for same in [
            json!({"endpoint": "https://a?key={{SECRETS.K}}&token={{t}}", "body": {"token": "{{SECRETS.T}}"}}),
            json!({"endpoint": "https://a/key=1", "body": "{\"q\": \"token=1\"}", "payload": {"key": "colour"}}),
            json!({"body": ["token", "{{x}}", null], "endpoint": 7}),
        ] {
            assert_eq!(shown(same.clone()), same);
        }
    }
}
