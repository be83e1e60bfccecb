//! Where the templates of a manifest's implementation stand, and which secrets they need.
//!
//! The one list of these places: what asks for secrets beforehand and what expands templates later must not
//! differ.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{Name, Template};

/// In `api_key` these are secrets also without `SECRETS.`: manifests that are older than that word use them.
const BARE_KEYS: [&str; 2] = ["TAVILY_API_KEY", "JINA_API_KEY"];

/// The secrets that an implementation refers to, sorted, each name once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SecretNeeds {
    /// Without these it cannot be executed.
    pub required: Vec<String>,
    /// These have a default wherever they stand.
    pub optional: Vec<String>,
}

/// The secrets that an implementation refers to anywhere it is expanded.
#[must_use]
pub fn needed_secrets(implementation: &Map<String, Value>) -> SecretNeeds {
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
    texts_of(implementation).into_iter().for_each(|text| note(text, false));
    key_of(implementation).into_iter().for_each(|text| note(text, true));
    let (optional, required): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|(_, optional)| *optional);
    let names = |found: Vec<(String, bool)>| found.into_iter().map(|(name, _)| name).collect();
    SecretNeeds { required: names(required), optional: names(optional) }
}

/// Whether there is a placeholder anywhere in an implementation.
#[must_use]
pub fn is_templated(implementation: &Map<String, Value>) -> bool {
    let has = |text: &str| Template::parse(text).placeholders().next().is_some();
    texts_of(implementation).into_iter().chain(key_of(implementation)).any(has)
}

/// Every text of an implementation that is expanded, but for its key.
fn texts_of(implementation: &Map<String, Value>) -> Vec<&str> {
    let request = implementation.get("request");
    let headers = [implementation.get("headers"), request.and_then(|it| it.get("headers"))];
    let mut texts: Vec<_> = endpoint_of(implementation).into_iter().collect();
    // By hand: a manifest may be nested more deeply than a stack is.
    let mut waiting: Vec<_> =
        headers.into_iter().flatten().chain(body_of(implementation)).collect();
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

/// The name of the secret that a placeholder stands for. In `api_key` (`bare`) a few names need no prefix.
fn secret_name<'t>(name: &Name<'t>, bare: bool) -> Option<&'t str> {
    match name {
        Name::Secret(name) => Some(name),
        Name::Parameter(name) => (bare && BARE_KEYS.contains(name)).then_some(name),
    }
}

impl<'t> Name<'t> {
    /// The name as it is meant in `api_key`.
    #[must_use]
    pub fn in_key(self) -> Self {
        secret_name(&self, true).map_or(self, Name::Secret)
    }
}

/// The template of the address: `endpoint`, or else `url`.
#[must_use]
pub fn endpoint_of(implementation: &Map<String, Value>) -> Option<&str> {
    text_at(implementation, "endpoint").or_else(|| text_at(implementation, "url"))
}

/// The template of the key that is sent as a bearer token.
#[must_use]
pub fn key_of(implementation: &Map<String, Value>) -> Option<&str> {
    text_at(implementation, "api_key")
}

/// The template of the body: `request.body`, or else `body`, or else `payload`. What says nothing (null, an
/// empty text, zero, false) is passed over.
#[must_use]
pub fn body_of(implementation: &Map<String, Value>) -> Option<&Value> {
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

fn text_at<'m>(fields: &'m Map<String, Value>, name: &str) -> Option<&'m str> {
    fields.get(name).and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn needs(implementation: Value) -> SecretNeeds {
        needed_secrets(implementation.as_object().unwrap())
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn secrets_are_found_wherever_they_would_be_put_in() {
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
        assert_eq!(needs(bodies), SecretNeeds::default());
        let url = json!({"endpoint": " ", "url": "https://a.test/{{SECRETS.U}}"});
        assert_eq!(needs(url).required, names(&["U"]));
        assert_eq!(
            needs(json!({"endpoint": 7, "headers": [], "api_key": {}})),
            SecretNeeds::default()
        );
    }

    #[test]
    fn bare_keys_are_secrets_in_the_key_only() {
        let found =
            needs(json!({"endpoint": "https://a.test/{{JINA_API_KEY}}", "api_key": "{{key}}"}));
        assert_eq!(found, SecretNeeds::default());
    }

    #[test]
    fn placeholders_are_found_wherever_they_would_be_expanded() {
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
                is_templated(implementation.as_object().unwrap()),
                wanted,
                "{implementation}"
            );
        }
    }

    #[test]
    fn depth_is_no_danger() {
        let mut deep = json!("{{SECRETS.DEEP}}");
        for _ in 0..1_000 {
            deep = json!([deep]);
        }
        assert_eq!(needs(json!({"body": deep})).required, names(&["DEEP"]));
    }
}
