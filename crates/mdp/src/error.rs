//! What is refused, at the two boundaries: what a client says, and what a client is asked.

use serde_json::Value;

use crate::{
    path::PathError,
    wire::{Code, ErrorBody, Method, WireError},
};

/// Why something that a client said is not taken. Its session ends with it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It is no message.
    #[error(transparent)]
    Message(#[from] WireError),
    /// Frames are text.
    #[error("Binary frames are not supported")]
    Binary,
    /// It is about a client that is not registered here.
    #[error("Client {0:?} is not registered on this session")]
    NotRegistered(String),
    /// The id cannot be used in an address.
    #[error("a client id is 1 to 128 printable characters without '/'")]
    ClientId,
    /// The id is one of this server's own names.
    #[error("the client id {0:?} is reserved by this server; choose another")]
    ReservedId(String),
    /// A path is too long.
    #[error("paths[{at}] has {bytes} bytes, at most {max} are allowed")]
    PathTooLong {
        /// Which.
        at: usize,
        /// Its length.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// A path is too deep.
    #[error("paths[{at}] has {depth} segments, at most {max} are allowed")]
    PathTooDeep {
        /// Which.
        at: usize,
        /// How many it has.
        depth: usize,
        /// The limit.
        max: usize,
    },
    /// There are too many paths.
    #[error("the catalogue has {entries} paths, at most {max} are allowed")]
    TooManyPaths {
        /// How many.
        entries: usize,
        /// The limit.
        max: usize,
    },
    /// There are too many clients.
    #[error("{0} clients are registered, and no more are allowed; try again later")]
    TooManyClients(usize),
    /// There are too many sessions without a client.
    #[error("{0} sessions have not registered, and no more are allowed; try again later")]
    TooManySessions(usize),
    /// The catalogues of all clients together are too large.
    #[error("the catalogues of all clients are too large together; try again later")]
    CatalogsFull,
    /// The token is missing or wrong.
    #[error(
        "registration needs the token of this server: send it as auth.token or as a bearer token"
    )]
    Unauthorized,
    /// The session is over.
    #[error("the session has ended")]
    Ended,
}

impl Refused {
    /// Stable, for machines.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Message(WireError::NotJson(_)) => "not_json",
            Self::Message(WireError::Unexpected(_)) => "invalid_message",
            Self::Binary => "binary",
            Self::Message(WireError::TooLarge { .. }) => "too_large",
            Self::NotRegistered(_) => "not_registered",
            Self::ClientId => "invalid_client_id",
            Self::ReservedId(_) => "reserved_client_id",
            Self::PathTooLong { .. } => "path_too_long",
            Self::PathTooDeep { .. } => "path_too_deep",
            Self::TooManyPaths { .. } => "too_many_paths",
            Self::TooManyClients(_) => "too_many_clients",
            Self::TooManySessions(_) => "too_many_sessions",
            Self::CatalogsFull => "catalogs_full",
            Self::Unauthorized => "unauthorized",
            Self::Ended => "session_ended",
        }
    }

    /// How a WebSocket is closed with it.
    #[must_use]
    pub fn close(&self) -> Close {
        let code = match self {
            Self::Binary => 1003,
            Self::Message(WireError::TooLarge { .. }) => 1009,
            Self::TooManyClients(_) | Self::TooManySessions(_) | Self::CatalogsFull => 1013,
            _ => 1008,
        };
        match self {
            // The words of the protocol; what is wrong in detail is in the log.
            Self::Message(WireError::Unexpected(_)) => {
                Close::new(code, "Unexpected server-directed message")
            }
            _ => Close::new(code, &self.to_string()),
        }
    }
}

/// How a session is ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Close {
    /// The code of a WebSocket.
    pub code: u16,
    /// Why, in no more bytes than a close frame holds.
    pub reason: String,
}

impl Close {
    /// What fits of a reason in a close frame.
    const MAX_REASON: usize = 123;

    /// With as much of the reason as fits.
    #[must_use]
    pub fn new(code: u16, reason: &str) -> Self {
        let end = reason.floor_char_boundary(Self::MAX_REASON);
        Self { code, reason: reason[..end].to_owned() }
    }
}

