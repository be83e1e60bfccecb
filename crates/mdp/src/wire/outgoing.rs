//! Messages to clients, serialized to text.

use std::sync::Arc;

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::{AuthContext, Method};

/// Fields of a call that differ between clients, without the id of the call.
#[derive(Debug, Clone)]
pub struct CallFields<'a> {
    /// Id of the client.
    pub client_id: &'a str,
    /// Method.
    pub method: Method,
    /// Concrete path.
    pub path: &'a str,
    /// Values of the pattern's parameters. Always sent: a client that gets none does not compute them itself.
    pub params: &'a [(&'a str, &'a str)],
}

/// Fields of a call that are the same for all called clients.
#[derive(Debug, Clone, Default, Serialize)]
pub struct PayloadFields<'a> {
    /// Query parameters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query: Option<&'a Map<String, Value>>,
    /// Body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<&'a Value>,
    /// Headers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headers: Option<Pairs<'a, String>>,
    /// Credentials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth: Option<&'a AuthContext>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "callClient", rename_all = "camelCase")]
struct CallHead<'a> {
    request_id: Uuid,
    client_id: &'a str,
    method: Method,
    path: &'a str,
    params: Pairs<'a, &'a str>,
}

/// Second half of a `callClient`, serialized once for all called clients.
#[derive(Debug, Clone)]
pub struct Payload(Arc<str>);

impl Payload {
    /// Serializes the fields.
    #[must_use]
    pub fn new(fields: &PayloadFields<'_>) -> Self {
        let mut text = text(fields);
        // It continues an object: a comma replaces the brace, unless there are no fields.
        let start = if text.len() > 2 { "," } else { "" };
        text.replace_range(..1, start);
        Self(text.into())
    }

    /// Returns the shared text.
    #[must_use]
    pub fn text(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }

    /// Returns the size of the text in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.0.len()
    }
}

/// Pairs that serialize to an object in their order. Names must be unique.
#[derive(Debug, Clone, Copy)]
pub struct Pairs<'a, T>(pub &'a [(T, T)]);

impl<T: Serialize> Serialize for Pairs<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

/// Returns the first half of a `callClient`, to be continued by a [`Payload`].
#[must_use]
pub fn call_head(request_id: Uuid, fields: &CallFields<'_>) -> String {
    let &CallFields { client_id, method, path, params } = fields;
    let params = Pairs(params);
    let mut head = text(&CallHead { request_id, client_id, method, path, params });
    head.pop();
    head
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "camelCase")]
enum KeepaliveMessage {
    Ping { timestamp: i64 },
    Pong { timestamp: i64 },
}

/// Returns a `ping` with milliseconds since 1970.
pub fn ping(timestamp: i64) -> String {
    text(&KeepaliveMessage::Ping { timestamp })
}

/// Returns a `pong` with the timestamp of the ping.
pub fn pong(timestamp: i64) -> String {
    text(&KeepaliveMessage::Pong { timestamp })
}

fn text(message: &impl Serialize) -> String {
    // Cannot fail: every key is a string.
    serde_json::to_string(message).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use modeldriveprotocol_client::ServerToClientMessage;
    use serde_json::json;

    use super::*;

    fn call(request_id: Uuid, params: &[(&str, &str)], payload: &PayloadFields<'_>) -> String {
        let path = "/x/skill.md";
        let fields = CallFields { client_id: "c", method: Method::Get, path, params };
        call_head(request_id, &fields) + &Payload::new(payload).text()
    }

    #[test]
    fn absent_fields_are_not_sent() {
        let id = Uuid::nil();
        let text = call(id, &[], &PayloadFields::default());
        let value: Value = serde_json::from_str(&text).unwrap();
        let expected = json!({
            "type": "callClient", "requestId": id.to_string(), "clientId": "c", "method": "GET",
            "path": "/x/skill.md", "params": {},
        });
        assert_eq!(value, expected);
    }

    #[test]
    fn a_null_body_is_a_body() {
        let null = Value::Null;
        let payload = PayloadFields { body: Some(&null), ..PayloadFields::default() };
        let text = call(Uuid::nil(), &[("a", "2")], &payload);
        assert!(text.contains(r#""params":{"a":"2"},"body":null"#), "{text}");
    }

    #[test]
    fn the_published_client_parses_every_message() {
        let auth = AuthContext { token: Some("t".into()), ..AuthContext::default() };
        let query = json!({"a": 1}).as_object().cloned();
        let headers = [("host".to_owned(), "h".to_owned())];
        let payload = PayloadFields {
            query: query.as_ref(),
            headers: Some(Pairs(&headers)),
            auth: Some(&auth),
            ..PayloadFields::default()
        };
        let call = call(Uuid::new_v4(), &[("id", "7")], &payload);
        for text in [call, ping(1), pong(i64::MIN)] {
            ServerToClientMessage::from_text(&text)
                .unwrap_or_else(|error| panic!("{text}: {error}"));
        }
    }
}
