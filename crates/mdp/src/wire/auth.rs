//! Credentials: from the headers of a request, from a message, or from both.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::fields::non_null;

/// Credentials in the form of the protocol. They are not verified.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AuthContext {
    /// Scheme, such as `Bearer`.
    #[serde(deserialize_with = "non_null", skip_serializing_if = "Option::is_none")]
    pub scheme: Option<String>,
    /// Secret.
    #[serde(deserialize_with = "non_null", skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Further headers with credentials.
    #[serde(deserialize_with = "non_null", skip_serializing_if = "Option::is_none")]
    pub headers: Option<BTreeMap<String, String>>,
    /// Custom data.
    #[serde(deserialize_with = "non_null", skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
}

impl AuthContext {
    /// Returns whether there are no credentials.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns these credentials, with the fields of `fallback` where they have none.
    #[must_use]
    pub fn with_fallback(self, fallback: Self) -> Self {
        let headers = match (self.headers, fallback.headers) {
            (Some(own), Some(mut merged)) => {
                merged.extend(own);
                Some(merged)
            }
            (own, other) => own.or(other),
        };
        Self {
            scheme: self.scheme.or(fallback.scheme),
            token: self.token.or(fallback.token),
            headers,
            metadata: self.metadata.or(fallback.metadata),
        }
    }
}

// Manual implementation: credentials must not reach a log.
impl fmt::Debug for AuthContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Auth(_)")
    }
}

/// Source of the credentials of a registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum AuthSource {
    /// No credentials.
    #[serde(rename = "none")]
    None,
    /// Message.
    #[serde(rename = "message")]
    Message,
    /// Request or handshake.
    #[serde(rename = "transport")]
    Transport,
    /// Both message and request.
    #[serde(rename = "transport+message")]
    Both,
}

impl AuthSource {
    /// Returns the source, given which parts had credentials.
    #[must_use]
    pub const fn new(transport: bool, message: bool) -> Self {
        match (transport, message) {
            (false, false) => Self::None,
            (false, true) => Self::Message,
            (true, false) => Self::Transport,
            (true, true) => Self::Both,
        }
    }

    /// Returns the name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Message => "message",
            Self::Transport => "transport",
            Self::Both => "transport+message",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_not_printed() {
        let auth = AuthContext { token: Some("s3cret".into()), ..AuthContext::default() };
        assert_eq!(format!("{auth:?}"), "Auth(_)");
    }

    #[test]
    fn own_fields_take_precedence_over_the_fallback() {
        let one = |token: &str, name: &str| AuthContext {
            token: Some(token.into()),
            headers: Some([(name.to_owned(), token.to_owned())].into()),
            ..AuthContext::default()
        };
        let both = one("a", "x").with_fallback(one("b", "y"));
        assert_eq!(both.token.as_deref(), Some("a"));
        assert_eq!(both.headers.unwrap().len(), 2);
        assert!(AuthContext::default().is_empty());
    }

    #[test]
    fn null_is_rejected() {
        assert!(serde_json::from_str::<AuthContext>("{}").is_ok());
        assert!(serde_json::from_str::<AuthContext>(r#"{"token":null}"#).is_err());
        assert!(serde_json::from_str::<AuthContext>(r#"{"headers":{"a":1}}"#).is_err());
    }
}
