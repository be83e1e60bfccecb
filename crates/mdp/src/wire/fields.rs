//! Typed access to the fields of a JSON object, with errors that name the place.

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

/// Deserializes an optional field that must not be `null`.
pub(super) fn non_null<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(deserializer).map(Some)
}

/// JSON object whose fields are taken one by one.
pub(super) struct Fields<'a> {
    rest: Map<String, Value>,
    place: &'a str,
}

impl<'a> Fields<'a> {
    pub(super) fn new(value: Value, place: &'a str) -> Result<Self, String> {
        match value {
            Value::Object(rest) => Ok(Self { rest, place }),
            _ => Err(format!("{place} must be an object")),
        }
    }

    pub(super) fn string(&mut self, name: &str) -> Result<String, String> {
        self.optional_string(name)?.ok_or_else(|| self.type_error(name, "a string"))
    }

    pub(super) fn optional_string(&mut self, name: &str) -> Result<Option<String>, String> {
        match self.rest.remove(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.type_error(name, "a string")),
        }
    }

    pub(super) fn optional_object(
        &mut self,
        name: &str,
    ) -> Result<Option<Map<String, Value>>, String> {
        match self.rest.remove(name) {
            None => Ok(None),
            Some(Value::Object(object)) => Ok(Some(object)),
            Some(_) => Err(self.type_error(name, "an object")),
        }
    }

    pub(super) fn array(&mut self, name: &str) -> Result<Vec<Value>, String> {
        match self.rest.remove(name) {
            Some(Value::Array(items)) => Ok(items),
            _ => Err(self.type_error(name, "an array")),
        }
    }

    /// Returns the remaining fields.
    pub(super) fn into_rest(self) -> Map<String, Value> {
        self.rest
    }

    pub(super) fn type_error(&self, name: &str, expected: &str) -> String {
        format!("{}.{name} must be {expected}", self.place)
    }
}
