//! Messages of the protocol, each one JSON object.
//!
//! - [`incoming`]: messages of clients
//! - [`outgoing`]: messages to clients
//! - [`descriptor`]: clients and their paths
//! - [`auth`]: credentials of clients
//!
//! An optional field is absent or has its type: `null` is rejected in incoming messages, because existing clients reject
//! it too, and never sent. Fields of a descriptor beyond the protocol are preserved. This module knows no sessions: a
//! well-formed message may still be out of order.

pub mod auth;
pub mod descriptor;
mod fields;
pub mod incoming;
mod method;
pub mod outgoing;

use std::io;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use skills_core::Code;

pub use auth::AuthContext;
pub use descriptor::{ClientDescriptor, ClientInfo, Descriptor, DescriptorKind};
pub use incoming::{Incoming, WireError};
pub use method::Method;

/// Error code of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MdpErrorCode {
    /// The call is invalid.
    BadRequest,
    /// The client or path does not exist.
    NotFound,
    /// The client did not respond in time.
    Timeout,
    /// The client disconnected.
    TransportError,
    /// The handler of the client failed.
    HandlerError,
    /// The client or the server is busy; a retry may succeed.
    NotReady,
}

impl From<MdpErrorCode> for Code {
    fn from(code: MdpErrorCode) -> Self {
        match code {
            MdpErrorCode::BadRequest => Self::BadRequest,
            MdpErrorCode::NotFound => Self::NotFound,
            MdpErrorCode::Timeout => Self::Timeout,
            MdpErrorCode::TransportError => Self::TransportError,
            MdpErrorCode::HandlerError => Self::HandlerError,
            MdpErrorCode::NotReady => Self::NotReady,
        }
    }
}

/// Error in the form of the protocol.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MdpErrorBody {
    /// Code.
    pub code: MdpErrorCode,
    /// Message.
    pub message: String,
    /// Details that the client added.
    #[serde(
        default,
        deserialize_with = "fields::non_null",
        skip_serializing_if = "Option::is_none"
    )]
    pub details: Option<Value>,
}

/// Returns the bytes of a value as JSON, without building the text.
pub(crate) fn json_len(value: &impl Serialize) -> usize {
    let mut counter = ByteCounter(0);
    // Counting cannot fail.
    let _ = serde_json::to_writer(&mut counter, value);
    counter.0
}

/// Writer that counts bytes.
struct ByteCounter(usize);

impl io::Write for ByteCounter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
