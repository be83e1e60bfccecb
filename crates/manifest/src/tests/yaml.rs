//! Meaning of the YAML of an implementation.

use serde_json::json;

use super::*;

fn implementation(yaml: &str) -> ParsedManifest {
    lenient(&format!("# a\n## Implementation\n```yaml\n{yaml}\n```\n"))
}

#[test]
fn scalars_are_those_of_the_core_schema() {
    for (written, value) in [
        ("yes", json!("yes")),
        ("no", json!("no")),
        ("on", json!("on")),
        ("true", json!(true)),
        ("~", json!(null)),
        ("012", json!(12)),
        ("0o14", json!(12)),
        ("0x1F", json!(31)),
        ("1_000", json!("1_000")),
        ("0b11", json!("0b11")),
        ("-7", json!(-7)),
        ("1e3", json!(1000.0)),
        ("'12'", json!("12")),
        ("1.5", json!(1.5)),
        ("2026-01-02", json!("2026-01-02")),
        ("'{{k}}'", json!("{{k}}")),
        ("https://a/b?c=d", json!("https://a/b?c=d")),
    ] {
        let parsed = implementation(&format!("type: api\nk: {written}"));
        assert_eq!(parsed.spec.implementation.get("k"), Some(&value), "{written}");
    }
}

#[test]
fn structure() {
    let of = |yaml: &str| Value::Object(implementation(yaml).spec.implementation);
    let unknown = json!({"type": "unknown"});
    for broken in ["a: 1\na: 2", "a:\n\tb: 1", "a: 1\n---\nb: 2", "a: [", "- a", "text", "'"] {
        assert_eq!(of(broken), unknown, "{broken}");
        assert!(
            implementation(broken).diagnostics.iter().any(|d| d.severity == Severity::Error),
            "{broken}"
        );
    }
    assert_eq!(of("a: &x {b: 1}\nc: *x"), json!({"type": "unknown", "a": {"b": 1}, "c": {"b": 1}}));
    assert_eq!(of("# only a comment"), unknown);
    assert_eq!(of("{\"type\": \"api\", \"a\": [1]}"), json!({"type": "api", "a": [1]}));
}

#[test]
fn merge_keys_are_keys() {
    let parsed = implementation("a: &x {b: 1}\nc:\n  <<: *x\n  d: 2");
    assert_eq!(parsed.spec.implementation.get("c"), Some(&json!({"<<": {"b": 1}, "d": 2})));
}

/// Different: elsewhere an unquoted placeholder is a mapping with a mapping as its key.
#[test]
fn placeholders_must_be_quoted() {
    let placeholder = implementation("type: api\napi_key: {{k}}");
    assert_eq!(placeholder.spec.implementation.get("api_key"), None);
    let error = placeholder.diagnostics.iter().find(|d| d.severity == Severity::Error).unwrap();
    assert!(error.message.contains("quote"), "{error}");
}
