//! Errors: of messages from clients, and of calls to clients.

use serde_json::Value;
use skills_core::{Code, Coded, OverBudget};

use crate::{
    path::PathError,
    wire::{MdpErrorBody, MdpErrorCode, Method, WireError},
};

/// Rejection of a session or of one of its messages. The session ends with it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// The message is invalid.
    #[error(transparent)]
    Message(#[from] WireError),
    /// The frame is binary.
    #[error("Binary frames are not supported")]
    Binary,
    /// The message concerns a client that is not registered on this session.
    #[error("Client {0:?} is not registered on this session")]
    NotRegistered(String),
    /// The client id cannot be part of a URL.
    #[error("a client id is 1 to 128 printable characters without '/'")]
    ClientId,
    /// The client id is reserved.
    #[error("the client id {0:?} is reserved by this server; choose another")]
    ReservedId(String),
    /// A path is too long.
    #[error("paths[{at}] has {bytes} bytes, at most {max} are allowed")]
    PathTooLong {
        /// Index of the path.
        at: usize,
        /// Its size.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// A path is too deep.
    #[error("paths[{at}] has {depth} segments, at most {max} are allowed")]
    PathTooDeep {
        /// Index of the path.
        at: usize,
        /// Number of its segments.
        depth: usize,
        /// The limit.
        max: usize,
    },
    /// The catalog has too many paths.
    #[error("the catalog has {entries} paths, at most {max} are allowed")]
    TooManyPaths {
        /// Number of paths.
        entries: usize,
        /// The limit.
        max: usize,
    },
    /// Too many clients are registered.
    #[error("{0} clients are registered, and no more are allowed; try again later")]
    TooManyClients(usize),
    /// Too many sessions have no client.
    #[error("{0} sessions have not registered, and no more are allowed; try again later")]
    TooManySessions(usize),
    /// The catalogs of all clients together are too large.
    #[error("the catalogs of all clients are too large together; try again later")]
    CatalogsFull,
    /// A client or one of its paths takes too much memory.
    #[error("{what} takes about {bytes} bytes in memory, at most {max} are allowed")]
    CatalogTooLarge {
        /// Part of the catalog that is too large.
        what: &'static str,
        /// Its estimated memory.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// The memory budget is exhausted.
    #[error("the server is busy; try again in a moment")]
    Overloaded,
    /// The token is missing or wrong.
    #[error(
        "registration needs the token of this server: send it as auth.token or as a bearer token"
    )]
    Unauthorized,
    /// The session has ended.
    #[error("the session has ended")]
    Ended,
}

impl SessionError {
    /// Returns the close code and reason for a WebSocket.
    #[must_use]
    pub fn close_reason(&self) -> CloseReason {
        let code = match self {
            Self::Binary => 1003,
            Self::Message(WireError::TooLarge { .. } | WireError::TooManyValues { .. }) => 1009,
            Self::TooManyClients(_)
            | Self::TooManySessions(_)
            | Self::CatalogsFull
            | Self::Overloaded => 1013,
            _ => 1008,
        };
        match self {
            // The protocol prescribes this reason; the log has the details.
            Self::Message(WireError::Unexpected(_)) => {
                CloseReason::new(code, "Unexpected server-directed message")
            }
            _ => CloseReason::new(code, &self.to_string()),
        }
    }
}

impl Coded for SessionError {
    fn code(&self) -> Code {
        match self {
            Self::Message(WireError::NotJson(_)) => Code::NotJson,
            Self::Message(WireError::Unexpected(_)) => Code::InvalidMessage,
            Self::Binary => Code::Binary,
            Self::Message(WireError::TooLarge { .. } | WireError::TooManyValues { .. }) => {
                Code::TooLarge
            }
            Self::NotRegistered(_) => Code::NotRegistered,
            Self::ClientId => Code::InvalidClientId,
            Self::ReservedId(_) => Code::ReservedClientId,
            Self::PathTooLong { .. } => Code::PathTooLong,
            Self::PathTooDeep { .. } => Code::PathTooDeep,
            Self::TooManyPaths { .. } => Code::TooManyPaths,
            Self::TooManyClients(_) => Code::TooManyClients,
            Self::TooManySessions(_) => Code::TooManySessions,
            Self::CatalogsFull => Code::CatalogsFull,
            Self::CatalogTooLarge { .. } => Code::CatalogTooLarge,
            Self::Overloaded => Code::Overloaded,
            Self::Unauthorized => Code::Unauthorized,
            Self::Ended => Code::SessionEnded,
        }
    }
}

impl From<OverBudget> for SessionError {
    fn from(_: OverBudget) -> Self {
        Self::Overloaded
    }
}

/// Code and reason for the end of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloseReason {
    /// WebSocket close code.
    pub code: u16,
    /// Reason, not longer than a close frame allows.
    pub reason: String,
}

impl CloseReason {
    /// Maximum bytes of the reason in a close frame.
    const MAX_REASON_BYTES: usize = 123;

    /// Returns the reason for a shutdown of the server.
    pub(crate) fn shutdown() -> Self {
        Self::new(1001, "the server is shutting down")
    }

    /// Creates a close reason, truncated to the size of a close frame.
    #[must_use]
    pub fn new(code: u16, reason: &str) -> Self {
        let end = reason.floor_char_boundary(Self::MAX_REASON_BYTES);
        Self { code, reason: reason[..end].to_owned() }
    }
}

