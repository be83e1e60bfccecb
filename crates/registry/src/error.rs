//! What the registry answers when it cannot do what was asked.

use std::{sync::Arc, time::Duration};

use skills_bus::CallError;
use skills_core::{Kind, OutputError, RuleError, Tier, schema::Violation};
use skills_store::{BatchError, StoreError};

use crate::{ExecuteError, arguments::sentence, live::LiveError};

/// The one error type of the registry. Every surface maps it once.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RegistryError {
    /// The input breaks a rule.
    #[error(transparent)]
    Rule(#[from] RuleError),
    /// There is no such entry.
    #[error("{} not found: {id}", kind.as_str())]
    NotFound {
        /// What was looked for.
        kind: Kind,
        /// Under which id or name.
        id: String,
    },
    /// The function behind a section or a prompt did not give a result.
    #[error("{function_id} {problem}")]
    Handler {
        /// The function.
        function_id: String,
        /// What happened.
        problem: HandlerProblem,
    },
    /// The function behind a prompt gave a result that is not a prompt.
    #[error("{function_id}: {source}")]
    Output {
        /// The function.
        function_id: String,
        /// What it returned instead.
        source: OutputError,
    },
    /// The store could not be read or written; nothing was changed.
    #[error(transparent)]
    Store(Arc<StoreError>),
    /// What is stored of an entry cannot be read. It still shadows what is in the tiers below: an entry that
    /// is damaged must not be replaced by another in silence.
    #[error("{} {id} ({tier}) is corrupt: {reason}", kind.as_str())]
    CorruptEntry {
        /// What it is.
        kind: Kind,
        /// Where it is stored.
        tier: Tier,
        /// Under which id or name.
        id: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A live client gave nothing.
    #[error(transparent)]
    Live(#[from] LiveError),
    /// A skill that has no manifest.
    #[error("{0} is not a tool: it has no manifest")]
    NotATool(String),
    /// What a tool is called with does not fit what it takes.
    #[error("the arguments do not fit {id}: {}", sentence(violations))]
    Arguments {
        /// The tool.
        id: String,
        /// Everything that does not fit.
        violations: Vec<Violation>,
    },
    /// A tool was called, or was not, and has no result.
    #[error(transparent)]
    Execute(#[from] Box<ExecuteError>),
    /// Nobody here can call tools.
    #[error("tools cannot be called here: this registry is not that of a server")]
    NoExecutor,
    /// A private layer was named, and nobody whose it would be.
    #[error("private entries belong to somebody, and no key tells to whom")]
    KeyNeeded,
    /// What was presented as a key is none.
    #[error("the key is unknown: it was never issued, or it is revoked or expired")]
    UnknownKey,
    /// The place where content is kept cannot do this.
    #[error("{0}")]
    Unsupported(&'static str),
    /// More is waiting to be written than fits in memory.
    #[error("too many writes are waiting; try again")]
    Overloaded,
    /// A store did something else than it was asked to.
    #[error("the store did not carry out {0} as it should")]
    Unexpected(&'static str),
    /// The registry is shutting down.
    #[error("the registry is shutting down")]
    Closed,
    /// Sections and prompts need a bus with workers on it.
    #[error("{function_id} cannot be called: the data directory was opened without a bus")]
    NoBus {
        /// The function.
        function_id: String,
    },
    /// A registry on the other end of a bus said no.
    #[error("{message}")]
    Remote {
        /// Its code.
        code: String,
        /// Its words.
        message: String,
    },
}

/// Why a handler gave no result. Each says which of the ways it was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HandlerProblem {
    /// It took too long.
    #[error("timed out after {} ms", .0.as_millis())]
    TimedOut(Duration),
    /// Nobody serves it.
    #[error("is not registered on the bus; is its worker connected?")]
    NotRegistered,
    /// Its worker went away.
    #[error("disconnected before it answered")]
    Disconnected,
    /// It answered with an error.
    #[error("failed: {message} ({code})")]
    Failed {
        /// The worker's code.
        code: String,
        /// The worker's words.
        message: String,
    },
}

impl RegistryError {
    /// The error of a call that was made on behalf of a reader.
    pub(crate) fn from_call(function_id: &str, error: CallError) -> Self {
        let problem = match error {
            CallError::Timeout { after, .. } => HandlerProblem::TimedOut(after),
            CallError::NotFound(_) => HandlerProblem::NotRegistered,
            CallError::Stopped(_) => HandlerProblem::Disconnected,
            other => {
                HandlerProblem::Failed { code: other.code().to_owned(), message: other.to_string() }
            }
        };
        Self::Handler { function_id: function_id.to_owned(), problem }
    }

    /// The other end of a bus said something that the contract does not have.
    pub(crate) fn unexpected_answer(message: String) -> Self {
        Self::Remote { code: "unexpected_answer".to_owned(), message }
    }

    /// A stable code for machines.
    #[must_use]
    pub fn code(&self) -> &str {
        match self {
            Self::Rule(rule) => rule.code(),
            Self::NotFound { .. } => "not_found",
            Self::Handler { problem, .. } => match problem {
                HandlerProblem::TimedOut(_) => "handler_timeout",
                HandlerProblem::NotRegistered => "handler_not_registered",
                HandlerProblem::Disconnected => "handler_disconnected",
                HandlerProblem::Failed { .. } => "handler_failed",
            },
            Self::Output { .. } => "handler_output",
            Self::Store(error) => error.code(),
            Self::CorruptEntry { .. } => "corrupt_entry",
            Self::Live(error) => error.code,
            Self::NotATool(_) => "not_a_tool",
            Self::Arguments { .. } => "invalid_arguments",
            Self::Execute(error) => &error.code,
            Self::NoExecutor => "no_executor",
            Self::KeyNeeded => "key_needed",
            Self::UnknownKey => "unknown_key",
            Self::Unsupported(_) => "unsupported",
            Self::Overloaded => "overloaded",
            Self::Unexpected(_) => "internal",
            Self::Closed => "shutting_down",
            Self::NoBus { .. } => "no_bus",
            Self::Remote { code, .. } => code,
        }
    }

    /// What the caller can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Store(error) => error.hint(),
            Self::Execute(error) => error.hint.as_deref(),
            Self::NoExecutor => Some("start `skills serve` and ask that server"),
            Self::CorruptEntry { .. } => Some("register it again, or remove it"),
            Self::KeyNeeded => Some("give a key of the user, which begins with us-"),
            Self::NoBus { .. } => {
                Some("start `skills serve`, connect the worker that serves it, and ask that server")
            }
            _ => None,
        }
    }
}

impl From<BatchError> for RegistryError {
    fn from(error: BatchError) -> Self {
        let message = error.to_string();
        match error {
            BatchError::Failed { code, .. } => Self::Remote { code, message },
            BatchError::Conflict { .. } => Self::Remote { code: "conflict".to_owned(), message },
        }
    }
}

impl From<StoreError> for RegistryError {
    fn from(error: StoreError) -> Self {
        Self::Store(Arc::new(error))
    }
}
