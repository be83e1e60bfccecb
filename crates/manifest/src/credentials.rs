//! Literal credentials in a manifest, where the author should have referred to a secret.
//!
//! Everyone who may call the tool can read its manifest, so it should use `{{SECRETS.NAME}}`. Literals are reported
//! when a manifest is stored and redacted when it is shown: the key, and headers, query fields and body fields with
//! the name of a credential. Other names are not found.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::spec::SkillSpec;
use crate::template::{Template, TemplatePart};

/// Replacement for a credential that is not shown.
pub const REDACTED: &str = "[redacted]";

/// Names of credentials, without case and punctuation.
const NAMES: [&str; 7] = ["auth", "credential", "credentials", "passwd", "pwd", "sig", "signature"];
/// Endings of credential names.
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
/// Longest name of an authentication scheme beside a placeholder.
const MAX_SCHEME_BYTES: usize = 16;

impl SkillSpec {
    /// Replaces literal credentials, so that the manifest can be shown to callers.
    #[must_use]
    pub fn redact(&self) -> Cow<'_, Self> {
        let literals = find_literals(&self.implementation);
        if literals.is_empty() {
            return Cow::Borrowed(self);
        }
        let mut spec = self.clone();
        let mut implementation = Value::Object(std::mem::take(&mut spec.implementation));
        for (pointer, replacement) in literals {
            if let Some(value) = implementation.pointer_mut(&pointer) {
                *value = replacement;
            }
        }
        if let Value::Object(fields) = implementation {
            spec.implementation = fields;
        }
        Cow::Owned(spec)
    }
}

/// Returns whether a header (in lower case) carries a credential.
#[must_use]
pub fn is_credential_header(name: &str) -> bool {
    name == "cookie" || is_credential(name)
}

fn is_credential(name: &str) -> bool {
    let plain: String =
        name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    NAMES.contains(&plain.as_str()) || ENDINGS.iter().any(|ending| plain.ends_with(ending))
}

/// Finds literal credentials in an implementation. Returns their JSON pointers and the replacements.
pub(super) fn find_literals(implementation: &Map<String, Value>) -> Vec<(String, Value)> {
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
            let replacement = fields.get(key).and_then(Value::as_str).and_then(redact_url);
            found.extend(
                replacement.map(|replacement| (format!("{prefix}/{key}"), replacement.into())),
            );
        }
        for key in ["body", "payload"] {
            let replacement = fields.get(key).and_then(redact_body);
            found.extend(replacement.map(|replacement| (format!("{prefix}/{key}"), replacement)));
        }
    }
    found
}

/// Redacts the query of a URL; `None` when it has no credentials.
fn redact_url(url: &str) -> Option<String> {
    let (before, query) = url.split_once('?')?;
    Some(format!("{before}?{}", redact_fields(query)?))
}

/// Redacts `name=value` pairs joined by `&`; `None` when there are no credentials.
fn redact_fields(fields: &str) -> Option<String> {
    let mut is_redacted = false;
    let mut redact = |field: &str| match field.split_once('=') {
        // A query knows keys by this name, too.
        Some((name, value))
            if (is_credential(name) || name.eq_ignore_ascii_case("key"))
                && is_literal_text(value) =>
        {
            is_redacted = true;
            format!("{name}={REDACTED}")
        }
        _ => field.to_owned(),
    };
    let fields: Vec<_> = fields.split('&').map(&mut redact).collect();
    is_redacted.then(|| fields.join("&"))
}

/// Redacts a body, a tree or a text; `None` when it has no credentials.
fn redact_body(body: &Value) -> Option<Value> {
    if let Value::String(text) = body {
        return redact_text(text).map(Value::String);
    }
    let mut replacement = body.clone();
    let mut is_redacted = false;
    // By hand: a manifest may be nested more deeply than a stack is.
    let mut waiting = vec![&mut replacement];
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
    is_redacted.then_some(replacement)
}

/// Redacts a text that is a form. A text that holds a JSON tree with credentials is replaced as a whole.
fn redact_text(text: &str) -> Option<String> {
    if !text.trim_start().starts_with(['{', '[']) {
        return redact_fields(text);
    }
    let tree: Value = serde_json::from_str(text).ok()?;
    redact_body(&tree).map(|_| REDACTED.to_owned())
}

/// Returns whether a value is a literal and not a placeholder. Anything but text is a literal.
fn is_literal(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::String(text) => is_literal_text(text),
        _ => true,
    }
}

/// Returns whether a text is more than a placeholder and the name of an authentication scheme. The default of a
/// placeholder is a literal too.
fn is_literal_text(text: &str) -> bool {
    let mut beside = String::new();
    let mut has_placeholder = false;
    let template = Template::parse(text);
    for piece in template.parts() {
        match piece {
            TemplatePart::Text(text) => beside.push_str(text),
            TemplatePart::Placeholder(placeholder) if placeholder.default.is_some() => return true,
            TemplatePart::Placeholder(_) => has_placeholder = true,
        }
    }
    let beside = beside.trim();
    if has_placeholder {
        beside.len() > MAX_SCHEME_BYTES || beside.bytes().any(|b| b.is_ascii_digit())
    } else {
        !beside.is_empty()
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
    fn credential_headers_are_recognised_by_name() {
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
    fn queries_and_bodies_are_redacted() {
        let replacement = |implementation: Value| {
            let mut implementation = implementation;
            for (locate, replacement) in find_literals(implementation.as_object().unwrap()) {
                *implementation.pointer_mut(&locate).unwrap() = replacement;
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
            assert_eq!(replacement(written.clone()), wanted, "{written:?}");
        }
        for same in [
            json!({"endpoint": "https://a?key={{SECRETS.K}}&token={{t}}", "body": {"token": "{{SECRETS.T}}"}}),
            json!({"endpoint": "https://a/key=1", "body": "{\"q\": \"token=1\"}", "payload": {"key": "colour"}}),
            json!({"body": ["token", "{{x}}", null], "endpoint": 7}),
        ] {
            assert_eq!(replacement(same.clone()), same, "{same:?}");
        }
    }
}
