//! Call errors and their codes on the wire.

use std::{borrow::Cow, time::Duration};

use serde_json::Value;
use skills_core::{Code, Coded, UNKNOWN_OUTCOME};

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
    /// The callee does not know whether it stored what it was to store.
    #[error("{message}")]
    OutcomeUnknown {
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
        let is_outcome_unknown = self.is_outcome_unknown();
        ErrorBody {
            code: self.code_text().into_owned(),
            message: self.to_string(),
            is_outcome_unknown,
        }
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
            Self::Remote { code, .. } | Self::OutcomeUnknown { code, .. } => {
                Code::from_remote(code)
            }
        }
    }

    fn code_text(&self) -> Cow<'_, str> {
        match self {
            Self::Remote { code, .. } | Self::OutcomeUnknown { code, .. } => code.into(),
            _ => self.code().as_str().into(),
        }
    }

    fn is_outcome_unknown(&self) -> bool {
        matches!(self, Self::OutcomeUnknown { .. })
    }
}

/// Error `{code, message}` of an `invocationresult` frame, with `details` if it leaves open whether a write was stored.
#[derive(Debug, Clone, Default)]
pub struct ErrorBody {
    /// Code for machines.
    pub code: String,
    /// Message for people.
    pub message: String,
    /// The details are those of an unknown outcome. Other details are not passed on.
    pub is_outcome_unknown: bool,
}

/// Returns whether the details of an error are those of an unknown outcome.
#[must_use]
pub fn is_outcome_unknown(details: &Value) -> bool {
    let (name, value) = UNKNOWN_OUTCOME;
    details[name] == value
}

impl From<ErrorBody> for CallError {
    fn from(error: ErrorBody) -> Self {
        let ErrorBody { code, message, is_outcome_unknown } = error;
        if is_outcome_unknown {
            Self::OutcomeUnknown { code, message }
        } else {
            Self::Remote { code, message }
        }
    }
}
