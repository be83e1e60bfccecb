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

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use auth::Auth;
pub use descriptor::{ClientDescriptor, ClientInfo, Descriptor, Kind};
pub use incoming::{Incoming, WireError};

/// How an endpoint is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Method {
    /// Reads; the only way to ask for a skill or a prompt.
    Get,
    /// Adds or does.
    Post,
    /// Replaces.
    Put,
    /// Changes.
    Patch,
    /// Removes.
    Delete,
}

impl Method {
    const ALL: [Self; 5] = [Self::Get, Self::Post, Self::Put, Self::Patch, Self::Delete];
    /// How many there are.
    pub const COUNT: usize = Self::ALL.len();

    /// The name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }

    /// The method of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.as_str() == name)
    }

    pub(crate) const fn index(self) -> usize {
        self as usize
    }
}

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
