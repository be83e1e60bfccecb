//! Checks that refuse a new manifest, and redaction of what is shown.

use serde_json::{Map, json};
use skills_core::Coded as _;

use super::*;

/// The codes and places of everything that a configuration gives reason to say.
fn about(config: &Value) -> Vec<(&'static str, String)> {
    let text = json!({"id": "z", "meta": {"description": "d"}, "config": config}).to_string();
    lenient(&text).diagnostics.into_iter().map(|d| (d.code, d.pointer)).collect()
}

fn one(code: &'static str, pointer: &str) -> Vec<(&'static str, String)> {
    vec![(code, pointer.to_owned())]
}

fn id(text: &str) -> SkillId {
    text.parse().unwrap()
}

#[test]
fn ids() {
    let manifest =
        |id: &str| json!({"id": id, "meta": {"name": "n", "description": "d"}}).to_string();
    for wrong in ["A", "a b", "a:b", "s:x", "../x", "skills", &"a".repeat(65)] {
        assert!(errors(&manifest(wrong)).contains(&("invalid_id", "/id".into())), "{wrong}");
    }
    assert_eq!(strict(&manifest("a-b_1")).unwrap().spec.id.as_deref(), Some("a-b_1"));
    let stored = |text: &str, mode| parse(text, mode, Some(&id("weather")));
    let refused = stored(&manifest("other"), ParseMode::Strict).unwrap_err();
    assert!(refused.diagnostics().iter().any(|found| found.code == "id_mismatch"));
    let spec = stored(&manifest("other"), ParseMode::Lenient).unwrap().spec;
    assert_eq!((spec.id.as_deref(), spec.name.as_str()), (Some("weather"), "weather"));
    let spec = stored("{\"config\":{}}", ParseMode::Strict).unwrap().spec;
    assert_eq!((spec.id.as_deref(), spec.name.as_str()), (Some("weather"), "weather"));
    let spec = stored("# Weather", ParseMode::Strict).unwrap().spec;
    assert_eq!((spec.id.as_deref(), spec.name.as_str()), (Some("weather"), "Weather"));
    assert_eq!(errors("{}"), one("missing_name", ""));
    assert_eq!(strict("").unwrap_err().code().as_str(), "invalid_manifest");
}

#[test]
fn endpoints_and_methods() {
    assert_eq!(about(&json!({"endpoint": "https://a/{{q}}", "method": "get"})), []);
    assert_eq!(about(&json!({"url": "https://a"})), []);
    assert_eq!(about(&json!({})), one("missing_endpoint", ""));
    assert_eq!(
        about(&json!({"endpoint": "http://a"})),
        one("insecure_endpoint", "/config/endpoint")
    );
    for wrong in ["https://{{h}}/", "ftp://a", "/x", "https://u:p@a/"] {
        assert_eq!(
            about(&json!({"endpoint": wrong})),
            one("invalid_endpoint", "/config/endpoint"),
            "{wrong}"
        );
    }
    assert_eq!(
        about(&json!({"request": {"url": "x", "method": "TRACE"}})),
        [
            ("invalid_endpoint", "/config/request/url".to_owned()),
            ("invalid_method", "/config/request/method".to_owned())
        ]
    );
    for wrong in ["TRACE", "CONNECT", "GE T", "{{m}}"] {
        let config = json!({"endpoint": "https://a", "method": wrong});
        assert_eq!(about(&config), one("invalid_method", "/config/method"), "{wrong}");
    }
    let of_implementation = r#"{"id":"z","implementation":{"endpoint":"x"}}"#;
    assert!(
        errors(of_implementation)
            .contains(&("invalid_endpoint", "/implementation/endpoint".into()))
    );
    assert_eq!(about(&json!({"endpoint": 7}))[0], ("wrong_type", "/config/endpoint".to_owned()));
}

#[test]
fn headers() {
    let with = |headers: Value| about(&json!({"endpoint": "https://a", "headers": headers}));
    assert_eq!(with(json!({"Accept": "text/plain", "X-A": "{{a|b c}}"})), []);
    assert_eq!(with(json!({"a b": "x"})), one("invalid_header", "/config/headers"));
    assert_eq!(with(json!({"": "x"})), one("invalid_header", "/config/headers"));
    assert_eq!(with(json!({"{{n}}": "x"})), one("invalid_header", "/config/headers"));
    assert_eq!(with(json!({"A": "x\r\nB: y"})), one("invalid_header", "/config/headers/A"));
    assert_eq!(with(json!({"A": 1})), one("invalid_header", "/config/headers/A"));
    for ours in ["hOST", "Accept-Encoding", "Proxy-Authorization"] {
        let found = with(json!({ ours: "{{SECRETS.K}}" }));
        assert_eq!(found, one("forbidden_header", &format!("/config/headers/{ours}")), "{ours}");
    }
    assert_eq!(with(json!({"A": "1", "a": "2"}))[0].0, "duplicate_header");
    assert_eq!(with(json!([1])), one("wrong_type", "/config/headers"));
    let in_request = json!({"request": {"url": "https://a", "headers": {"A": 1}}});
    assert!(about(&in_request).contains(&("invalid_header", "/config/request/headers/A".into())));
}

#[test]
fn secrets_are_counted() {
    let with = |count: usize| {
        let headers: Map<_, _> = (0..count)
            .map(|n| (format!("X-{n}"), json!(format!("{{{{SECRETS.N{n}}}}}"))))
            .collect();
        about(&json!({"endpoint": "https://a", "headers": headers}))
    };
    assert_eq!(with(256), []);
    assert_eq!(with(257)[0].0, "too_many_secrets");
}

