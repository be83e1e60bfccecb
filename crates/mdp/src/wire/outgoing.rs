//! What clients are told. Every message is made as the text that is sent.

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::{Auth, Method, json_bytes};

/// A call, all but the number by which its answer is known.
#[derive(Debug, Clone)]
pub struct CallFields<'a> {
    /// Who is asked.
    pub client_id: &'a str,
    /// How.
    pub method: Method,
    /// For what; a concrete path.
    pub path: &'a str,
    /// What the parameters of the pattern stand for. Always told: a client that is told of none would not
    /// look for them itself.
    pub params: &'a [(&'a str, &'a str)],
    /// With which query.
    pub query: Option<&'a Map<String, Value>>,
    /// With which body.
    pub body: Option<&'a Value>,
    /// With which headers.
    pub headers: Option<&'a [(String, String)]>,
    /// By whom.
    pub auth: Option<&'a Auth>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "callClient", rename_all = "camelCase")]
struct CallClient<'a> {
    request_id: Uuid,
    client_id: &'a str,
    method: Method,
    path: &'a str,
    params: Pairs<'a, &'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    query: Option<&'a Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    headers: Option<Pairs<'a, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    auth: Option<&'a Auth>,
}

/// An object, in this order. No two names are equal.
struct Pairs<'a, T>(&'a [(T, T)]);

impl<T: Serialize> Serialize for Pairs<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl<'a> CallClient<'a> {
    fn new(request_id: Uuid, fields: &CallFields<'a>) -> Self {
        let &CallFields { client_id, method, path, params, query, body, headers, auth } = fields;
        let (params, headers) = (Pairs(params), headers.map(Pairs));
        Self { request_id, client_id, method, path, params, query, body, headers, auth }
    }
}

/// `callClient`.
pub fn call(request_id: Uuid, fields: &CallFields<'_>) -> String {
    text(&CallClient::new(request_id, fields))
}

/// How many bytes that has, without making it.
pub fn call_bytes(fields: &CallFields<'_>) -> usize {
    json_bytes(&CallClient::new(Uuid::nil(), fields))
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "camelCase")]
enum Beat {
    Ping { timestamp: i64 },
    Pong { timestamp: i64 },
}

/// `ping`, with milliseconds since 1970.
pub fn ping(timestamp: i64) -> String {
    text(&Beat::Ping { timestamp })
}

/// `pong`, with what the ping had.
pub fn pong(timestamp: i64) -> String {
    text(&Beat::Pong { timestamp })
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

    fn fields<'a>() -> CallFields<'a> {
        CallFields {
            client_id: "c",
            method: Method::Get,
            path: "/x/skill.md",
            params: &[],
            query: None,
            body: None,
            headers: None,
            auth: None,
        }
    }

    #[test]
    fn what_is_not_there_is_not_said() {
        let id = Uuid::nil();
        let value: Value = serde_json::from_str(&call(id, &fields())).unwrap();
        let expected = json!({
            "type": "callClient", "requestId": id.to_string(), "clientId": "c", "method": "GET",
            "path": "/x/skill.md", "params": {},
        });
        assert_eq!(value, expected);
    }

    #[test]
    fn a_null_body_is_a_body() {
        let null = Value::Null;
        let call = CallFields { body: Some(&null), params: &[("a", "2")], ..fields() };
        let text = super::call(Uuid::nil(), &call);
        assert!(text.contains(r#""params":{"a":"2"},"body":null"#), "{text}");
    }

    #[test]
    fn the_published_client_understands_all_of_it() {
        let auth = Auth { token: Some("t".into()), ..Auth::default() };
        let query = json!({"a": 1}).as_object().cloned();
        let headers = [("host".to_owned(), "h".to_owned())];
        let call = CallFields {
            query: query.as_ref(),
            headers: Some(&headers),
            auth: Some(&auth),
            params: &[("id", "7")],
            ..fields()
        };
        assert_eq!(call_bytes(&call), super::call(Uuid::new_v4(), &call).len());
        for text in [super::call(Uuid::new_v4(), &call), ping(1), pong(i64::MIN)] {
            ServerToClientMessage::from_text(&text)
                .unwrap_or_else(|error| panic!("{text}: {error}"));
        }
    }
}
