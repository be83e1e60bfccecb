//! Messages of clients.

use std::borrow::Cow;

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Number, Value, value::RawValue};

use super::{
    AuthContext, ClientDescriptor, Descriptor, MdpErrorBody, MdpErrorCode, descriptor::parse_paths,
    fields::non_null,
};

/// Maximum bytes of an error of a client; its details are parsed.
const MAX_ERROR_BYTES: usize = 64 << 10;

/// Message of a client.
#[derive(Debug)]
pub enum Incoming<'a> {
    /// Registers a client.
    Register {
        /// Client with its catalog.
        client: Box<ClientDescriptor>,
        /// Credentials of the message.
        auth: Option<AuthContext>,
    },
    /// Replaces the catalog of a client.
    Update {
        /// Id of the client.
        client_id: String,
        /// Whole catalog.
        paths: Vec<Descriptor>,
    },
    /// Unregisters a client.
    Unregister {
        /// Id of the client.
        client_id: String,
    },
    /// Returns the result of a call.
    Result {
        /// Id of the call.
        request_id: String,
        /// Data, which may be absent, or error.
        outcome: Result<Option<&'a RawValue>, MdpErrorBody>,
    },
    /// Asks for a pong.
    Ping {
        /// Timestamp of the pong.
        timestamp: i64,
    },
    /// Answers a ping.
    Pong,
}

/// Invalid message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The text is not JSON.
    #[error("the message is not JSON: {0}")]
    NotJson(String),
    /// The JSON is no message of a client.
    #[error("{0}")]
    Unexpected(String),
    /// The message has too many JSON values.
    #[error("the message has {values} values, at most {max} are allowed")]
    TooManyValues {
        /// Number of values.
        values: usize,
        /// The limit.
        max: usize,
    },
    /// The message is too large.
    #[error("the message has {bytes} bytes, at most {max} are allowed")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        max: usize,
    },
}

/// Type of a registration.
const REGISTER: &str = "registerClient";
/// Type of a result.
const RESULT: &str = "callClientResult";

/// Message with unparsed fields, which borrow from its text.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Envelope<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default, deserialize_with = "non_null")]
    client: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "non_null")]
    auth: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "non_null")]
    paths: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "non_null")]
    client_id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "non_null")]
    request_id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "non_null")]
    ok: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "non_null")]
    data: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "non_null")]
    error: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "non_null")]
    timestamp: Option<&'a RawValue>,
}

impl<'a> Incoming<'a> {
    /// Parses a message. Only a result may have more than `max` bytes: its data is not parsed.
    ///
    /// # Errors
    /// When the message is invalid or too large.
    pub fn parse(text: &'a str, max: usize) -> Result<Self, WireError> {
        Envelope::parse(text, max)?.into_message()
    }
}

impl<'a> Envelope<'a> {
    /// Finds the fields of a message without allocating. Only a result may have more than `max` bytes.
    ///
    /// # Errors
    /// When the text is not the JSON of a message, or too large.
    pub fn parse(text: &'a str, max: usize) -> Result<Self, WireError> {
        let message: Self = serde_json::from_str(text).map_err(|error| {
            let kind = if error.is_data() { WireError::Unexpected } else { WireError::NotJson };
            kind(error.to_string())
        })?;
        if !message.is_result() && text.len() > max {
            return Err(WireError::TooLarge { bytes: text.len(), max });
        }
        Ok(message)
    }

    /// Returns whether the message is a registration.
    #[must_use]
    pub fn is_registration(&self) -> bool {
        self.kind == REGISTER
    }

    /// Returns whether the message makes sense before a client is registered: a registration, a ping or a pong.
    #[must_use]
    pub fn needs_no_client(&self) -> bool {
        self.is_registration() || matches!(&*self.kind, "ping" | "pong")
    }

    /// Returns whether the message is the result of a call.
    #[must_use]
    pub fn is_result(&self) -> bool {
        self.kind == RESULT
    }

    /// Parses the credentials of the message.
    ///
    /// # Errors
    /// When they are invalid.
    pub fn auth(&self) -> Result<Option<AuthContext>, WireError> {
        optional(self.auth, "auth").map_err(WireError::Unexpected)
    }

