//! The JSON format.

use serde_json::json;
use skills_core::Coded as _;

use super::*;

const SEED: &str = r#"{
  "id": "uniskill_weather",
  "source": "official",
  "skill_uid": "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx",
  "meta": {
    "name": "Global Weather", "description": "...", "emoji": "🌤", "tags": ["weather", "forecast"],
    "parameters": {
      "type": "object",
      "properties": {"location": {"type": "string", "description": "City name or coordinates"}},
      "required": ["location"]
    }
  },
  "config": {"endpoint": "https://api.open-meteo.com/v1/forecast", "method": "GET", "plugin_hook": "weather"},
  "credits_per_call": 1
}"#;

#[test]
fn the_published_example_is_read_and_accepted() {
    let mut spec = to_public(SEED);
    let fields = spec.as_object_mut().unwrap();
    // What the gateway's parser leaves to others.
    for (key, value) in [
        ("id", json!("uniskill_weather")),
        ("display_name", json!("Global Weather")),
        ("emoji", json!("🌤")),
        ("tags", json!(["weather", "forecast"])),
        ("skill_uid", json!("xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx")),
        ("credits_per_call", json!(1)),
        ("plugin_hook", json!("weather")),
    ] {
        assert_eq!(fields.remove(key), Some(value), "{key}");
    }
    assert_eq!(
        spec,
        json!({"name": "uniskill_weather", "description": "...",
            "parameters": {"type": "object",
                "properties": {"location": {"type": "string", "description": "City name or coordinates"}},
                "required": ["location"]},
            "implementation": {"type": "unknown", "endpoint": "https://api.open-meteo.com/v1/forecast",
                "method": "GET", "plugin_hook": "weather"},
            "source": "official", "isOfficial": true})
    );
    let accepted = strict(SEED).unwrap();
    assert_eq!(accepted.format, ManifestFormat::Json);
    assert_eq!(codes(&accepted), ["source_ignored"]);
}

#[test]
fn a_request_block_is_spread() {
    let text = r#"{"id":"r","config":{"type":"custom_http","endpoint":"https://old","method":"GET","headers":{"A":"cfg"},
      "request":{"url":"https://new","method":"POST","headers":{"A":"req","B":"req"},"body":{"q":"{{q}}"}}}}"#;
    let spec = lenient(text).spec;
    let request = json!({"url": "https://new", "method": "POST", "headers": {"A": "req", "B": "req"},
        "body": {"q": "{{q}}"}});
    assert_eq!(
        serde_json::to_value(&spec).unwrap(),
        json!({"id": "r", "name": "r", "description": "", "parameters": {},
            "implementation": {"type": "custom_http", "endpoint": "https://new", "method": "POST",
                "headers": {"A": "cfg", "B": "req"}, "request": request}})
    );
    assert_eq!((spec.endpoint(), spec.method().as_str()), (Some("https://new"), "POST"));
    assert_eq!(spec.input_schema(), json!({"type": "object"}));
}

