//! Call errors and their codes on the wire.

use std::{borrow::Cow, time::Duration};

use serde::{Deserialize, Serialize};
use skills_core::{Code, Coded};

/// Failure of a call on the bus.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// No worker has registered the function.
    #[error("Function {0} not found")]
    NotFound(String),
    /// The worker disconnected before it answered.
    #[error("Invocation stopped: the worker that serves {0} disconnected before it answered")]
    Stopped(String),
    /// The worker did not answer in time.
    #[error("{function_id} did not answer within {} ms", after.as_millis())]
    Timeout {
        /// The called function.
        function_id: String,
        /// The caller's timeout.
        after: Duration,
    },
    /// The message exceeds the receiver's limit.
    #[error("{0}")]
    PayloadTooLarge(String),
    /// The worker does not read its messages, and its queue is full.
    #[error("the worker that serves {0} does not read its messages; its queue is full")]
    Congested(String),
    /// Only the worker that registered the function may call it.
    #[error("{0} is private to the worker that registered it")]
    Private(String),
    /// There is no connection to the bus; the call was not sent.
    #[error("no connection to the bus; {0} was not called")]
    Disconnected(String),
    /// The callee, or the bus, answered with an error.
    #[error("{message}")]
    Remote {
        /// Code for machines.
        code: String,
        /// Message for people.
        message: String,
    },
}

impl CallError {
    /// Creates an error with any code.
    pub fn remote(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Remote { code: code.into(), message: message.into() }
    }

    /// Creates the error of a call to a function that can only be observed.
    #[must_use]
    pub fn not_callable(function_id: &str) -> Self {
        Self::remote(Code::NotCallable, format!("{function_id} cannot be called, only observed"))
    }

    /// Returns the wire form.
    #[must_use]
    pub fn body(&self) -> ErrorBody {
        ErrorBody { code: self.code_text().into_owned(), message: self.to_string() }
    }
}

impl Coded for CallError {
    fn code(&self) -> Code {
        match self {
            Self::NotFound(_) => Code::FunctionNotFound,
            Self::Stopped(_) => Code::InvocationStopped,
            Self::Timeout { .. } => Code::Timeout,
            Self::PayloadTooLarge(_) => Code::PayloadTooLarge,
            Self::Congested(_) => Code::ChannelSendFailed,
            Self::Private(_) => Code::Forbidden,
            Self::Disconnected(_) => Code::NotConnected,
            Self::Remote { code, .. } => Code::from_remote(code),
        }
    }

    fn code_text(&self) -> Cow<'_, str> {
        match self {
            Self::Remote { code, .. } => code.into(),
            _ => self.code().as_str().into(),
        }
    }
}

/// Error `{code, message}` of an `invocationresult` frame.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ErrorBody {
    /// Code for machines.
    #[serde(default)]
    pub code: String,
    /// Message for people.
    #[serde(default)]
    pub message: String,
}
