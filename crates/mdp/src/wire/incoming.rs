//! What clients say.

use std::borrow::Cow;

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Number, Value, value::RawValue};

use super::{
    Auth, ClientDescriptor, Code, Descriptor, ErrorBody, descriptor::read_paths, fields::present,
};

/// A message of a client.
#[derive(Debug)]
pub enum Incoming {
    /// Here I am.
    Register {
        /// Who, with which catalogue.
        client: Box<ClientDescriptor>,
        /// Credentials of the message's own.
        auth: Option<Auth>,
    },
    /// This is my catalogue now.
    Update {
        /// Who says so.
        client_id: String,
        /// The whole catalogue.
        paths: Vec<Descriptor>,
    },
    /// I am no longer to be asked.
    Unregister {
        /// Who says so.
        client_id: String,
    },
    /// The answer to a call.
    Result {
        /// Which call.
        request_id: String,
        /// What came of it; data is absent when there is none.
        outcome: Result<Option<Box<RawValue>>, ErrorBody>,
    },
    /// Are you there?
    Ping {
        /// To be sent back.
        timestamp: i64,
    },
    /// I am here.
    Pong,
}

/// Why a text is no message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// It is not JSON.
    #[error("the message is not JSON: {0}")]
    NotJson(String),
    /// It is JSON, but nothing that a client may say.
    #[error("{0}")]
    Unexpected(String),
    /// It is too large.
    #[error("the message has {bytes} bytes, at most {max} are allowed")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        max: usize,
    },
}

/// The type of a result.
const RESULT: &str = "callClientResult";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default, deserialize_with = "present")]
    client: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    auth: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    paths: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    client_id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    request_id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    ok: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    data: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    error: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    timestamp: Option<&'a RawValue>,
}

impl Incoming {
    /// Reads a message and checks its form. Only a result may have more than `max` bytes: nothing is made of
    /// its data before somebody wants it.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(text: &str, max: usize) -> Result<Self, WireError> {
        let message: Envelope<'_> =
            serde_json::from_str(text).map_err(|error| match error.is_data() {
                true => WireError::Unexpected(error.to_string()),
                false => WireError::NotJson(error.to_string()),
            })?;
        if message.kind != RESULT && text.len() > max {
            return Err(WireError::TooLarge { bytes: text.len(), max });
        }
        message.open().map_err(WireError::Unexpected)
    }
}

impl Envelope<'_> {
    fn open(self) -> Result<Incoming, String> {
        Ok(match &*self.kind {
            "registerClient" => Incoming::Register {
                client: Box::new(ClientDescriptor::read(required(self.client, "client")?)?),
                auth: optional(self.auth, "auth")?,
            },
            "updateClientCatalog" => {
                let paths: Vec<Value> = required(self.paths, "paths")?;
                Incoming::Update {
                    client_id: required(self.client_id, "clientId")?,
                    paths: read_paths(paths, "paths")?,
                }
            }
            "unregisterClient" => {
                Incoming::Unregister { client_id: required(self.client_id, "clientId")? }
            }
            RESULT => {
                let error = optional(self.error, "error")?;
                let outcome = match required(self.ok, "ok")? {
                    true => Ok(self.data.map(RawValue::to_owned)),
                    false => Err(error.unwrap_or_else(unexplained)),
                };
                Incoming::Result { request_id: required(self.request_id, "requestId")?, outcome }
            }
            "ping" => Incoming::Ping { timestamp: whole(&required(self.timestamp, "timestamp")?) },
            "pong" => {
                let _: Number = required(self.timestamp, "timestamp")?;
                Incoming::Pong
            }
            other => {
                let other: String = other.chars().take(40).collect();
                return Err(format!("{other:?} is not a message of a client"));
            }
        })
    }
}

fn unexplained() -> ErrorBody {
    let message = "the client failed and did not say why".to_owned();
    ErrorBody { code: Code::HandlerError, message, details: None }
}

fn required<T: DeserializeOwned>(raw: Option<&RawValue>, name: &str) -> Result<T, String> {
    optional(raw, name)?.ok_or_else(|| format!("{name} is missing"))
}

