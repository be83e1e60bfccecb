//! Picking parts of an answer: `response_mapping`, or else `response.output_mapping`.

use serde_json::{Map, Value};

use crate::{ExecuteError, size::json_size};

/// The answer as the manifest wants it: for each name the value at its path, without those that are not
/// there. Without any path it is the whole answer. Picked from it are `max` bytes at most: few bytes of a
/// manifest can ask for a large value many times.
pub(crate) fn mapped(
    implementation: &Map<String, Value>,
    answer: Value,
    max: usize,
) -> Result<Value, ExecuteError> {
    let Some(mapping) = mapping_of(implementation) else { return Ok(answer) };
    let mut paths =
        mapping.iter().filter_map(|(name, path)| Some((name, path.as_str()?))).peekable();
    if paths.peek().is_none() {
        return Ok(answer);
    }
    let mut left = max;
    let mut picked = Map::new();
    for (name, path) in paths {
        let Some(value) = at(&answer, path) else { continue };
        let bytes = name.len().saturating_add(json_size(value, left));
        left = left.checked_sub(bytes).ok_or(ExecuteError::TooLarge { max })?;
        picked.insert(name.clone(), value.clone());
    }
    Ok(Value::Object(picked))
}

fn mapping_of(implementation: &Map<String, Value>) -> Option<&Map<String, Value>> {
    let nested = || implementation.get("response")?.get("output_mapping")?.as_object();
    implementation.get("response_mapping").and_then(Value::as_object).or_else(nested)
}

/// The value at a path such as `$.items[0]['name']`. There are no wildcards.
fn at<'v>(answer: &'v Value, path: &str) -> Option<&'v Value> {
    path.strip_prefix('$')
        .unwrap_or(path)
        .split(['.', '[', ']', '\'', '"'])
        .filter(|step| !step.is_empty())
        .try_fold(answer, |value, step| match value {
            Value::Object(fields) => fields.get(step),
            Value::Array(items) => items.get(step.parse::<usize>().ok()?),
            _ => None,
        })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn answer() -> Value {
        json!({"a": {"b": [{"c d": 1}, 2]}, "n": null, "0": "zero"})
    }

    fn with(mapping: Value) -> Value {
        picked(json!({"response_mapping": mapping}))
    }

    fn picked(implementation: Value) -> Value {
        mapped(implementation.as_object().unwrap(), answer(), 1000).unwrap()
    }

    #[test]
    fn paths_are_followed() {
        for (path, wanted) in [
            ("$.a.b[1]", json!({"out": 2})),
            ("a.b.1", json!({"out": 2})),
            (".a['b'][0][\"c d\"]", json!({"out": 1})),
            ("$.n", json!({"out": null})),
            ("0", json!({"out": "zero"})),
            ("$", json!({"out": answer()})),
            ("", json!({"out": answer()})),
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
    fn without_a_path_it_is_the_whole_answer() {
        for mapping in [json!({}), json!({"a": 1, "b": null}), json!([]), json!("a")] {
            assert_eq!(with(mapping), answer());
        }
        assert_eq!(with(json!({"x": "$.n", "y": 7})), json!({"x": null}));
    }

    #[test]
    fn the_first_mapping_wins() {
        let nested = json!({"response": {"output_mapping": {"out": "0"}}});
        assert_eq!(picked(nested), json!({"out": "zero"}));
        let both =
            json!({"response_mapping": {"out": "n"}, "response": {"output_mapping": {"out": "0"}}});
        assert_eq!(picked(both), json!({"out": null}));
    }

    #[test]
    fn what_is_picked_is_bounded() {
        let with = |names: usize, max| {
            let mapping: Map<_, _> = (0..names).map(|n| (format!("{n:05}"), json!("$"))).collect();
            let answer = json!("x".repeat(1 << 20));
            let implementation = Map::from_iter([("response_mapping".to_owned(), mapping.into())]);
            mapped(&implementation, answer, max)
        };
        let one = (1 << 20) + 2 + 5;
        assert!(with(2, 2 * one).is_ok());
        assert_eq!(with(2, 2 * one - 1), Err(ExecuteError::TooLarge { max: 2 * one - 1 }));
        // All of them would be 50 GB.
        assert_eq!(with(50_000, 1 << 20).unwrap_err().code(), "too_large");
    }

    proptest! {
        #[test]
        fn no_path_is_a_danger(path in "[$.\\[\\]'\"a-c0-9é*-]{0,30}") {
            at(&answer(), &path);
        }
    }
}
