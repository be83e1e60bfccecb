//! Errors of the registry.

use std::{borrow::Cow, sync::Arc, time::Duration};

use skills_bus::CallError;
use skills_core::{Code, Coded, EntryKind, OutputError, RuleError, Tier, VersionError, WorkError};
use skills_store::{BatchError, StoreError};

use crate::live::{LiveError, LiveOperation};

/// Error type of the registry. Every surface maps it once.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RegistryError {
    /// The input breaks a rule.
    #[error(transparent)]
    Rule(#[from] RuleError),
    /// There is no such entry.
    #[error("{} not found: {id}", kind.as_str())]
    NotFound {
        /// Kind of the entry.
        kind: EntryKind,
        /// Id or name.
        id: String,
    },
    /// A version, a label or a condition on them stands in the way.
    #[error(transparent)]
    Version(Box<VersionError>),
    /// The function behind a section or a prompt failed.
    #[error("{function_id} {problem}")]
    Handler {
        /// Function id.
        function_id: String,
        /// Kind of failure.
        problem: HandlerProblem,
    },
    /// The section is neither linked by its skill nor exposed by its function.
    #[error("{uri} is not linked by the skill, and its function is not exposed")]
    SectionNotLinked {
        /// URI of the section.
        uri: String,
    },
    /// The function behind a prompt returned no prompt.
    #[error("{function_id}: {source}")]
    Output {
        /// Function id.
        function_id: String,
        /// Difference to a prompt.
        source: OutputError,
    },
    /// The store could not be read or written; nothing was changed.
    #[error(transparent)]
    Store(Arc<StoreError>),
    /// The store that several servers share cannot be reached; nothing was changed.
    #[error("the store cannot be reached: {reason}")]
    StoreUnreachable {
        /// Reason.
        reason: String,
    },
    /// The store that several servers share cannot be reached, and the catalog is older than allowed.
    #[error("the store cannot be reached, and the catalog is older than max_stale")]
    CatalogTooOld,
    /// A stored entry cannot be read. It still shadows entries of lower tiers: another entry must not silently replace
    /// a damaged one.
    #[error("{} {id} ({tier}) is corrupt: {reason}", kind.as_str())]
    CorruptEntry {
        /// Kind of the entry.
        kind: EntryKind,
        /// Tier.
        tier: Tier,
        /// Id or name.
        id: String,
        /// Damage.
        reason: String,
    },
    /// A live client failed.
    #[error(transparent)]
    Live(#[from] LiveError),
    /// The arguments of an operation on live clients do not fit it.
    #[error("invalid input for {}: {reason}", operation.function_id())]
    LiveArguments {
        /// The operation.
        operation: LiveOperation,
        /// The first argument that does not fit, and why.
        reason: String,
    },
    /// The skill has no manifest.
    #[error("{0} is not a tool: it has no manifest")]
    NotATool(String),
    /// A private entry was requested without a key.
    #[error("private entries belong to a user, and the request has no key")]
    KeyNeeded,
    /// The key is not active.
    #[error("the key is unknown: it was never issued, or it is revoked or expired")]
    UnknownKey,
    /// The store or the remote registry does not support the operation.
    #[error("{0}")]
    Unsupported(&'static str),
    /// The queue of the writer thread is full, or the caller has no memory or thread free for its work.
    #[error("too many or too large requests are in progress; try again in a moment")]
    Overloaded,
    /// A panic interrupted the write.
    #[error("an internal error interrupted the write; it is not known whether it was stored")]
    OutcomeUnknown,
    /// The writer thread ended after a panic.
    #[error("writes are not possible: the writer thread stopped after an internal error")]
    WriterStopped,
    /// The store returned an unexpected result.
    #[error("unexpected result of {0}")]
    Unexpected(&'static str),
    /// The registry is shutting down.
    #[error("the registry is shutting down")]
    Closed,
    /// Sections and prompts need a bus.
    #[error("{function_id} cannot be called: the data directory was opened without a bus")]
    NoBus {
        /// Function id.
        function_id: String,
    },
    /// A remote registry or store refused the request.
    #[error("{message}")]
    Remote {
        /// Its error code.
        code: String,
        /// Its message.
        message: String,
    },
}

/// Failure of a handler.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HandlerProblem {
    /// Time limit exceeded.
    #[error("timed out after {} ms", .0.as_millis())]
    TimedOut(Duration),
    /// No worker serves the function.
    #[error("is not registered on the bus; is its worker connected?")]
    NotRegistered,
    /// A worker of another server on the same store serves the function.
    #[error("is connected to the server {server}, not to this one")]
    Elsewhere {
        /// Name of that server.
        server: String,
    },
    /// The worker disconnected during the call.
    #[error("disconnected before it answered")]
    Disconnected,
    /// Only the registering worker may call the function.
    #[error("is private to the worker that registered it")]
    Private,
    /// The worker returned an error.
    #[error("failed: {message} ({code})")]
    Failed {
        /// Error code of the worker.
        code: String,
        /// Message of the worker.
        message: String,
    },
}

impl RegistryError {
    /// Converts the error of a call that was made on behalf of a client.
    pub(crate) fn from_call(function_id: &str, error: CallError) -> Self {
        let problem = match error {
            CallError::Timeout { after, .. } => HandlerProblem::TimedOut(after),
            CallError::NotFound(_) => HandlerProblem::NotRegistered,
            CallError::Stopped(_) => HandlerProblem::Disconnected,
            CallError::Private(_) => HandlerProblem::Private,
            other => HandlerProblem::Failed {
                code: other.code_text().into_owned(),
                message: other.to_string(),
            },
        };
        Self::Handler { function_id: function_id.to_owned(), problem }
    }

    /// Creates the error of a key that cannot be looked up at the moment.
    #[must_use]
    pub fn keys_unavailable() -> Self {
        let message = "the key cannot be looked up while the database cannot be reached".to_owned();
        let code = Code::StoreUnavailable.as_str().to_owned();
        StoreError::Unavailable { code, message }.into()
    }

    /// Converts the error of a function that a remote registry serves.
    #[must_use]
    pub fn from_remote(error: &CallError) -> Self {
        let message = error.to_string();
        if error.is_outcome_unknown() && error.code() == Code::StoreUnavailable {
            return StoreError::OutcomeUnknown(message).into();
        }
        Self::Remote { code: error.code_text().into_owned(), message }
    }

    /// Creates the error for a result that breaks the contract of the bus functions.
    #[must_use]
    pub fn unexpected_answer(message: String) -> Self {
        Self::Remote { code: Code::UnexpectedAnswer.into(), message }
    }
}

impl Coded for RegistryError {
    fn code(&self) -> Code {
        match self {
            Self::Rule(rule) => rule.code(),
            Self::NotFound { .. } => Code::NotFound,
            Self::Version(error) => error.code(),
            Self::Handler { problem, .. } => match problem {
                HandlerProblem::TimedOut(_) => Code::HandlerTimeout,
                HandlerProblem::NotRegistered => Code::HandlerNotRegistered,
                HandlerProblem::Elsewhere { .. } => Code::Elsewhere,
                HandlerProblem::Disconnected => Code::HandlerDisconnected,
                HandlerProblem::Private => Code::PrivateFunction,
                HandlerProblem::Failed { .. } => Code::HandlerFailed,
            },
            Self::SectionNotLinked { .. } => Code::SectionNotLinked,
            Self::Output { .. } => Code::HandlerOutput,
            Self::Store(error) => error.code(),
            Self::StoreUnreachable { .. } | Self::CatalogTooOld => Code::StoreUnavailable,
            Self::CorruptEntry { .. } => Code::CorruptEntry,
            Self::Live(error) => error.code,
            Self::LiveArguments { .. } => Code::InvalidInput,
            Self::NotATool(_) => Code::NotATool,
            Self::KeyNeeded => Code::KeyNeeded,
            Self::UnknownKey => Code::UnknownKey,
            Self::Unsupported(_) => Code::Unsupported,
            Self::Overloaded => Code::Overloaded,
            Self::OutcomeUnknown => Code::OutcomeUnknown,
            Self::WriterStopped => Code::WriterStopped,
            Self::Unexpected(_) => Code::Internal,
            Self::Closed => Code::ShuttingDown,
            Self::NoBus { .. } => Code::NoBus,
            Self::Remote { code, .. } => Code::from_remote(code),
        }
    }

    fn code_text(&self) -> Cow<'_, str> {
        match self {
            Self::Store(error) => error.code_text(),
            Self::Remote { code, .. } => code.into(),
            _ => self.code().as_str().into(),
        }
    }

    fn hint(&self) -> Option<&str> {
        match self {
            Self::Store(error) => error.hint(),
            Self::StoreUnreachable { .. } | Self::CatalogTooOld => {
                Some("try again when the database is back")
            }
            Self::Version(error) => error.hint(),
            Self::OutcomeUnknown => Some("read the entry, and write it again if it was not stored"),
            Self::WriterStopped => Some("restart the server; acknowledged writes are stored"),
            Self::CorruptEntry { .. } => Some("register it again, or remove it"),
            Self::KeyNeeded => Some("pass a key of the user, which begins with us-"),
            Self::SectionNotLinked { .. } => Some(
                "link it in the skill's document, set `mcp.expose` in the function's metadata, or set `sections: any` in the configuration",
            ),
            Self::Handler { problem: HandlerProblem::Elsewhere { .. }, .. } => {
                Some("ask that server, or connect a worker to this one too")
            }
            Self::NoBus { .. } => {
                Some("start `skills serve`, connect the worker that serves it, and ask that server")
            }
            _ => None,
        }
    }

    fn is_outcome_unknown(&self) -> bool {
        match self {
            Self::Store(error) => error.is_outcome_unknown(),
            _ => self.code() == Code::OutcomeUnknown,
        }
    }
}

impl From<WorkError> for RegistryError {
    fn from(error: WorkError) -> Self {
        match error {
            WorkError::OverBudget(_) | WorkError::Busy => Self::Overloaded,
            WorkError::Panicked(name) => Self::Unexpected(name),
        }
    }
}

impl From<BatchError> for RegistryError {
    fn from(error: BatchError) -> Self {
        let message = error.to_string();
        match error {
            BatchError::Version(error) => error.into(),
            BatchError::Failed { code, .. } => Self::Remote { code, message },
            BatchError::OutcomeUnknown(_) => StoreError::OutcomeUnknown(message).into(),
            BatchError::Conflict { .. } => Self::Remote { code: Code::Conflict.into(), message },
        }
    }
}

impl From<VersionError> for RegistryError {
    fn from(error: VersionError) -> Self {
        Self::Version(Box::new(error))
    }
}

impl From<StoreError> for RegistryError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NoHistory(message) => Self::Unsupported(message),
            error => Self::Store(Arc::new(error)),
        }
    }
}