/// Why a call has no result.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CallError {
    /// The path cannot be asked for.
    #[error("the path cannot be asked for: {0}")]
    BadPath(#[from] PathError),
    /// The path is longer or deeper than any that is registered.
    #[error("the path is too long")]
    PathTooLong,
    /// A listing cannot go on from there.
    #[error("the cursor is none that this listing gave; begin anew without one")]
    Cursor,
    /// There is no such client.
    #[error("Client {0:?} is not connected")]
    NotConnected(String),
    /// The client has nothing there.
    #[error("Path {path:?} with method {:?} was not found on client {client:?}", method.as_str())]
    NotFound {
        /// Which client.
        client: String,
        /// How it was to be asked.
        method: Method,
        /// For what.
        path: String,
    },
    /// No client has anything there.
    #[error("No matching MDP clients were found")]
    NoClients,
    /// No answer came in time.
    #[error("Invocation timed out for client {0:?}")]
    Timeout(String),
    /// The client went away before it answered.
    #[error("Client {0:?} disconnected")]
    Disconnected(String),
    /// The session of the client has another client now.
    #[error("Client {client:?} was re-registered as {now:?}")]
    Reregistered {
        /// Who was asked.
        client: String,
        /// Who is there now.
        now: String,
    },
    /// Too much is under way for this client.
    #[error("Client {client:?} has too much to do ({what}); try again later")]
    Busy {
        /// Which client.
        client: String,
        /// Too much of what.
        what: &'static str,
    },
    /// What is asked is too large to be passed on.
    #[error(
        "the call is not passed on: {bytes} bytes for {clients} clients are more than {max}; send less, or ask \
         fewer clients"
    )]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// How many are asked.
        clients: usize,
        /// The limit for all of them together.
        max: usize,
    },
    /// The answers of all clients together are too large.
    #[error("the answer is not told: those of all clients together have more than {0} bytes")]
    TooMuch(usize),
    /// The answer is nested too deeply to be told.
    #[error("the answer of client {0:?} is nested too deeply")]
    TooDeep(String),
    /// What is stored could not be read.
    #[error("{0}")]
    Registry(String),
    /// The client answered with an error.
    #[error("{}", .0.message)]
    Handler(ErrorBody),
}

impl CallError {
    /// Stable, for machines; one of the protocol's own.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            Self::BadPath(_) | Self::PathTooLong | Self::Cursor | Self::TooLarge { .. } => {
                Code::BadRequest
            }
            Self::NotConnected(_) | Self::NotFound { .. } | Self::NoClients => Code::NotFound,
            Self::Timeout(_) => Code::Timeout,
            Self::Disconnected(_)
            | Self::Reregistered { .. }
            | Self::TooMuch(_)
            | Self::TooDeep(_)
            | Self::Registry(_) => Code::TransportError,
            Self::Busy { .. } => Code::NotReady,
            Self::Handler(body) => body.code,
        }
    }

    /// As it is told to whoever asked.
    #[must_use]
    pub fn body(&self) -> ErrorBody {
        ErrorBody { code: self.code(), message: self.to_string(), details: self.details().cloned() }
    }

    /// What the client added.
    #[must_use]
    pub const fn details(&self) -> Option<&Value> {
        match self {
            Self::Handler(body) => body.details.as_ref(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_the_protocol() {
        let client = || "x".to_owned();
        let not_found =
            CallError::NotFound { client: client(), method: Method::Get, path: "/nope".into() };
        for (error, words) in [
            (CallError::NotConnected(client()), r#"Client "x" is not connected"#),
            (not_found, r#"Path "/nope" with method "GET" was not found on client "x""#),
            (CallError::Timeout(client()), r#"Invocation timed out for client "x""#),
            (CallError::Disconnected(client()), r#"Client "x" disconnected"#),
            (
                CallError::Reregistered { client: client(), now: "b".into() },
                r#"Client "x" was re-registered as "b""#,
            ),
        ] {
            assert_eq!(error.to_string(), words);
        }
    }

    #[test]
    fn a_reason_fits_into_a_close_frame() {
        let refused = Refused::NotRegistered("é".repeat(500));
        let close = refused.close();
        assert_eq!(close.code, 1008);
        assert!(close.reason.len() <= 123 && close.reason.starts_with("Client \"é"));
    }
}