#[test]
fn every_rule_of_the_object() {
    check_all(&[
        // Which format it is.
        (" \n\t{\"id\":\"z\",\"config\":{}}", Same, &[("/name", json!("z"))]),
        (
            "\u{feff}{\"id\":\"z\",\"config\":{}}",
            Different("the mark is a mark, not a part of the JSON"),
            &[("/name", json!("z"))],
        ),
        (
            r#"{"id":"z","meta":{"description":"d"}}"#,
            Different("an object is the JSON format, whatever it lacks"),
            &[
                ("/name", json!("z")),
                ("/description", json!("d")),
                ("/implementation/type", json!("unknown")),
            ],
        ),
        (r#"{"id":"z","config":{},}"#, Same, &[("/name", json!("Unknown_Skill"))]),
        ("{\"id\":\"z\", // c\n\"config\":{}}", Same, &[("/name", json!("Unknown_Skill"))]),
        (
            "{}",
            Same,
            &[("/name", json!("Unknown_Skill")), ("/implementation", json!({"type": "unknown"}))],
        ),
        ("{ % x\n# n", Same, &[("/name", json!("n"))]),
        ("[1]", Same, &[("/name", json!("Unknown_Skill")), ("/returns", json!(null))]),
        // The implementation.
        (
            r#"{"id":"z","implementation":{"a":1,"b":1},"config":{"b":2}}"#,
            Same,
            &[("/implementation/a", json!(1)), ("/implementation/b", json!(2))],
        ),
        (
            r#"{"id":"z","config":{"endpoint":"https://a","request":{"url":""}}}"#,
            Same,
            &[
                ("/implementation/endpoint", json!("https://a")),
                ("/implementation/headers", json!({})),
            ],
        ),
        (
            r#"{"id":"z","config":{"endpoint":"https://a"}}"#,
            Different("there always is a type, not only when there is a source"),
            &[("/implementation/type", json!("unknown"))],
        ),
        (
            r#"{"id":"z","config":"abc"}"#,
            Different("a text has no fields to spread"),
            &[("/implementation", json!({"type": "unknown"}))],
        ),
        // The fields.
        (r#"{"id":"","meta":{"name":"m"},"config":{}}"#, Same, &[("/name", json!("m"))]),
        (r#"{"id":null,"meta":{"name":"m"},"config":{}}"#, Same, &[("/name", json!("m"))]),
        (
            r#"{"id":7,"config":{}}"#,
            Different("a name is text, also when it was written as a number"),
            &[("/name", json!("7"))],
        ),
        (
            r#"{"id":"z","meta":{"description":""},"docs":{"short":"s"},"config":{}}"#,
            Same,
            &[("/description", json!("s")), ("/docs", json!({"short": "s", "full_md": ""}))],
        ),
        (
            r#"{"id":"z","config":{"parameters":{"type":"object"}}}"#,
            Same,
            &[("/parameters", json!({"type": "object"}))],
        ),
        (
            r#"{"id":"z","meta":{"parameters":{"title":"m"}},"config":{"parameters":{"title":"c"}}}"#,
            Same,
            &[("/parameters", json!({"title": "m"}))],
        ),
        (r#"{"id":"z","config":{}}"#, Same, &[("/parameters", json!({}))]),
        (r#"{"id":"a","id":"b","config":{}}"#, Same, &[("/name", json!("b"))]),
        (
            r#"{"id":"z","config":{},"display_name":"D","emoji":"E","tags":["t"]}"#,
            Same,
            &[("/display_name", json!("D")), ("/emoji", json!("E")), ("/tags", json!(["t"]))],
        ),
    ]);
}

#[test]
fn the_tier_is_where_it_is_stored() {
    // Different: a market entry cannot claim to be official, and a private one is not official by default.
    for claim in [r#""source":"official","#, r#""source":"market","isOfficial":true,"#, ""] {
        let spec = lenient(&format!(r#"{{{claim}"id":"z","config":{{}}}}"#)).spec;
        for (tier, is_official) in [
            (skills_core::Tier::Private, false),
            (skills_core::Tier::Official, true),
            (skills_core::Tier::Market, false),
        ] {
            let wire = serde_json::to_value(spec.to_public(tier)).unwrap();
            assert_eq!(wire["source"], tier.as_str(), "{is_official:?}");
            assert_eq!(wire["isOfficial"], is_official, "{is_official:?}");
        }
    }
}

#[test]
fn a_manifest_inside_a_manifest() {
    let inner =
        "# I\n## Implementation\n```yaml\ntype: api\nendpoint: https://in\nmethod: PUT\n```\n";
    // Same: it fills what the outer one does not say.
    let outer = |extra: Value| {
        let mut outer = json!({"id": "o", "config": {"method": "GET"}});
        outer.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        lenient(&outer.to_string())
    };
    for key in ["source", "source_text"] {
        let parsed = outer(json!({key: inner}));
        assert_eq!(
            parsed.spec.implementation,
            *json!({"type": "api", "endpoint": "https://in", "method": "GET"}).as_object().unwrap(),
            "{key:?}"
        );
        assert_eq!(codes(&parsed).contains(&"embedded_source"), key == "source", "{key}");
    }
    // Same: an outer one that has a type is complete.
    let parsed = outer(json!({"source": inner, "config": {"type": "x"}}));
    assert_eq!(parsed.spec.endpoint(), None);
    // Different: a word that is no tier is not read as Markdown.
    assert!(codes(&outer(json!({"source": "github"}))).contains(&"unknown_source"));
    // Different: what is not text is an error of its own, not a reason to read JSON as Markdown.
    let parsed = outer(json!({"source": 7}));
    assert_eq!((parsed.spec.name.as_str(), parsed.format), ("o", ManifestFormat::Json));
    // Same, but not without end.
    let mut nested = json!({"id": "z", "config": {"type": "deep", "endpoint": "https://deep"}});
    for level in 1..=5 {
        nested = json!({"id": "z", "source": nested.to_string()});
        let parsed = lenient(&nested.to_string());
        assert_eq!(parsed.spec.endpoint().is_some(), level <= 3, "{level}");
        assert_eq!(codes(&parsed).contains(&"nested_too_deep"), level > 3);
    }
}

#[test]
fn what_a_call_costs() {
    let credits = |fields: &str| {
        let parsed = lenient(&format!(r#"{{"id":"z","config":{{}},{fields}}}"#));
        let is_wrong = codes(&parsed).contains(&"invalid_credits");
        (parsed.spec.credits_per_call.map(|n| n.to_string()), is_wrong)
    };
    let some = |text: &str| (Some(text.to_owned()), false);
    assert_eq!(credits(r#""credits_per_call":2"#), some("2"));
    assert_eq!(credits(r#""credits_per_call":0,"meta":{"cost":5}"#), some("0"));
    assert_eq!(credits(r#""credits_per_call":null,"meta":{"cost":0.5}"#), some("0.5"));
    assert_eq!(credits(r#""cost_per_call":3"#), some("3"));
    assert_eq!(credits(r#""credits_per_call":"4""#), some("4"));
    assert_eq!(credits(r#""x":1"#), (None, false));
    // Different: what is no cost is not taken for one.
    for wrong in ["-1", "\"abc\"", "\"\"", "\"NaN\"", "\"-1\"", "true", "[]", "{}", "-0.1"] {
        assert_eq!(credits(&format!(r#""credits_per_call":{wrong}"#)), (None, true), "{wrong}");
    }
}

#[test]
fn keys_that_are_there_twice_are_reported_where_they_are() {
    let text = r#"{"id":"a","config":{"headers":{"A":"1","A":"2"},"x":[{"k":1,"k":2}]},"id":"b"}"#;
    let places: Vec<String> = errors(text)
        .into_iter()
        .filter(|(code, _)| *code == "duplicate_key")
        .map(|e| e.1)
        .collect();
    assert_eq!(places, ["/config/headers/A", "/config/x/0/k", "/id"]);
    assert!(strict(text).is_err());
}

#[test]
fn json_that_is_not() {
    let refused = strict("{\"id\":\"z\",\n \"config\":{,}}").unwrap_err();
    assert_eq!(refused.code().as_str(), "invalid_manifest");
    let [only] = refused.diagnostics() else { panic!("{refused:?}") };
    assert_eq!((only.code, only.pointer.as_str()), ("invalid_json", "2:12"));
    assert!(refused.to_string().contains("not JSON"), "{refused}");
    // A number that is too large is no JSON here; elsewhere it is infinite.
    assert_eq!(
        strict(r#"{"id":"z","credits_per_call":1e999}"#).unwrap_err().diagnostics()[0].code,
        "invalid_json"
    );
    let tower = format!("{{\"a\":{}", "[".repeat(100_000));
    assert_eq!(lenient(&tower).format, ManifestFormat::Markdown);
}

#[test]
fn markdown_that_was_stored_as_a_text() {
    let text = serde_json::to_string("# A\n## Implementation\n```yaml\nendpoint: https://a\n```\n")
        .unwrap();
    let parsed = lenient(&text);
    assert_eq!((parsed.spec.name.as_str(), parsed.format), ("A", ManifestFormat::Markdown));
    assert_eq!(parsed.spec.endpoint(), Some("https://a"));
    assert!(codes(&parsed).contains(&"string_literal"));
    let mut nested = "# A".to_owned();
    for _ in 0..9 {
        nested = serde_json::to_string(&nested).unwrap();
    }
    assert_eq!(lenient(&nested).spec.name, UNKNOWN_NAME);
}
