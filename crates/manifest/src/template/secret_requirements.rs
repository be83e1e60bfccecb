//! Locations of the templates in a tool's implementation, and the secrets that they refer to.
//!
//! This is the only list of template locations: collecting secrets before a call and expanding templates during it
//! must not differ.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{PlaceholderName, Template};

/// Names that are secrets in `api_key` even without `SECRETS.`; old manifests use them.
const BARE_KEYS: [&str; 2] = ["TAVILY_API_KEY", "JINA_API_KEY"];

/// Secrets that an implementation refers to, sorted, each name once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SecretRequirements {
    /// Secrets without a default in at least one place.
    pub required: Vec<String>,
    /// Secrets with a default in every place.
    pub optional: Vec<String>,
}

/// Collects the secrets that an implementation refers to.
#[must_use]
pub fn secret_requirements(implementation: &Map<String, Value>) -> SecretRequirements {
    // By name: whether every place has a default.
    let mut found = BTreeMap::<String, bool>::new();
    let mut note = |text: &str, bare: bool| {
        for placeholder in Template::parse(text).placeholders() {
            if let Some(name) = secret_name(&placeholder.name, bare) {
                let optional = found.entry(name.to_owned()).or_insert(true);
                *optional &= placeholder.default.is_some();
            }
        }
    };
    collect_texts(implementation).into_iter().for_each(|text| note(text, false));
    api_key_template(implementation).into_iter().for_each(|text| note(text, true));
    let (optional, required): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|(_, optional)| *optional);
    let names = |found: Vec<(String, bool)>| found.into_iter().map(|(name, _)| name).collect();
    SecretRequirements { required: names(required), optional: names(optional) }
}

/// Returns whether an implementation contains any placeholder.
#[must_use]
pub fn has_placeholders(implementation: &Map<String, Value>) -> bool {
    let has = |text: &str| Template::parse(text).placeholders().next().is_some();
    collect_texts(implementation).into_iter().chain(api_key_template(implementation)).any(has)
}

/// Collects every template of an implementation except its key.
fn collect_texts(implementation: &Map<String, Value>) -> Vec<&str> {
    let request = implementation.get("request");
    let headers = [implementation.get("headers"), request.and_then(|it| it.get("headers"))];
    let mut texts: Vec<_> = endpoint_template(implementation).into_iter().collect();
    // By hand: a manifest may be nested more deeply than a stack is.
    let mut waiting: Vec<_> =
        headers.into_iter().flatten().chain(body_template(implementation)).collect();
    while let Some(value) = waiting.pop() {
        match value {
            Value::String(text) => texts.push(text),
            Value::Array(items) => waiting.extend(items),
            Value::Object(fields) => waiting.extend(fields.values()),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    texts
}

/// Returns the secret of a placeholder. In `api_key` (`bare`) a few names need no prefix.
fn secret_name<'t>(name: &PlaceholderName<'t>, bare: bool) -> Option<&'t str> {
    match name {
        PlaceholderName::Secret(name) => Some(name),
        PlaceholderName::Parameter(name) => (bare && BARE_KEYS.contains(name)).then_some(name),
    }
}

impl<'t> PlaceholderName<'t> {
    /// Converts the name to its meaning in `api_key`.
    #[must_use]
    pub fn as_api_key_name(self) -> Self {
        secret_name(&self, true).map_or(self, PlaceholderName::Secret)
    }
}

/// Returns the URL template: `endpoint`, or else `url`.
#[must_use]
pub fn endpoint_template(implementation: &Map<String, Value>) -> Option<&str> {
    trimmed_text(implementation, "endpoint").or_else(|| trimmed_text(implementation, "url"))
}

/// Returns the template of the bearer token.
#[must_use]
pub fn api_key_template(implementation: &Map<String, Value>) -> Option<&str> {
    trimmed_text(implementation, "api_key")
}

/// Returns the body template: `request.body`, or else `body`, or else `payload`. Empty values (null, empty text,
/// zero, false) are skipped.
#[must_use]
pub fn body_template(implementation: &Map<String, Value>) -> Option<&Value> {
    let says = |value: &&Value| match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::Bool(true) | Value::Array(_) | Value::Object(_) => true,
    };
    let in_request = implementation.get("request").and_then(|request| request.get("body"));
    [in_request, implementation.get("body"), implementation.get("payload")]
        .into_iter()
        .flatten()
        .find(says)
}

fn trimmed_text<'m>(fields: &'m Map<String, Value>, name: &str) -> Option<&'m str> {
    fields.get(name).and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn needs(implementation: Value) -> SecretRequirements {
        secret_requirements(implementation.as_object().unwrap())
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn secrets_are_found_in_every_template() {
        let found = needs(json!({
            "endpoint": "https://a.test/{{SECRETS.E}}?x={{SECRETS.D|none}}",
            "headers": {"A": "{{SECRETS.H}}", "B": "{{SECRETS.E|again}}"},
            "request": {
                "headers": {"C": "{{SECRETS.R}}"},
                "body": {"deep": [{"er": "{{SECRETS.B}} {{param}}"}]},
            },
            "api_key": "{{JINA_API_KEY}}",
            "description": "{{SECRETS.NOT_EXPANDED}}",
        }));
        assert_eq!(found.required, names(&["B", "E", "H", "JINA_API_KEY", "R"]));
        assert_eq!(found.optional, names(&["D"]));
    }

    #[test]
    fn only_the_body_that_is_sent_counts() {
        let bodies = json!({"request": {"body": ""}, "body": null, "payload": "{{SECRETS.P}}"});
        assert_eq!(needs(bodies).required, names(&["P"]));
        let bodies = json!({"body": {"a": 1}, "payload": "{{SECRETS.P}}"});
        assert_eq!(needs(bodies), SecretRequirements::default());
        let url = json!({"endpoint": " ", "url": "https://a.test/{{SECRETS.U}}"});
        assert_eq!(needs(url).required, names(&["U"]));
        assert_eq!(
            needs(json!({"endpoint": 7, "headers": [], "api_key": {}})),
            SecretRequirements::default()
        );
    }

    #[test]
    fn bare_keys_are_secrets_in_the_key_only() {
        let found =
            needs(json!({"endpoint": "https://a.test/{{JINA_API_KEY}}", "api_key": "{{key}}"}));
        assert_eq!(found, SecretRequirements::default());
    }

    #[test]
    fn placeholders_are_found_in_every_template() {
        for (implementation, wanted) in [
            (json!({"endpoint": "https://a.test/", "about": "{{x}}"}), false),
            (json!({"endpoint": "https://a.test/{{x}}"}), true),
            (json!({"headers": {"A": "{{x}}"}}), true),
            (json!({"request": {"headers": {"A": "{{x}}"}}}), true),
            (json!({"body": [{"a": "{{x}}"}]}), true),
            (json!({"api_key": "{{x}}"}), true),
            (json!({"api_key": "{{ x }}"}), false),
        ] {
            assert_eq!(
                has_placeholders(implementation.as_object().unwrap()),
                wanted,
                "{implementation}"
            );
        }
    }

    #[test]
    fn deep_nesting_does_not_overflow_the_stack() {
        let mut deep = json!("{{SECRETS.DEEP}}");
        for _ in 0..1_000 {
            deep = json!([deep]);
        }
        assert_eq!(needs(json!({"body": deep})).required, names(&["DEEP"]));
    }
}
