//! Taking the fields of an object one by one, with an error that says where it is.

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

/// A field that may be absent, but if it is there has its type.
pub(super) fn present<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(deserializer).map(Some)
}

/// An object that is taken apart.
pub(super) struct Fields<'a> {
    rest: Map<String, Value>,
    place: &'a str,
}

impl<'a> Fields<'a> {
    pub(super) fn of(value: Value, place: &'a str) -> Result<Self, String> {
        match value {
            Value::Object(rest) => Ok(Self { rest, place }),
            _ => Err(format!("{place} must be an object")),
        }
    }

    pub(super) fn string(&mut self, name: &str) -> Result<String, String> {
        self.optional_string(name)?.ok_or_else(|| self.wrong(name, "a string"))
    }

    pub(super) fn optional_string(&mut self, name: &str) -> Result<Option<String>, String> {
        match self.rest.remove(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.wrong(name, "a string")),
        }
    }

    pub(super) fn optional_object(
        &mut self,
        name: &str,
    ) -> Result<Option<Map<String, Value>>, String> {
        match self.rest.remove(name) {
            None => Ok(None),
            Some(Value::Object(object)) => Ok(Some(object)),
            Some(_) => Err(self.wrong(name, "an object")),
        }
    }

    pub(super) fn array(&mut self, name: &str) -> Result<Vec<Value>, String> {
        match self.rest.remove(name) {
            Some(Value::Array(items)) => Ok(items),
            _ => Err(self.wrong(name, "an array")),
        }
    }

    /// What has not been taken.
    pub(super) fn rest(self) -> Map<String, Value> {
        self.rest
    }

    pub(super) fn wrong(&self, name: &str, wanted: &str) -> String {
        format!("{}.{name} must be {wanted}", self.place)
    }
}
