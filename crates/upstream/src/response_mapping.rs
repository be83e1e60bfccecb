//! Selection of parts of a response: `response_mapping`, or else `response.output_mapping`.

use serde_json::{Map, Value};

use crate::{UpstreamError, json_size::serialized_size};

/// Applies the mapping of a manifest: the value at each path by name, without absent ones. Without any path, returns the
/// whole response. The result has at most `max` bytes, because a small manifest can select a large value many times.
pub(crate) fn apply_mapping(
    implementation: &Map<String, Value>,
    response: Value,
    max: usize,
) -> Result<Value, UpstreamError> {
    let Some(mapping) = mapping_of(implementation) else { return Ok(response) };
    let mut paths =
        mapping.iter().filter_map(|(name, path)| Some((name, path.as_str()?))).peekable();
    if paths.peek().is_none() {
        return Ok(response);
    }
    let mut remaining = max;
    let mut selected = Map::new();
    for (name, path) in paths {
        let Some(value) = value_at(&response, path) else { continue };
        let bytes = name.len().saturating_add(serialized_size(value, remaining));
        remaining = remaining.checked_sub(bytes).ok_or(UpstreamError::TooLarge { max })?;
        selected.insert(name.clone(), value.clone());
    }
    Ok(Value::Object(selected))
}

fn mapping_of(implementation: &Map<String, Value>) -> Option<&Map<String, Value>> {
    let nested = || implementation.get("response")?.get("output_mapping")?.as_object();
    implementation.get("response_mapping").and_then(Value::as_object).or_else(nested)
}

/// Returns the value at a path such as `$.items[0]['name']`. There are no wildcards.
fn value_at<'v>(response: &'v Value, path: &str) -> Option<&'v Value> {
    path.strip_prefix('$')
        .unwrap_or(path)
        .split(['.', '[', ']', '\'', '"'])
        .filter(|step| !step.is_empty())
        .try_fold(response, |value, step| match value {
            Value::Object(fields) => fields.get(step),
            Value::Array(items) => items.get(step.parse::<usize>().ok()?),
            _ => None,
        })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use skills_core::Coded as _;

    use super::*;

    fn response() -> Value {
        json!({"a": {"b": [{"c d": 1}, 2]}, "n": null, "0": "zero"})
    }

    fn with(mapping: Value) -> Value {
        select(json!({"response_mapping": mapping}))
    }

    fn select(implementation: Value) -> Value {
        apply_mapping(implementation.as_object().unwrap(), response(), 1000).unwrap()
    }

    #[test]
    fn paths_are_followed() {
        for (path, wanted) in [
            ("$.a.b[1]", json!({"out": 2})),
            ("a.b.1", json!({"out": 2})),
            (".a['b'][0][\"c d\"]", json!({"out": 1})),
            ("$.n", json!({"out": null})),
            ("0", json!({"out": "zero"})),
            ("$", json!({"out": response()})),
            ("", json!({"out": response()})),
            ("$.none", json!({})),
            ("a.b.x", json!({})),
            ("a.b[-1]", json!({})),
            ("a.b[*]", json!({})),
            ("n.deeper", json!({})),
        ] {
            assert_eq!(with(json!({"out": path})), wanted, "{path}");
        }
    }

    #[test]
    fn without_a_path_it_is_the_whole_response() {
        for mapping in [json!({}), json!({"a": 1, "b": null}), json!([]), json!("a")] {
            assert_eq!(with(mapping.clone()), response(), "{mapping:?}");
        }
        assert_eq!(with(json!({"x": "$.n", "y": 7})), json!({"x": null}));
    }

    #[test]
    fn the_first_mapping_wins() {
        let nested = json!({"response": {"output_mapping": {"out": "0"}}});
        assert_eq!(select(nested), json!({"out": "zero"}));
        let both =
            json!({"response_mapping": {"out": "n"}, "response": {"output_mapping": {"out": "0"}}});
        assert_eq!(select(both), json!({"out": null}));
    }

    #[test]
    fn the_selection_is_limited_in_size() {
        let with = |names: usize, max| {
            let mapping: Map<_, _> = (0..names).map(|n| (format!("{n:05}"), json!("$"))).collect();
            let response = json!("x".repeat(1 << 20));
            let implementation = Map::from_iter([("response_mapping".to_owned(), mapping.into())]);
            apply_mapping(&implementation, response, max)
        };
        let one = (1 << 20) + 2 + 5;
        assert!(with(2, 2 * one).is_ok());
        assert_eq!(with(2, 2 * one - 1), Err(UpstreamError::TooLarge { max: 2 * one - 1 }));
        // All of them would be 50 GB.
        assert_eq!(with(50_000, 1 << 20).unwrap_err().code().as_str(), "upstream_too_large");
    }

    proptest! {
        #[test]
        fn no_path_panics(path in "[$.\\[\\]'\"a-c0-9é*-]{0,30}") {
            value_at(&response(), &path);
        }
    }
}
