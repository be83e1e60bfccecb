//! Validated JSON text that is passed on without parsing it again.

use std::sync::Arc;

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};

/// Payload on the bus: valid JSON text, cheap to clone.
///
/// The hub routes payloads of up to 64 MiB; parsing each into a tree would cost more than everything else it does.
#[derive(Clone, Debug)]
pub struct Json(Arc<Box<RawValue>>);

impl Json {
    /// Serializes a value.
    ///
    /// # Errors
    /// When `value` has no JSON form (a map with keys that are not strings).
    pub fn from_serialize<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        to_raw_value(value).map(Self::from)
    }

    /// Returns the JSON value `null`.
    #[must_use]
    pub fn null() -> Self {
        Self::from(RawValue::NULL.to_owned())
    }

    /// Parses the payload as `T`.
    ///
    /// # Errors
    /// When the text does not have the shape of `T`.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.as_str())
    }

    /// Returns the JSON text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.get()
    }
}

impl From<Box<RawValue>> for Json {
    fn from(text: Box<RawValue>) -> Self {
        Self(Arc::new(text))
    }
}

impl From<&Value> for Json {
    fn from(value: &Value) -> Self {
        // A `Value` always has string keys, so this cannot fail.
        Self::from_serialize(value).unwrap_or_else(|_| Self::null())
    }
}

impl Serialize for Json {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(Self::from)
    }
}
