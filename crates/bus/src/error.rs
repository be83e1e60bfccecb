//! What can go wrong with a call, and the code each failure has on the wire.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The code of a call that a hub refused because an earlier one of the same lane has not come.
pub(crate) const OUT_OF_TURN: &str = "delivery_out_of_turn";

/// A call on the bus that did not give a result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// Nobody on the bus has registered the function.
    #[error("Function {0} not found")]
    NotFound(String),
    /// The worker that was running the call went away before it answered.
    #[error("Invocation stopped: the worker that serves {0} disconnected before it answered")]
    Stopped(String),
    /// The worker did not answer in time.
    #[error("{function_id} did not answer within {} ms", after.as_millis())]
    Timeout {
        /// The function that was called.
        function_id: String,
        /// How long the caller waited.
        after: Duration,
    },
    /// The message is larger than its receiver can take.
    #[error("{0}")]
    PayloadTooLarge(String),
    /// The worker does not read what is sent to it, and its queue is full.
    #[error("the worker that serves {0} does not read its messages; its queue is full")]
    Congested(String),
    /// There is no connection to the bus. The call was not made.
    #[error("there is no connection to the bus; {0} was not called")]
    Disconnected(String),
    /// The callee, or the bus itself, answered with an error of its own.
    #[error("{message}")]
    Remote {
        /// Machine-readable code.
        code: String,
        /// A sentence for people.
        message: String,
    },
}

impl CallError {
    /// An error with a code of the caller's choosing.
    pub fn remote(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Remote { code: code.into(), message: message.into() }
    }

    /// The code that this error has on the wire; the first five are the iii engine's own.
    #[must_use]
    pub fn code(&self) -> &str {
        match self {
            Self::NotFound(_) => "function_not_found",
            Self::Stopped(_) => "invocation_stopped",
            Self::Timeout { .. } => "timeout",
            Self::PayloadTooLarge(_) => "payload_too_large",
            Self::Congested(_) => "channel_send_failed",
            Self::Disconnected(_) => "not_connected",
            Self::Remote { code, .. } => code,
        }
    }

    /// The wire form.
    #[must_use]
    pub fn body(&self) -> ErrorBody {
        ErrorBody { code: self.code().to_owned(), message: self.to_string() }
    }
}

/// `{code, message}` as it travels in an `invocationresult`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ErrorBody {
    /// Machine-readable code.
    #[serde(default)]
    pub code: String,
    /// A sentence for people.
    #[serde(default)]
    pub message: String,
}
