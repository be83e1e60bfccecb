//! The operations of `state::update`, as pure functions of a value.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

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

/// Where in the value: nothing for all of it, a field, or fields inside fields.
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

/// An operation that could not be carried out; the others still are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct OpError {
    pub(super) op_index: usize,
    pub(super) code: &'static str,
    pub(super) message: String,
}

/// Carries out all operations in order.
pub(super) fn apply(value: &mut Value, ops: &[Op]) -> Vec<OpError> {
    let failed = |(op_index, op)| {
        let (code, message) = apply_one(value, op).err()?;
        Some(OpError { op_index, code, message })
    };
    ops.iter().enumerate().filter_map(failed).collect()
}

type Failure = (&'static str, String);

fn apply_one(value: &mut Value, op: &Op) -> Result<(), Failure> {
    match op {
        Op::Set { path, value: new } => {
            *place(value, path.fields())? = new.clone();
            Ok(())
        }
        Op::Merge { path, value: new } => merge(place(value, path.fields())?, new),
        Op::Increment { path, by } => add(place(value, path.fields())?, by, false),
        Op::Decrement { path, by } => add(place(value, path.fields())?, by, true),
        Op::Append { path, value: new } => append(place(value, path.fields())?, new),
        Op::Remove { path } => {
            match path.fields() {
                [] => *value = Value::Null,
                [parents @ .., last] => {
                    if let Value::Object(fields) = place(value, parents)? {
                        fields.remove(last);
                    }
                }
            }
            Ok(())
        }
    }
}

/// The value at a path; objects on the way are made where there is nothing.
fn place<'a>(value: &'a mut Value, fields: &[String]) -> Result<&'a mut Value, Failure> {
    fields.iter().try_fold(value, |value, field| {
        if value.is_null() {
            *value = Value::Object(Map::new());
        }
        match value {
            Value::Object(object) => Ok(object.entry(field.clone()).or_insert(Value::Null)),
            _ => Err((
                "PATH_NOT_OBJECT",
                format!("the value that should hold {field:?} is not an object"),
            )),
        }
    })
}

fn merge(place: &mut Value, new: &Value) -> Result<(), Failure> {
    if place.is_null() {
        *place = Value::Object(Map::new());
    }
    match (place, new) {
        (Value::Object(fields), Value::Object(new)) => {
            fields.extend(new.iter().map(|(key, value)| (key.clone(), value.clone())));
            Ok(())
        }
        _ => Err(("NOT_AN_OBJECT", "merge needs an object on both sides".to_owned())),
    }
}

fn add(place: &mut Value, by: &Value, negative: bool) -> Result<(), Failure> {
    let start = if place.is_null() { Value::from(0) } else { place.clone() };
    let whole = || {
        let by = by.as_i64()?;
        start.as_i64()?.checked_add(if negative { by.checked_neg()? } else { by })
    };
    let real = || {
        let by = by.as_f64()?;
        Some(start.as_f64()? + if negative { -by } else { by })
    };
    let sum = whole().map(Value::from).or_else(|| real().map(Value::from));
    *place = sum.ok_or_else(|| ("NOT_A_NUMBER", "both sides must be numbers".to_owned()))?;
    Ok(())
}

fn append(place: &mut Value, new: &Value) -> Result<(), Failure> {
    match (place, new) {
        (Value::Array(items), new) => items.push(new.clone()),
        (Value::String(text), Value::String(new)) => text.push_str(new),
        (place @ Value::Null, new) => *place = Value::Array(vec![new.clone()]),
        _ => {
            return Err((
                "NOT_AN_ARRAY",
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
        (value, errors.into_iter().map(|error| error.code).collect())
    }

    #[test]
    fn each_operation() {
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
