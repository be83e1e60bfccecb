//! JSON reader that reports duplicate keys.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::diagnostic::Diagnostics;
use crate::json_pointer::JsonPointer;

/// Reads one JSON value. The last of duplicate keys wins, and a diagnostic reports it.
pub(super) fn read(
    text: &str,
    at: JsonPointer<'_>,
    diagnostics: &mut Diagnostics,
) -> serde_json::Result<Value> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = Part { at, diagnostics }.deserialize(&mut reader)?;
    reader.end()?;
    Ok(value)
}

struct Part<'a> {
    at: JsonPointer<'a>,
    diagnostics: &'a mut Diagnostics,
}

impl<'de> DeserializeSeed<'de> for Part<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Part<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        loop {
            let part = Part { at: self.at.index(list.len()), diagnostics: &mut *self.diagnostics };
            match items.next_element_seed(part)? {
                Some(item) => list.push(item),
                None => return Ok(list.into()),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let at = self.at.key(&key);
            let value =
                entries.next_value_seed(Part { at, diagnostics: &mut *self.diagnostics })?;
            if object.contains_key(&key) {
                let message = "the key is repeated; the last value is used";
                self.diagnostics.error("duplicate_key", at, message);
            }
            object.insert(key, value);
        }
        Ok(object.into())
    }
}
