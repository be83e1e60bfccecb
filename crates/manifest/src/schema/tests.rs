//! Schemas that are refused, arguments that do not fit, and what both may cost.

use proptest::prelude::*;
use serde_json::json;
use skills_core::Coded as _;
use skills_testkit::thread_cpu_time;

use super::*;

fn refused(schema: &Value) -> SchemaError {
    Schema::compile(schema).map(|_| ()).expect_err("must be refused")
}

fn code(schema: &Value) -> (&'static str, String) {
    let error = refused(schema);
    (error.code().as_str(), error.pointer().to_owned())
}

#[test]
fn arguments_are_told_where_they_do_not_fit() {
    let schema = Schema::compile(&json!({
        "type": "object",
        "properties": {
            "location": {"type": "string", "minLength": 2},
            "days": {"$ref": "#/$defs/days"},
            "unit": {"enum": ["c", "f"]},
        },
        "required": ["location"],
        "additionalProperties": false,
        "$defs": {"days": {"type": "integer", "maximum": 7}},
    }))
    .unwrap();
    assert_eq!(schema.check(&json!({"location": "Oslo", "days": 3, "unit": "c"})), []);
    let pointers = |value| {
        let mut found: Vec<_> = schema.check(&value).into_iter().map(|v| v.pointer).collect();
        found.sort();
        found
    };
    assert_eq!(pointers(json!({"location": "x", "days": 9})), ["/days", "/location"]);
    assert_eq!(pointers(json!({"days": 1})), [""]);
    assert_eq!(pointers(json!({"location": "ab", "b/c": 1})), [""]);
    assert_eq!(pointers(json!([])), [""]);
}

#[test]
fn a_violation_does_not_repeat_the_value() {
    let schema = Schema::compile(&json!({"properties": {"key": {"type": "integer"}}})).unwrap();
    let found = schema.check(&json!({"key": "s3cret"}));
    assert_eq!(found.len(), 1);
    assert!(!found[0].message.contains("s3cret"), "{}", found[0].message);
    assert!(found[0].message.contains("integer"), "{}", found[0].message);
}

#[test]
fn what_is_no_schema() {
    assert_eq!(code(&json!({"type": "banana"})), ("invalid_schema", "/type".into()));
    assert_eq!(
        code(&json!({"properties": {"a": {"minimum": "1"}}})),
        ("invalid_schema", "/properties/a/minimum".into())
    );
    assert_eq!(code(&json!({"required": "a"})), ("invalid_schema", "/required".into()));
    for value in [json!(1), json!(null), json!("x"), json!([])] {
        assert_eq!(code(&value).0, "invalid_schema", "{value}");
    }
    assert_eq!(code(&json!({"$schema": "https://example.com/mine"})).0, "invalid_schema");
}

#[test]
fn every_draft_from_4_is_read() {
    for draft in
        ["http://json-schema.org/draft-04/schema#", "http://json-schema.org/draft-07/schema#"]
    {
        let schema = json!({"$schema": draft, "definitions": {"a": {"type": "string"}},
            "properties": {"a": {"$ref": "#/definitions/a"}}});
        assert_eq!(Schema::compile(&schema).unwrap().check(&json!({"a": 1})).len(), 1, "{draft}");
    }
}

#[test]
fn references_stay_inside_and_end() {
    for reference in ["https://example.com/a.json", "file:///etc/passwd", "other.json", "/x", ""] {
        let found = code(&json!({"items": {"$ref": reference}}));
        assert_eq!(found, ("remote_reference", "/items/$ref".into()), "{reference}");
    }
    for reference in ["#/nowhere", "#anchor", "#/%zz", "#/%ff"] {
        assert_eq!(code(&json!({"$ref": reference})).0, "dangling_reference", "{reference}");
    }
    assert_eq!(code(&json!({"$ref": "#"})).0, "recursive_schema");
    assert_eq!(code(&json!({"allOf": [{"$ref": "#"}]})).0, "recursive_schema");
    let two = json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}});
    assert_eq!(code(&two).0, "recursive_schema");
    let unused = json!({"$defs": {"a": {"$ref": "#/$defs/a"}}});
    assert_eq!(code(&unused).0, "recursive_schema");
    let disguised = json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/%61"}}});
    assert!(matches!(code(&disguised).0, "recursive_schema" | "schema_too_large"));
    let exclusive = json!({"$ref": "#/$defs/a", "$defs": {"a": {"items": {"$ref": "#/$defs/b"}}, "b": {"not": {"$ref": "#/$defs/a"}}}});
    assert_eq!(Schema::compile(&exclusive).unwrap().check(&json!([1])).len(), 1);
    let encoded = json!({"$ref": "#/$defs/a%20b", "$defs": {"a b": {"type": "null"}}});
    assert_eq!(Schema::compile(&encoded).unwrap().check(&json!(1)).len(), 1);
}

