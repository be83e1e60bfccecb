//! Requests as text, and parts of answers.

use serde_json::Value;

/// Protocol revision of a request over HTTP.
#[derive(Clone)]
pub(crate) enum Dialect {
    /// 2026-07-28, without a session.
    Stateless,
    /// 2025-11-25, with this session id.
    Session(String),
}

const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}"#;

pub(crate) const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}"#;
pub(crate) const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// Builds the JSON text of `resources/read` in a session, as on stdio.
pub(crate) fn read_in_session(uri: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{{"uri":"{uri}"}}}}"#)
}

fn post(host: &str, headers: &str, body: &str) -> Vec<u8> {
    format!(
        "POST /mcp HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\n{headers}content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

impl Dialect {
    /// Builds a request. `params` are the members of the params object. Concurrent requests of a session need
    /// different ids.
    pub(crate) fn request(
        &self,
        host: &str,
        id: usize,
        method: &str,
        name: &str,
        params: &str,
    ) -> Vec<u8> {
        match self {
            Self::Stateless => {
                let comma = if params.is_empty() { "" } else { "," };
                let body = format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{params}{comma}{META}}}}}"#
                );
                let name =
                    if name.is_empty() { String::new() } else { format!("mcp-name: {name}\r\n") };
                let headers =
                    format!("mcp-protocol-version: 2026-07-28\r\nmcp-method: {method}\r\n{name}");
                post(host, &headers, &body)
            }
            Self::Session(session) => {
                let body = format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{params}}}}}"#
                );
                let headers =
                    format!("mcp-protocol-version: 2025-11-25\r\nmcp-session-id: {session}\r\n");
                post(host, &headers, &body)
            }
        }
    }

    pub(crate) fn read(&self, host: &str, id: usize, uri: &str) -> Vec<u8> {
        self.request(host, id, "resources/read", uri, &format!(r#""uri":"{uri}""#))
    }
}

/// Builds the handshake of a session: two requests, of which the second needs the session id.
pub(crate) fn initialize(host: &str) -> Vec<u8> {
    post(host, "", INITIALIZE)
}

pub(crate) fn initialized(host: &str, session: &str) -> Vec<u8> {
    let headers = format!("mcp-protocol-version: 2025-11-25\r\nmcp-session-id: {session}\r\n");
    post(host, &headers, INITIALIZED)
}

pub(crate) fn get(host: &str, path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nhost: {host}\r\n\r\n").into_bytes()
}

/// Returns the text of the single content in an answer to `resources/read`.
pub(crate) fn text_of(answer: &[u8]) -> String {
    let answer: Value = serde_json::from_slice(answer)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(answer)));
    match &answer["result"]["contents"][0]["text"] {
        Value::String(text) => text.clone(),
        _ => panic!("no text in {answer}"),
    }
}