/// Failure of a call.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ClientCallError {
    /// The path is invalid.
    #[error("the path is invalid: {0}")]
    InvalidPath(#[from] PathError),
    /// The path is longer than any registered path may be.
    #[error("the path is too long")]
    PathTooLong,
    /// The cursor of a listing is invalid.
    #[error("the cursor is invalid; start again without one")]
    InvalidCursor,
    /// The client is not connected.
    #[error("Client {0:?} is not connected")]
    NotConnected(String),
    /// The client has no such path.
    #[error("Path {path:?} with method {:?} was not found on client {client:?}", method.as_str())]
    NotFound {
        /// Id of the client.
        client: String,
        /// Method of the call.
        method: Method,
        /// Path of the call.
        path: String,
    },
    /// No client has the path.
    #[error("No matching MDP clients were found")]
    NoClients,
    /// The client did not respond in time.
    #[error("Invocation timed out for client {0:?}")]
    Timeout(String),
    /// The client disconnected before it responded.
    #[error("Client {0:?} disconnected")]
    Disconnected(String),
    /// The session of the client registered another client.
    #[error("Client {client:?} was re-registered as {now:?}")]
    Reregistered {
        /// Id of the called client.
        client: String,
        /// Id of the new client.
        now: String,
    },
    /// The client is overloaded.
    #[error("Client {client:?} is busy (too many {what}); try again later")]
    Busy {
        /// Id of the client.
        client: String,
        /// Limit that is reached.
        what: &'static str,
    },
    /// The call is too large.
    #[error(
        "the call is too large: {bytes} bytes for each of {clients} clients, at most {max} in total are allowed; send \
         less or call fewer clients"
    )]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// Number of called clients.
        clients: usize,
        /// The limit for all of them together.
        max: usize,
    },
    /// The results of all clients together are too large.
    #[error("the result is omitted: the results of all clients together have more than {0} bytes")]
    ResultsTooLarge(usize),
    /// The call names too many clients.
    #[error("{0} clients are named, at most {1} can be called at once")]
    TooManyTargets(usize, usize),
    /// The memory budget of calls is exhausted.
    #[error("{0}; try again in a moment")]
    Overloaded(#[from] OverBudget),
    /// The result has too many JSON values.
    #[error("the result of client {0:?} is too large: it has too many values")]
    TooManyValues(String),
    /// The result is nested too deeply.
    #[error("the result of client {0:?} is nested too deeply")]
    TooDeep(String),
    /// The registry has no such version; the message names those that it has, or says why there is none.
    #[error("{0}")]
    NoVersion(String),
    /// The registry failed.
    #[error("{0}")]
    Registry(String),
    /// The registry cannot be read at the moment, as in an outage of its store.
    #[error("{0}")]
    Unavailable(String),
    /// The client returned an error.
    #[error("{}", .0.message)]
    Handler(MdpErrorBody),
}

impl ClientCallError {
    /// Returns the error code of the protocol.
    #[must_use]
    pub const fn mdp_code(&self) -> MdpErrorCode {
        match self {
            Self::InvalidPath(_)
            | Self::PathTooLong
            | Self::InvalidCursor
            | Self::TooManyTargets(..)
            | Self::TooLarge { .. } => MdpErrorCode::BadRequest,
            Self::NotConnected(_)
            | Self::NotFound { .. }
            | Self::NoVersion(_)
            | Self::NoClients => MdpErrorCode::NotFound,
            Self::Timeout(_) => MdpErrorCode::Timeout,
            Self::Disconnected(_)
            | Self::Reregistered { .. }
            | Self::ResultsTooLarge(_)
            | Self::TooManyValues(_)
            | Self::TooDeep(_)
            | Self::Registry(_) => MdpErrorCode::TransportError,
            Self::Busy { .. } | Self::Overloaded(_) | Self::Unavailable(_) => {
                MdpErrorCode::NotReady
            }
            Self::Handler(body) => body.code,
        }
    }

    /// Returns the error body for the caller.
    #[must_use]
    pub fn body(&self) -> MdpErrorBody {
        MdpErrorBody {
            code: self.mdp_code(),
            message: self.to_string(),
            details: self.details().cloned(),
        }
    }

    /// Returns the details that the client added.
    #[must_use]
    pub const fn details(&self) -> Option<&Value> {
        match self {
            Self::Handler(body) => body.details.as_ref(),
            _ => None,
        }
    }
}

impl Coded for ClientCallError {
    fn code(&self) -> Code {
        self.mdp_code().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_those_of_the_protocol() {
        let client = || "x".to_owned();
        let not_found = ClientCallError::NotFound {
            client: client(),
            method: Method::Get,
            path: "/nope".into(),
        };
        for (error, words) in [
            (ClientCallError::NotConnected(client()), r#"Client "x" is not connected"#),
            (not_found, r#"Path "/nope" with method "GET" was not found on client "x""#),
            (ClientCallError::Timeout(client()), r#"Invocation timed out for client "x""#),
            (ClientCallError::Disconnected(client()), r#"Client "x" disconnected"#),
            (
                ClientCallError::Reregistered { client: client(), now: "b".into() },
                r#"Client "x" was re-registered as "b""#,
            ),
        ] {
            assert_eq!(error.to_string(), words, "{error:?}");
        }
    }

    #[test]
    fn a_long_reason_is_truncated_for_the_close_frame() {
        let error = SessionError::NotRegistered("é".repeat(500));
        let close = error.close_reason();
        assert_eq!(close.code, 1008);
        assert!(close.reason.len() <= 123 && close.reason.starts_with("Client \"é"));
    }
}