#[test]
fn names_that_move_references_are_refused() {
    assert_eq!(code(&json!({"$dynamicRef": "#a"})).0, "unsupported_schema");
    let inner = json!({"items": {"$id": "https://example.com/b", "$ref": "#/x"}});
    assert_eq!(code(&inner), ("unsupported_schema", "/items".into()));
    let through = json!({
        "$ref": "#/$defs/a/properties/b",
        "$defs": {"a": {"$id": "https://example.com/a", "properties": {"b": true}}},
    });
    assert_eq!(code(&through).0, "unsupported_schema");
    let of_root = json!({"$id": "https://example.com/a", "type": "object"});
    assert!(Schema::compile(&of_root).is_ok());
    let property = json!({"properties": {"$id": {"type": "string"}, "id": {"type": "string"}}});
    assert!(Schema::compile(&property).is_ok(), "a property may have any name");
}

#[test]
fn size_and_depth_have_limits() {
    let mut deep = json!({"type": "string"});
    for _ in 0..60 {
        deep = json!({"items": deep});
    }
    assert!(Schema::compile(&deep).is_ok());
    for _ in 0..10 {
        deep = json!({"not": deep});
    }
    assert_eq!(code(&deep).0, "schema_too_large");
    let wide = json!({"enum": (0..20_000).collect::<Vec<_>>()});
    assert_eq!(code(&wide).0, "schema_too_large");
}

/// Twenty levels, each referenced twice, are a million subschemas.
#[test]
fn references_to_references_do_not_multiply() {
    let mut definitions = serde_json::Map::new();
    for level in 0..20 {
        let next = json!({"$ref": format!("#/$defs/a{}", level + 1)});
        definitions.insert(format!("a{level}"), json!({"allOf": [next.clone(), next]}));
    }
    definitions.insert("a20".into(), json!({"type": "string"}));
    let schema = json!({"$ref": "#/$defs/a0", "$defs": definitions});
    assert_eq!(code(&schema).0, "schema_too_large");
}

#[test]
fn patterns_do_not_backtrack() {
    let schema = Schema::compile(&json!({"pattern": "^(a+)+$"})).unwrap();
    let value = json!(format!("{}!", "a".repeat(100_000)));
    assert_eq!(schema.check(&value).len(), 1);
    assert_eq!(schema.check(&json!("aaa")), []);
    for pattern in ["(?=a)b", "(a)\\1", "(", "a{1000}{1000}", "\\p{L}{2000}"] {
        assert_eq!(code(&json!({"pattern": pattern})).0, "invalid_schema", "{pattern}");
    }
    for pattern in ["^[\\w.-]{1,64}@[\\w.-]{1,255}$", "^\\d{4}-\\d{2}-\\d{2}$", "^\\p{L}{1,10}$"] {
        assert!(Schema::compile(&json!({"pattern": pattern})).is_ok(), "{pattern}");
    }
    let large = Schema::compile(&json!({"pattern": "a[ab]{4000}c"})).unwrap();
    assert_eq!(large.check(&json!("a".repeat(1000))).len(), 1);
    assert!(large.check(&json!("a".repeat(100_000)))[0].message.contains("too large"));
    let some = |n: usize| json!({"anyOf": vec![json!({"pattern": "a[ab]{4000}c"}); n]});
    assert!(Schema::compile(&some(16)).is_ok());
    assert_eq!(code(&some(17)).0, "invalid_schema");
    let many: Vec<_> = (0..65).map(|n| json!({"pattern": n.to_string()})).collect();
    assert_eq!(code(&json!({"anyOf": many})).0, "schema_too_large");
}

#[test]
fn a_check_is_bounded_in_time_and_memory() {
    let parts: Vec<_> = (0..3000).map(|n| json!({"const": n})).collect();
    let schema = Schema::compile(&json!({"items": {"anyOf": parts}})).unwrap();
    let small = schema.check(&json!([1, -1]));
    assert_eq!(small[0].pointer, "/1");
    let large = Value::from(vec![Value::from(-1); 200_000]);
    let start = thread_cpu_time();
    let found = schema.check(&large);
    assert!(found[0].message.contains("too large"));
    assert!((thread_cpu_time() - start).as_secs() < 10);
    let texts = Schema::compile(&json!({"items": {"type": "string"}})).unwrap();
    assert_eq!(texts.check(&large).len(), 1, "one of 200000 violations is kept");
    let some = Value::from(vec![Value::from(-1); 100]);
    assert_eq!(texts.check(&some).len(), MAX_VIOLATIONS);
}

