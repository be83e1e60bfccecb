//! Credentials that an author wrote into a manifest instead of naming a secret.
//!
//! A manifest is read by everyone who may call the tool, so it should say `{{SECRETS.NAME}}`. What is
//! written out is reported when it is stored and replaced when it is shown.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::spec::SkillSpec;

/// What stands for a credential that is not shown.
pub const REDACTED: &str = "[redacted]";

/// Headers whose value is a credential, in lower case.
const HEADERS: [&str; 7] = [
    "api-key",
    "authorization",
    "cookie",
    "proxy-authorization",
    "x-access-token",
    "x-api-key",
    "x-auth-token",
];
/// Longer words beside a placeholder are more than the name of a scheme.
const MAX_SCHEME_BYTES: usize = 16;

impl SkillSpec {
    /// The same without literal credentials: what may be shown to others.
    #[must_use]
    pub fn redacted(&self) -> Cow<'_, Self> {
        let mut places = Vec::new();
        find_literals(&self.implementation, &mut |place| places.push(place.to_owned()));
        if places.is_empty() {
            return Cow::Borrowed(self);
        }
        let mut spec = self.clone();
        let mut implementation = Value::Object(std::mem::take(&mut spec.implementation));
        for place in places {
            if let Some(value) = implementation.pointer_mut(&place) {
                *value = REDACTED.into();
            }
        }
        if let Value::Object(fields) = implementation {
            spec.implementation = fields;
        }
        Cow::Owned(spec)
    }
}

/// Calls `found` with the JSON pointer of every literal credential of an implementation.
pub(super) fn find_literals(implementation: &Map<String, Value>, found: &mut dyn FnMut(&str)) {
    let request = implementation.get("request").and_then(Value::as_object);
    for (prefix, fields) in [("", Some(implementation)), ("/request", request)] {
        let Some(fields) = fields else { continue };
        if fields.get("api_key").is_some_and(is_literal) {
            found(&format!("{prefix}/api_key"));
        }
        for (name, value) in fields.get("headers").and_then(Value::as_object).into_iter().flatten()
        {
            if HEADERS.contains(&name.to_ascii_lowercase().as_str()) && is_literal(value) {
                let name = name.replace('~', "~0").replace('/', "~1");
                found(&format!("{prefix}/headers/{name}"));
            }
        }
    }
}

/// Whether a value is written out: more than a placeholder and the name of a scheme. The default of a
/// placeholder is written out too.
fn is_literal(value: &Value) -> bool {
    let text = match value {
        Value::Null => return false,
        Value::String(text) => text,
        // Whatever it is, it is no placeholder.
        _ => return true,
    };
    let mut rest = text.as_str();
    let mut beside = String::new();
    let mut has_placeholder = false;
    while let Some((before, after)) = rest.split_once("{{") {
        let Some((name, tail)) = after.split_once("}}") else { break };
        if name.contains('|') {
            return true;
        }
        has_placeholder = true;
        beside.push_str(before);
        rest = tail;
    }
    beside.push_str(rest);
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
}