fn optional<T: DeserializeOwned>(raw: Option<&RawValue>, name: &str) -> Result<Option<T>, String> {
    let read = |raw: &RawValue| serde_json::from_str(raw.get());
    raw.map(read).transpose().map_err(|error| format!("{name}: {error}"))
}

/// A number of the client's as an integer, which is all that some clients understand.
fn whole(number: &Number) -> i64 {
    // A float beyond the range of integers becomes the nearest of them.
    #[allow(clippy::cast_possible_truncation, reason = "saturates")]
    let of_float = || number.as_f64().map(|float| float as i64);
    number.as_i64().or_else(of_float).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn read(value: &Value) -> Result<Incoming, WireError> {
        Incoming::read(&value.to_string(), 1000)
    }

    #[test]
    fn every_message_of_a_client() {
        let client = json!({"id": "a", "name": "A", "paths": []});
        for (value, kind) in [
            (json!({"type": "registerClient", "client": client, "more": null}), "Register"),
            (json!({"type": "registerClient", "client": client, "auth": {}}), "Register"),
            (json!({"type": "updateClientCatalog", "clientId": "a", "paths": []}), "Update"),
            (json!({"type": "unregisterClient", "clientId": ""}), "Unregister"),
            (json!({"type": "callClientResult", "requestId": "r", "ok": true}), "Result"),
            (json!({"type": "ping", "timestamp": 1}), "Ping"),
            (json!({"type": "pong", "timestamp": 1.5}), "Pong"),
        ] {
            let message = format!("{:?}", read(&value).unwrap());
            assert!(message.starts_with(kind), "{message}");
        }
    }

    #[test]
    fn no_data_is_not_null() {
        let data = |more: &str| {
            let text = format!(r#"{{"type":"callClientResult","requestId":"r","ok":true{more}}}"#);
            match Incoming::read(&text, 10).unwrap() {
                Incoming::Result { outcome: Ok(data), .. } => {
                    data.map(|data| data.get().to_owned())
                }
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(data(""), None);
        assert_eq!(data(r#","data":null"#).as_deref(), Some("null"));
        assert_eq!(data(r#","data": "a\n" "#).as_deref(), Some(r#""a\n""#));
    }

    #[test]
    fn timestamps_come_back_as_integers() {
        let ping = |number: &str| {
            let text = format!(r#"{{"type":"ping","timestamp":{number}}}"#);
            match Incoming::read(&text, 100).unwrap() {
                Incoming::Ping { timestamp } => timestamp,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(ping("1753000000000"), 1_753_000_000_000);
        assert_eq!(ping("-3.9"), -3);
        assert_eq!(ping("1e300"), i64::MAX);
    }

    #[test]
    fn only_a_result_may_be_large() {
        let text = json!({"type": "unregisterClient", "clientId": "a".repeat(100)}).to_string();
        assert!(matches!(Incoming::read(&text, 100), Err(WireError::TooLarge { max: 100, .. })));
        assert!(Incoming::read(&text, text.len()).is_ok());
    }

    #[test]
    fn what_is_no_message() {
        for text in ["", "{", "nothing", "{\"type\":\"ping\"} x"] {
            assert!(matches!(Incoming::read(text, 100), Err(WireError::NotJson(_))), "{text}");
        }
        for value in [
            json!(7),
            json!([]),
            json!({}),
            json!({"type": 1}),
            json!({"type": "callClient", "requestId": "r"}),
            json!({"type": "ping"}),
            json!({"type": "ping", "timestamp": "1"}),
            json!({"type": "registerClient"}),
            json!({"type": "registerClient", "client": null}),
            json!({"type": "registerClient", "client": {"id": 1, "name": "", "paths": []}}),
            json!({"type": "registerClient", "client": {"id": "", "name": "", "paths": []}, "auth": null}),
            json!({"type": "unregisterClient", "clientId": null}),
            json!({"type": "callClientResult", "requestId": "r"}),
            json!({"type": "callClientResult", "requestId": "r", "ok": false,
                "error": {"code": "odd", "message": ""}}),
            json!({"type": "callClientResult", "requestId": "r", "ok": false,
                "error": {"code": "timeout"}}),
        ] {
            assert!(matches!(read(&value), Err(WireError::Unexpected(_))), "{value}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(text in "\\PC{0,80}") {
            let _ = Incoming::read(&text, 100);
        }
    }
}
