//! Operations of `state::update`, as pure functions of a value.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use skills_core::Code;

/// One operation.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(super) enum Op {
    Set {
        #[serde(default)]
        path: Path,
        value: Value,
    },
    Merge {
        #[serde(default)]
        path: Path,
        value: Value,
    },
    Increment {
        #[serde(default)]
        path: Path,
        by: Value,
    },
    Decrement {
        #[serde(default)]
        path: Path,
        by: Value,
    },
    Append {
        #[serde(default)]
        path: Path,
        value: Value,
    },
    Remove {
        #[serde(default)]
        path: Path,
    },
}

/// Path in a value: the root, a field, or nested fields.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(untagged)]
pub(super) enum Path {
    #[default]
    Root,
    Field(String),
    Fields(Vec<String>),
}

impl Path {
    fn fields(&self) -> &[String] {
        match self {
            Self::Root => &[],
            Self::Field(field) if field.is_empty() => &[],
            Self::Field(field) => std::slice::from_ref(field),
            Self::Fields(fields) => fields,
        }
    }
}

/// Error of one operation; the others are still applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct OpError {
    pub(super) op_index: usize,
    pub(super) code: Code,
    pub(super) message: String,
}

/// Applies all operations in order.
pub(super) fn apply(value: &mut Value, ops: &[Op]) -> Vec<OpError> {
    let failed = |(op_index, op)| {
        let (code, message) = apply_one(value, op).err()?;
        Some(OpError { op_index, code, message })
    };
    ops.iter().enumerate().filter_map(failed).collect()
}

type Failure = (Code, String);

fn apply_one(value: &mut Value, op: &Op) -> Result<(), Failure> {
    match op {
        Op::Set { path, value: new } => {
            *value_at(value, path.fields())? = new.clone();
            Ok(())
        }
        Op::Merge { path, value: new } => merge(value_at(value, path.fields())?, new),
        Op::Increment { path, by } => add(value_at(value, path.fields())?, by, false),
        Op::Decrement { path, by } => add(value_at(value, path.fields())?, by, true),
        Op::Append { path, value: new } => append(value_at(value, path.fields())?, new),
        Op::Remove { path } => {
            match path.fields() {
                [] => *value = Value::Null,
                [parents @ .., last] => {
                    if let Value::Object(fields) = value_at(value, parents)? {
                        fields.remove(last);
                    }
                }
            }
            Ok(())
        }
    }
}

/// Returns the value at a path, and creates missing objects on the way.
fn value_at<'a>(value: &'a mut Value, fields: &[String]) -> Result<&'a mut Value, Failure> {
    fields.iter().try_fold(value, |value, field| {
        if value.is_null() {
            *value = Value::Object(Map::new());
        }
        match value {
            Value::Object(object) => Ok(object.entry(field.clone()).or_insert(Value::Null)),
            _ => Err((Code::PathNotObject, format!("the parent of {field:?} is not an object"))),
        }
    })
}

fn merge(target: &mut Value, new: &Value) -> Result<(), Failure> {
    if target.is_null() {
        *target = Value::Object(Map::new());
    }
    match (target, new) {
        (Value::Object(fields), Value::Object(new)) => {
            fields.extend(new.iter().map(|(key, value)| (key.clone(), value.clone())));
            Ok(())
        }
        _ => Err((Code::NotAnObject, "merge needs an object on both sides".to_owned())),
    }
}

fn add(target: &mut Value, by: &Value, negative: bool) -> Result<(), Failure> {
    let start = if target.is_null() { Value::from(0) } else { target.clone() };
    let integer = || {
        let by = by.as_i64()?;
        start.as_i64()?.checked_add(if negative { by.checked_neg()? } else { by })
    };
    let float = || {
        let by = by.as_f64()?;
        Some(start.as_f64()? + if negative { -by } else { by })
    };
    let sum = integer().map(Value::from).or_else(|| float().map(Value::from));
    *target = sum.ok_or_else(|| (Code::NotANumber, "both sides must be numbers".to_owned()))?;
    Ok(())
}

fn append(target: &mut Value, new: &Value) -> Result<(), Failure> {
    match (target, new) {
        (Value::Array(items), new) => items.push(new.clone()),
        (Value::String(text), Value::String(new)) => text.push_str(new),
        (target @ Value::Null, new) => *target = Value::Array(vec![new.clone()]),
        _ => {
            return Err((
                Code::NotAnArray,
                "append needs an array, or text on both sides".to_owned(),
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn after(start: Value, ops: Value) -> (Value, Vec<&'static str>) {
        let mut value = start;
        let ops: Vec<Op> = serde_json::from_value(ops).unwrap();
        let errors = apply(&mut value, &ops);
        (value, errors.into_iter().map(|error| error.code.as_str()).collect())
    }

    #[test]
    fn each_operation_changes_the_value_at_its_path() {
        for (start, op, end) in [
            (json!(null), json!({"type": "set", "path": "a", "value": 1}), json!({"a": 1})),
            (json!(3), json!({"type": "set", "path": "", "value": 1}), json!(1)),
            (json!({"a": 1}), json!({"type": "merge", "value": {"b": 2}}), json!({"a": 1, "b": 2})),
            (json!({}), json!({"type": "increment", "path": "n", "by": 2}), json!({"n": 2})),
            (json!({"n": 2}), json!({"type": "decrement", "path": "n", "by": 5}), json!({"n": -3})),
            (
                json!({"n": 1}),
                json!({"type": "increment", "path": "n", "by": 0.5}),
                json!({"n": 1.5}),
            ),
            (json!({}), json!({"type": "append", "path": "l", "value": 1}), json!({"l": [1]})),
            (
                json!({"l": [1]}),
                json!({"type": "append", "path": ["l"], "value": 2}),
                json!({"l": [1, 2]}),
            ),
            (json!({"a": 1, "b": 2}), json!({"type": "remove", "path": "a"}), json!({"b": 2})),
            (
                json!({}),
                json!({"type": "set", "path": ["a", "b"], "value": 1}),
                json!({"a": {"b": 1}}),
            ),
        ] {
            assert_eq!(after(start, json!([op])), (end, vec![]), "{op}");
        }
    }

    #[test]
    fn a_failed_operation_does_not_stop_the_others() {
        let ops = json!([
            {"type": "increment", "path": "text", "by": 1},
            {"type": "set", "path": ["text", "x"], "value": 1},
            {"type": "append", "path": "text", "value": 7},
            {"type": "merge", "path": "text", "value": {}},
            {"type": "set", "path": "ok", "value": true},
        ]);
        let (value, errors) = after(json!({"text": "t"}), ops);
        assert_eq!(value, json!({"text": "t", "ok": true}));
        assert_eq!(errors, ["NOT_A_NUMBER", "PATH_NOT_OBJECT", "NOT_AN_ARRAY", "NOT_AN_OBJECT"]);
    }

    #[test]
    fn large_counters_do_not_overflow() {
        let ops = json!([{"type": "increment", "path": "n", "by": 1}]);
        let (value, errors) = after(json!({"n": i64::MAX}), ops);
        assert!(errors.is_empty() && value["n"].is_f64());
    }
}