/// A schema may lead back to itself for parts of a value. What that can cost is known when the value is.
#[test]
fn recursion_ends_where_the_value_ends() {
    let tree = Schema::compile(&json!({
        "properties": {"root": {"$ref": "#/$defs/node"}},
        "$defs": {"node": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "left": {"$ref": "#/$defs/node"},
                "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
            "required": ["name"],
        }},
    }))
    .unwrap();
    let leaf = json!({"name": "x"});
    let good = (0..30)
        .fold(leaf.clone(), |inner, _| json!({"name": "x", "left": leaf, "children": [inner]}));
    assert_eq!(tree.check(&json!({ "root": good })), []);
    let bad = json!({"root": {"name": "x", "children": [{"name": "y", "left": {"name": 1}}]}});
    assert_eq!(tree.check(&bad)[0].pointer, "/root/children/0/left/name");
    // Two ways on every level: fine for some levels, and a million million for forty.
    let twice = json!({"anyOf": [{"properties": {"a": {"$ref": "#"}}}, {"properties": {"a": {"$ref": "#"}}},
        {"type": "null"}]});
    let twice = Schema::compile(&twice).unwrap();
    let nested = |levels: usize| (0..levels).fold(json!(null), |inner, _| json!({ "a": inner }));
    assert_eq!(twice.check(&nested(6)), []);
    let start = thread_cpu_time();
    assert!(twice.check(&nested(40))[0].message.contains("too large"));
    assert!((thread_cpu_time() - start).as_secs() < 5);
    // As often as what is left over asks again.
    let left =
        json!({"allOf": [{"properties": {"a": {"$ref": "#"}}}], "unevaluatedProperties": false});
    let left = Schema::compile(&left).unwrap();
    assert_eq!(left.check(&nested(6)), []);
    assert!(!left.check(&json!({"a": {"b": 1}})).is_empty());
    assert!(left.check(&nested(60))[0].message.contains("too large"));
    // A definition may lead to the whole.
    let whole =
        json!({"items": {"$ref": "#/$defs/a"}, "type": "array", "$defs": {"a": {"$ref": "#"}}});
    assert_eq!(Schema::compile(&whole).unwrap().check(&json!([[], [1]])).len(), 1);
    // Nor does it take the whole stack.
    let body = (0..25).fold(json!({"items": {"$ref": "#"}}), |inner, _| json!({"allOf": [inner]}));
    let deep = Schema::compile(&body).unwrap();
    let lists = |levels: usize| (0..levels).fold(json!([]), |inner, _| json!([inner]));
    assert_eq!(deep.check(&lists(30)), []);
    assert!(deep.check(&lists(120))[0].message.contains("too large"));
}

/// Values that are compared one by one cost as much as schemas.
#[test]
fn values_to_compare_with_have_a_cost() {
    let halves: Vec<_> = (0..1800).map(|n| f64::from(n) + 0.5).collect();
    let many = Value::from(vec![1799.5; 500_000]);
    for schema in [
        json!({"items": {"enum": halves}}),
        json!({"items": {"anyOf": [{"const": halves}, {"enum": [1, "a", halves]}]}}),
    ] {
        let schema = Schema::compile(&schema).unwrap();
        assert!(!schema.is_quick(&many));
        let start = thread_cpu_time();
        assert!(schema.check(&many)[0].message.contains("too large"));
        // A thousand million comparisons take seconds.
        assert!((thread_cpu_time() - start).as_secs() < 2);
        assert!(schema.is_quick(&json!([0.5])));
    }
    let names: Vec<_> = (0..1800).map(|n| n.to_string()).collect();
    let objects = Value::from(vec![json!({"a": 1}); 5000]);
    for items in [
        json!({"required": names}),
        json!({"dependentRequired": {"a": names}}),
        json!({"$schema": "http://json-schema.org/draft-07/schema#", "dependencies": {"a": names}}),
    ] {
        let mut schema = json!({"items": items});
        if let Some(draft) = schema["items"].as_object_mut().unwrap().remove("$schema") {
            schema["$schema"] = draft;
        }
        let schema = Schema::compile(&schema).unwrap();
        assert!(schema.check(&objects)[0].message.contains("too large"), "{schema:?}");
    }
}

/// Each level is evaluated by its parent and again by the parent's unevaluated keyword: thirty levels are a thousand
/// million evaluations.
#[test]
fn unevaluated_keywords_do_not_multiply() {
    let nested = |levels: usize| {
        (0..levels).fold(json!({"type": "string"}), |inner, _| {
            let inner = json!({"properties": {"a": inner}});
            json!({"anyOf": [inner], "unevaluatedProperties": false})
        })
    };
    let value = |levels: usize| (0..levels).fold(json!("x"), |inner, _| json!({"a": inner}));
    let few = Schema::compile(&nested(4)).unwrap();
    assert_eq!(few.check(&value(4)), []);
    assert_eq!(few.check(&json!({"b": 1})).len(), 1);
    assert_eq!(code(&nested(30)).0, "schema_too_large");
    let within = json!({"$ref": "#/$defs/a", "unevaluatedProperties": false, "$defs": {
        "a": {"dependentSchemas": {"b": {"allOf": [{"properties": {"b": true}}]}}}}});
    let within = Schema::compile(&within).unwrap();
    assert_eq!(within.check(&json!({"b": 1})), []);
    assert_eq!(within.check(&json!({"c": 1})).len(), 1);
}

proptest! {
    #[test]
    fn never_panics(schema in arb_json(), value in arb_json()) {
        if let Ok(schema) = Schema::compile(&schema) {
            prop_assert!(schema.check(&value).len() <= MAX_VIOLATIONS);
        }
    }
}

fn arb_json() -> impl Strategy<Value = Value> {
    let key = "(type|items|properties|allOf|not|pattern|enum|\\$ref|\\$defs|\\$id|required|a|b)";
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "(object|string|#|#/a|#/\\$defs/a|\\^a\\+|a|\\()".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key, inner), 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}