#[test]
fn parameters() {
    let with = |parameters: Value| {
        let config = json!({"endpoint": "https://a"});
        let text = json!({"id": "z", "meta": {"description": "d", "parameters": parameters}, "config": config});
        errors(&text.to_string())
    };
    assert_eq!(with(json!({})), []);
    assert_eq!(with(json!({"type": "object", "properties": {"a": {"enum": [1, 2]}}})), []);
    assert_eq!(
        with(json!({"properties": {"a": {"type": "nope"}}})),
        one("invalid_schema", "/meta/parameters/properties/a/type")
    );
    assert_eq!(
        with(json!({"type": "array"})),
        one("not_an_object_schema", "/meta/parameters/type")
    );
    assert_eq!(
        with(json!({"properties": {"a": {"$ref": "https://x/y"}}})),
        one("remote_reference", "/meta/parameters/properties/a/$ref")
    );
    assert_eq!(with(json!("x")), one("wrong_type", "/meta/parameters"));
    assert_eq!(with(json!(true)), one("wrong_type", "/meta/parameters"));
}

#[test]
fn hooks_and_mappings_are_metadata() {
    let parsed = |config: Value| lenient(&json!({"id": "z", "config": config}).to_string());
    let mapped = parsed(json!({"response_mapping": {"t": "$.a.b", "n": 1}}));
    assert_eq!(mapped.spec.response_mapping, [("t".to_owned(), "$.a.b".to_owned())].into());
    assert!(codes(&mapped).contains(&"invalid_mapping"));
    let mapped = parsed(json!({"response": {"output_mapping": {"t": "a"}}}));
    assert_eq!(mapped.spec.response_mapping.len(), 1);
    assert!(codes(&parsed(json!({"response_mapping": "x"}))).contains(&"wrong_type"));
    let many = |n: usize| {
        let mapping: Map<_, _> = (0..n).map(|n| (n.to_string(), json!("$"))).collect();
        parsed(json!({"response_mapping": mapping}))
    };
    assert!(!codes(&many(256)).contains(&"too_many_mappings"));
    assert!(codes(&many(257)).contains(&"too_many_mappings"));
    let hook = |text: &str| lenient(text).spec.plugin_hook;
    assert_eq!(
        hook(r#"{"id":"z","plugin_hook":"B","config":{"plugin_hook":"A.b-c_1"}}"#).as_deref(),
        Some("A.b-c_1")
    );
    assert_eq!(hook(r#"{"id":"z","plugin_hook":"B"}"#).as_deref(), Some("B"));
    for wrong in ["a b", "a/b", &"a".repeat(65)] {
        let text = json!({"id": "z", "config": {"plugin_hook": wrong}}).to_string();
        assert_eq!(hook(&text), None, "{wrong}");
        assert_eq!(errors(&text), one("invalid_plugin_hook", "/config/plugin_hook"), "{wrong}");
    }
}

#[test]
fn fields_of_the_wrong_type() {
    for (fields, pointer) in [
        (json!({"meta": []}), "/meta"),
        (json!({"config": "abc"}), "/config"),
        (json!({"implementation": 1}), "/implementation"),
        (json!({"docs": "x"}), "/docs"),
        (json!({"meta": {"description": {}}}), "/meta/description"),
        (json!({"skill_uid": false}), "/skill_uid"),
        (json!({"tags": "a,b"}), "/tags"),
        (json!({"source": 7}), "/source"),
        (json!({"config": {"request": "x"}}), "/config/request"),
        (json!({"config": {"type": {}}}), "/config/type"),
    ] {
        let mut text = json!({"id": "z"});
        text.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        assert_eq!(errors(&text.to_string()), one("wrong_type", pointer), "{text}");
    }
    assert_eq!(errors(r#"{"id":"z","tags":["a",1]}"#), one("invalid_tags", "/tags"));
    assert_eq!(errors(r#"{"id":"z","emoji":"a\nb"}"#), one("invalid_emoji", "/emoji"));
}

#[test]
fn credentials_are_reported_and_not_shown() {
    let text = json!({"id": "z", "meta": {"description": "d"}, "config": {
        "endpoint": "https://a?token=secret-5", "api_key": "sk-secret-1", "body": {"a": [{"password": "secret-6"}]},
        "headers": {"authorization": "Bearer secret-2", "X-Api-Key": "{{SECRETS.K}}", "Accept": "x"},
        "request": {"headers": {"X-API-KEY": "secret-3", "Cookie": "secret-4"}},
    }})
    .to_string();
    let parsed = strict(&text).unwrap();
    let places: Vec<&str> = parsed.diagnostics.iter().map(|d| d.pointer.as_str()).collect();
    assert!(
        parsed.diagnostics.iter().all(|d| d.severity == Severity::Warning),
        "{:?}",
        parsed.diagnostics
    );
    for locate in [
        "/config/api_key",
        "/config/headers/authorization",
        "/config/request/headers/X-API-KEY",
        "/config/endpoint",
        "/config/body",
    ] {
        assert!(places.contains(&locate), "{places:?}");
    }
    assert_eq!(places.len(), 6, "each once: {places:?}");
    assert!(serde_json::to_string(&parsed.spec).unwrap().contains("secret-2"));
    let shown = parsed.spec.redact();
    assert_eq!(shown.implementation["api_key"], REDACTED);
    assert_eq!(shown.implementation["headers"]["X-Api-Key"], "{{SECRETS.K}}");
    let wire = serde_json::to_string(&parsed.spec.to_public(skills_core::Tier::Private)).unwrap();
    assert!(!wire.contains("secret-"), "{wire}");
    for diagnostic in &parsed.diagnostics {
        assert!(!diagnostic.message.contains("secret-"), "{diagnostic}");
    }
}
