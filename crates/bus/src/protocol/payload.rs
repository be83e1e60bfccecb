//! The caller's id within a payload: engines and the hub add it to every payload that is an object.

use std::{borrow::Cow, fmt};

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::inbound::string;
use crate::{CALLER_FIELD, Json};

/// Separates the caller's id from a payload, without building a tree.
pub(crate) fn split_caller(data: &RawValue) -> (Json, Option<String>) {
    let text = data.get();
    if !text.starts_with('{') || !text.contains(CALLER_FIELD) {
        return (Json::from(data.to_owned()), None);
    }
    let split = split_last_field(text).or_else(|| split_any_field(text));
    match split.map(|(text, caller)| (RawValue::from_string(text), caller)) {
        Some((Ok(payload), caller)) => (Json::from(payload), caller),
        _ => (Json::from(data.to_owned()), None),
    }
}

/// Removes the field if it occurs once and is the last one, as the hub writes it.
fn split_last_field(text: &str) -> Option<(String, Option<String>)> {
    let body = text.strip_suffix("\"}")?;
    let start = body.rfind(CALLER_FIELD)?;
    // A quote inside a string is escaped, so these quotes delimit the key and the value of the last field.
    let before = body[..start].strip_suffix('"')?;
    let id = body[start + CALLER_FIELD.len()..].strip_prefix("\":\"")?;
    let is_exact = !before.ends_with('\\') && !id.contains(['"', '\\']);
    if !is_exact || before.contains(CALLER_FIELD) {
        return None;
    }
    let before = before.strip_suffix(',').or((before == "{").then_some(before))?;
    let mut payload = String::with_capacity(before.len() + 1);
    payload.push_str(before);
    payload.push('}');
    Some((payload, Some(id.to_owned())))
}

/// Removes the field wherever it is; of several the last one counts.
fn split_any_field(text: &str) -> Option<(String, Option<String>)> {
    struct Fields<'a>(&'a str);

    impl<'de> Visitor<'de> for Fields<'de> {
        type Value = (String, Option<String>);

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut payload = String::with_capacity(self.0.len());
            let mut caller = None;
            payload.push('{');
            while let Some((key, value)) = map.next_entry::<&'de RawValue, &'de RawValue>()? {
                if string(key).as_deref() == Some(CALLER_FIELD) {
                    caller = string(value).map(Cow::into_owned);
                    continue;
                }
                if payload.len() > 1 {
                    payload.push(',');
                }
                payload.push_str(key.get());
                payload.push(':');
                payload.push_str(value.get());
            }
            payload.push('}');
            Ok((payload, caller))
        }
    }

    serde_json::Deserializer::from_str(text).deserialize_map(Fields(text)).ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::{super::outbound::push_payload, *};

    fn split(text: &str) -> (String, Option<String>) {
        let raw: Box<RawValue> = serde_json::from_str(text).unwrap();
        let (json, caller) = split_caller(&raw);
        (json.as_str().to_owned(), caller)
    }

    #[test]
    fn the_callers_id_is_removed_wherever_it_is() {
        for (text, payload, caller) in [
            (r#"{"a":1,"_caller_worker_id":"w"}"#, r#"{"a":1}"#, Some("w")),
            (r#"{"_caller_worker_id":"w"}"#, "{}", Some("w")),
            (r#"{"_caller_worker_id":"w","a":1}"#, r#"{"a":1}"#, Some("w")),
            (
                r#"{"a":[ 1 ], "_caller_worker_id" : "w" , "b":2}"#,
                r#"{"a":[ 1 ],"b":2}"#,
                Some("w"),
            ),
            (r#"{"_caller_worker_id":"x","_caller_worker_id":"w"}"#, "{}", Some("w")),
            (r#"{"_caller_worker_id":7}"#, "{}", None),
            (r#"{"a":{"_caller_worker_id":"w"}}"#, r#"{"a":{"_caller_worker_id":"w"}}"#, None),
            (r#"{"\"_caller_worker_id":"w"}"#, r#"{"\"_caller_worker_id":"w"}"#, None),
            (r#"{"a":"_caller_worker_id"}"#, r#"{"a":"_caller_worker_id"}"#, None),
            (r#"["_caller_worker_id"]"#, r#"["_caller_worker_id"]"#, None),
            ("null", "null", None),
        ] {
            assert_eq!(split(text), (payload.to_owned(), caller.map(str::to_owned)), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_the_hub_adds_is_removed(key in ".{0,8}", value in ".{0,40}", id in "[a-z0-9\"\\\\-]{0,12}") {
            let payload = json!({ key: value }).to_string();
            let mut text = String::new();
            push_payload(&mut text, &payload, Some(&id));
            let (rest, caller) = split(&text);
            prop_assert_eq!(caller, Some(id));
            let rest: Value = serde_json::from_str(&rest).unwrap();
            prop_assert_eq!(rest, serde_json::from_str::<Value>(&payload).unwrap());
        }
    }
}
