//! Who somebody says to be: from the headers of a request, from a message, or from both.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::fields::present;

/// Credentials, as the protocol passes them on. Nothing here says that they are right.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Auth {
    /// Such as `Bearer`.
    #[serde(deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub scheme: Option<String>,
    /// The secret itself.
    #[serde(deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Headers that carry more of it.
    #[serde(deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub headers: Option<BTreeMap<String, String>>,
    /// Anything else.
    #[serde(deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
}

impl Auth {
    /// Whether it says nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// This, and what `under` has where this has nothing.
    #[must_use]
    pub fn over(self, under: Self) -> Self {
        let headers = match (self.headers, under.headers) {
            (Some(above), Some(mut below)) => {
                below.extend(above);
                Some(below)
            }
            (above, below) => above.or(below),
        };
        Self {
            scheme: self.scheme.or(under.scheme),
            token: self.token.or(under.token),
            headers,
            metadata: self.metadata.or(under.metadata),
        }
    }
}

// By hand: none of it may reach a log.
impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Auth(_)")
    }
}

/// Where the credentials of a registration came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum AuthSource {
    /// There are none.
    #[serde(rename = "none")]
    None,
    /// The message.
    #[serde(rename = "message")]
    Message,
    /// The request, or the handshake.
    #[serde(rename = "transport")]
    Transport,
    /// Both.
    #[serde(rename = "transport+message")]
    Both,
}

impl AuthSource {
    /// Where they came from, given where there were any.
    #[must_use]
    pub const fn of(transport: bool, message: bool) -> Self {
        match (transport, message) {
            (false, false) => Self::None,
            (false, true) => Self::Message,
            (true, false) => Self::Transport,
            (true, true) => Self::Both,
        }
    }

    /// The name on the wire.
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
    fn nothing_of_it_is_printed() {
        let auth = Auth { token: Some("s3cret".into()), ..Auth::default() };
        assert_eq!(format!("{auth:?}"), "Auth(_)");
    }

    #[test]
    fn what_is_above_hides_what_is_below() {
        let one = |token: &str, name: &str| Auth {
            token: Some(token.into()),
            headers: Some([(name.to_owned(), token.to_owned())].into()),
            ..Auth::default()
        };
        let both = one("a", "x").over(one("b", "y"));
        assert_eq!(both.token.as_deref(), Some("a"));
        assert_eq!(both.headers.unwrap().len(), 2);
        assert!(Auth::default().is_empty());
    }

    #[test]
    fn null_is_not_absent() {
        assert!(serde_json::from_str::<Auth>("{}").is_ok());
        assert!(serde_json::from_str::<Auth>(r#"{"token":null}"#).is_err());
        assert!(serde_json::from_str::<Auth>(r#"{"headers":{"a":1}}"#).is_err());
    }
}
