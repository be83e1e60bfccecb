//! JSON text that has been checked once and is then passed on, not parsed again.

use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};

/// A payload on the bus: valid JSON text, cheap to clone.
///
/// The hub routes payloads of up to 64 MiB between peers; building a tree of each would cost
/// more than everything else it does.
#[derive(Clone, Debug)]
pub struct Json(Arc<Forms>);

#[derive(Debug)]
struct Forms {
    text: Box<RawValue>,
    /// The same as a tree, for those who can only send trees.
    #[cfg_attr(not(feature = "engine"), allow(dead_code))]
    tree: OnceLock<Value>,
}

/// Of larger texts no tree is kept: it takes some ten times the memory.
#[cfg(feature = "engine")]
const MAX_KEPT_TREE: usize = 4 << 20;

impl Json {
    /// Serialises a value.
    ///
    /// # Errors
    /// When `value` cannot be written as JSON (a map with keys that are not strings).
    pub fn from_serialize<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        to_raw_value(value).map(Self::from)
    }

    /// The JSON value `null`.
    #[must_use]
    pub fn null() -> Self {
        Self::from(RawValue::NULL.to_owned())
    }

    /// Reads the payload as `T`.
    ///
    /// # Errors
    /// When the text does not have the shape of `T`.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.as_str())
    }

    /// The payload as a tree. One that somebody keeps will be wanted again, so its tree is kept
    /// with it, and copied.
    ///
    /// # Errors
    /// When the text is nested too deeply.
    #[cfg(feature = "engine")]
    pub(crate) fn into_tree(self) -> Result<Value, serde_json::Error> {
        let is_kept = Arc::strong_count(&self.0) > 1 && self.as_str().len() <= MAX_KEPT_TREE;
        if !is_kept {
            return self.parse();
        }
        if let Some(tree) = self.0.tree.get() {
            return Ok(tree.clone());
        }
        let tree = self.parse::<Value>()?;
        Ok(self.0.tree.get_or_init(|| tree).clone())
    }

    /// The JSON text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.text.get()
    }
}

impl From<Box<RawValue>> for Json {
    fn from(text: Box<RawValue>) -> Self {
        Self(Arc::new(Forms { text, tree: OnceLock::new() }))
    }
}

impl From<&Value> for Json {
    fn from(value: &Value) -> Self {
        // A `Value` always has string keys, so writing it cannot fail.
        Self::from_serialize(value).unwrap_or_else(|_| Self::null())
    }
}

impl Serialize for Json {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.text.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(all(test, feature = "engine"))]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    #[test]
    fn a_tree_is_kept_with_what_is_kept() {
        let value = json!({ "a": [1, "x", null] });
        let json = Json::from(&value);
        assert_eq!(json.clone().into_tree().unwrap(), value);
        assert!(json.0.tree.get().is_some());
        assert_eq!(json.clone().into_tree().unwrap(), value);
        assert_eq!(json.into_tree().unwrap(), value, "the last one");
        let large = Json::from(&json!("x".repeat(MAX_KEPT_TREE)));
        large.clone().into_tree().unwrap();
        assert!(large.0.tree.get().is_none());
    }
}
