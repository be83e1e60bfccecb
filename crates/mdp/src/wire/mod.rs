//! The messages of the protocol as they are on the wire: one JSON object each.
//!
//! - [`incoming`]: what clients say
//! - [`outgoing`]: what they are told
//! - [`descriptor`]: clients and their paths
//! - [`auth`]: who somebody says to be
//!
//! A field that is optional is absent or has its type: `null` is refused on the way in, because the clients
//! in use refuse it, and never sent. What a descriptor has beyond the protocol is kept and passed on.
//! Nothing here knows sessions; that a message is well-formed does not mean that it is in order.

pub mod auth;
pub mod descriptor;
mod fields;
pub mod incoming;
pub mod outgoing;

use std::io;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use auth::Auth;
pub use descriptor::{ClientDescriptor, ClientInfo, Descriptor, Kind};
pub use incoming::{Incoming, WireError};
pub use skills_registry::live::Method;

/// What went wrong, in the few words that the protocol has for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// What was asked cannot be asked.
    BadRequest,
    /// There is no such client or path.
    NotFound,
    /// No answer came in time.
    Timeout,
    /// The client went away.
    TransportError,
    /// The client's own code failed.
    HandlerError,
    /// Not at present; later perhaps.
    NotReady,
}

impl Code {
    /// The name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BadRequest => "bad_request",
            Self::NotFound => "not_found",
            Self::Timeout => "timeout",
            Self::TransportError => "transport_error",
            Self::HandlerError => "handler_error",
            Self::NotReady => "not_ready",
        }
    }
}

/// An error as it is told to whoever asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// For machines.
    pub code: Code,
    /// For people.
    pub message: String,
    /// Whatever the client added.
    #[serde(
        default,
        deserialize_with = "fields::present",
        skip_serializing_if = "Option::is_none"
    )]
    pub details: Option<Value>,
}

/// How many bytes something has as JSON, without making it.
pub(crate) fn json_bytes(value: &impl Serialize) -> usize {
    let mut count = Count(0);
    // Counting cannot fail.
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}

struct Count(usize);

impl io::Write for Count {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
