//! Checks of headers and request metadata that rmcp makes before it calls a handler.
//!
//! What passes here passes there too. What does not is left to rmcp, which may accept more.

use axum::http::{HeaderMap, HeaderName, header};
use rmcp::model::{ProtocolVersion, RequestMetaObject};

use super::request::ReadRequest;

const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const MCP_METHOD: HeaderName = HeaderName::from_static("mcp-method");
const MCP_NAME: HeaderName = HeaderName::from_static("mcp-name");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Prefix of a header value in Base64.
const BASE64_PREFIX: &str = "=?base64?";

/// Member of `_meta` that the stateless revision allows besides the required ones.
const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";

/// Kind of protocol revision that a request follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lifecycle {
    /// A request of a session.
    Session,
    /// A request of the revision without sessions.
    Stateless,
}

impl Lifecycle {
    /// Returns the lifecycle of a request from its headers; `None` if anything about them is unusual.
    pub(super) fn from_headers(headers: &HeaderMap, has_session: bool) -> Option<Self> {
        let accept = headers.get(header::ACCEPT)?.to_str().ok()?;
        let content_type = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
        let is_usual = accept.contains("application/json")
            && accept.contains("text/event-stream")
            && content_type.starts_with("application/json")
            && !headers.contains_key(LAST_EVENT_ID);
        if !is_usual {
            return None;
        }
        let stateless = ProtocolVersion::V_2026_07_28;
        match (single(headers, &PROTOCOL_VERSION)?, has_session) {
            (None, true) => Some(Self::Session),
            (Some(version), true) => {
                let known = ProtocolVersion::KNOWN_VERSIONS.iter().map(ProtocolVersion::as_str);
                let mut with_sessions = known.filter(|known| *known < stateless.as_str());
                with_sessions.any(|known| known == version).then_some(Self::Session)
            }
            (Some(version), false) => (version == stateless.as_str()).then_some(Self::Stateless),
            (None, false) => None,
        }
    }

    /// Compares a request with its headers, and checks its metadata.
    pub(super) fn check(self, headers: &HeaderMap, request: &ReadRequest<'_>) -> Option<()> {
        let is_valid = match self {
            Self::Session => request.meta.is_none(),
            Self::Stateless => {
                single(headers, &MCP_METHOD)? == Some(request.call.method())
                    && match request.call.header_name() {
                        Some(name) => {
                            single(headers, &MCP_NAME)? == Some(name)
                                && !name.starts_with(BASE64_PREFIX)
                        }
                        None => true,
                    }
                    && is_complete(request.meta?)
            }
        };
        is_valid.then_some(())
    }
}

/// Returns the value of a header; the outer `None` if there are several or it is no text.
fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<Option<&'a str>> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Some(None) };
    if values.next().is_some() {
        return None;
    }
    value.to_str().ok().map(Some)
}

/// Returns whether metadata has all that the stateless revision requires, and nothing unusual.
fn is_complete(meta: &str) -> bool {
    let Ok(meta) = serde_json::from_str::<RequestMetaObject>(meta) else { return false };
    let is_known = |key: &String| {
        key == CLIENT_INFO || RequestMetaObject::DRAFT_REQUIRED_KEYS.contains(&key.as_str())
    };
    let version = ProtocolVersion::V_2026_07_28;
    meta.keys().all(is_known)
        && meta.protocol_version().as_ref() == Some(&version)
        && meta.missing_required_keys(&version).is_empty()
}