    /// Parses the fields.
    ///
    /// # Errors
    /// When a field is invalid or missing.
    pub fn into_message(self) -> Result<Incoming<'a>, WireError> {
        self.parse_fields().map_err(WireError::Unexpected)
    }

    fn parse_fields(self) -> Result<Incoming<'a>, String> {
        Ok(match &*self.kind {
            REGISTER => Incoming::Register {
                client: Box::new(ClientDescriptor::parse(required(self.client, "client")?)?),
                auth: optional(self.auth, "auth")?,
            },
            "updateClientCatalog" => {
                let paths: Vec<Value> = required(self.paths, "paths")?;
                Incoming::Update {
                    client_id: required(self.client_id, "clientId")?,
                    paths: parse_paths(paths, "paths")?,
                }
            }
            "unregisterClient" => {
                Incoming::Unregister { client_id: required(self.client_id, "clientId")? }
            }
            RESULT => {
                let is_too_large = |error: &RawValue| error.get().len() > MAX_ERROR_BYTES;
                let error = match self.error {
                    Some(error) if is_too_large(error) => Some(handler_error(ERROR_TOO_LARGE)),
                    error => optional(error, "error")?,
                };
                let outcome = if required(self.ok, "ok")? {
                    Ok(self.data)
                } else {
                    Err(error.unwrap_or_else(|| handler_error(NO_REASON)))
                };
                Incoming::Result { request_id: required(self.request_id, "requestId")?, outcome }
            }
            "ping" => {
                Incoming::Ping { timestamp: to_integer(&required(self.timestamp, "timestamp")?) }
            }
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

const NO_REASON: &str = "the client failed without an error message";
const ERROR_TOO_LARGE: &str = "the client failed; its error is too large";

fn handler_error(message: &str) -> MdpErrorBody {
    MdpErrorBody { code: MdpErrorCode::HandlerError, message: message.to_owned(), details: None }
}

fn required<T: DeserializeOwned>(raw: Option<&RawValue>, name: &str) -> Result<T, String> {
    optional(raw, name)?.ok_or_else(|| format!("{name} is missing"))
}

fn optional<T: DeserializeOwned>(raw: Option<&RawValue>, name: &str) -> Result<Option<T>, String> {
    let read = |raw: &RawValue| serde_json::from_str(raw.get());
    raw.map(read).transpose().map_err(|error| format!("{name}: {error}"))
}

/// Converts a number of a client to an integer; some clients understand no other numbers.
fn to_integer(number: &Number) -> i64 {
    // A float beyond the range of integers becomes the nearest integer.
    #[allow(clippy::cast_possible_truncation, reason = "saturates")]
    let from_float = || number.as_f64().map(|float| float as i64);
    number.as_i64().or_else(from_float).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn read(value: &Value) -> Result<String, WireError> {
        Incoming::parse(&value.to_string(), 1000).map(|message| format!("{message:?}"))
    }

    #[test]
    fn every_message_of_a_client_is_parsed() {
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
            let message = read(&value).unwrap();
            assert!(message.starts_with(kind), "{message}");
        }
    }

    #[test]
    fn absent_data_differs_from_null() {
        let data = |more: &str| {
            let text = format!(r#"{{"type":"callClientResult","requestId":"r","ok":true{more}}}"#);
            match Incoming::parse(&text, 10).unwrap() {
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
    fn timestamps_are_converted_to_integers() {
        let ping = |number: &str| {
            let text = format!(r#"{{"type":"ping","timestamp":{number}}}"#);
            match Incoming::parse(&text, 100).unwrap() {
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
        assert!(matches!(Incoming::parse(&text, 100), Err(WireError::TooLarge { max: 100, .. })));
        assert!(Incoming::parse(&text, text.len()).is_ok());
    }

    #[test]
    fn a_large_error_is_not_parsed() {
        let details = "[0],".repeat(MAX_ERROR_BYTES / 4);
        let error = format!(r#"{{"code":"timeout","message":"m","details":[{details}0]}}"#);
        let text =
            format!(r#"{{"type":"callClientResult","requestId":"r","ok":false,"error":{error}}}"#);
        let Ok(Incoming::Result { outcome: Err(error), .. }) = Incoming::parse(&text, 100) else {
            panic!("no error")
        };
        assert_eq!((error.message.as_str(), error.details), (ERROR_TOO_LARGE, None));
    }

    #[test]
    fn credentials_are_parsed_before_the_client() {
        let text = r#"{"type":"registerClient","client":{"no":"client"},"auth":{"token":"t"}}"#;
        let message = Envelope::parse(text, 100).unwrap();
        assert!(message.is_registration() && !message.is_result());
        assert_eq!(message.auth().unwrap().unwrap().token.as_deref(), Some("t"));
        assert!(message.into_message().is_err());
    }

    #[test]
    fn invalid_messages_are_rejected() {
        for text in ["", "{", "nothing", "{\"type\":\"ping\"} x"] {
            assert!(matches!(Incoming::parse(text, 100), Err(WireError::NotJson(_))), "{text}");
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
        fn parsing_never_panics(text in "\\PC{0,80}") {
            let _ = Incoming::parse(&text, 100);
        }
    }
}
