//! Errors of execution.

use std::borrow::Cow;

use serde_json::Value;
use skills_core::{Code, Coded};
use skills_manifest::{ManifestError, schema::Violation};
use skills_registry::RegistryError;
use skills_upstream::UpstreamError;
use skills_vault::VaultError;

/// Failure of a tool call. Every surface maps it once.
#[derive(Debug, thiserror::Error)]
pub enum ExecuteError {
    /// The name resolves to no tool, or the registry cannot be read.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The stored manifest is invalid.
    #[error(transparent)]
    Manifest(ManifestError),
    /// The arguments do not match the tool's schema.
    #[error("the arguments do not fit {id}: {}", summary(violations))]
    Arguments {
        /// Id of the tool.
        id: String,
        /// All violations of the schema.
        violations: Vec<Violation>,
    },
    /// The tool needs secrets, and the caller has no key.
    #[error("the tool needs secrets of a user, and the call has no key: {}", secrets.join(", "))]
    SecretsNeedKey {
        /// Names of the required secrets.
        secrets: Vec<String>,
    },
    /// The caller has no calls left in this minute.
    #[error("Rate limit exceeded. Your tier limit is {limit} RPM.")]
    RateLimited {
        /// Calls per minute.
        limit: u32,
        /// Seconds until the next call is possible.
        retry_after: u64,
    },
    /// The vault refuses, or cannot be read.
    #[error(transparent)]
    Vault(#[from] VaultError),
    /// The request cannot be sent, or the upstream failed.
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
    /// This process has no vault and executes no tools.
    #[error("tools cannot be called here: this registry is not that of a server")]
    NoExecutor,
}

impl ExecuteError {
    /// Returns the list of all problems, for errors that report several.
    #[must_use]
    pub fn details(&self) -> Option<Value> {
        match self {
            Self::Arguments { violations, .. } => serde_json::to_value(violations).ok(),
            Self::Vault(VaultError::MissingSecrets(missing)) => serde_json::to_value(missing).ok(),
            _ => None,
        }
    }
}

impl Coded for ExecuteError {
    fn code(&self) -> Code {
        match self {
            Self::Registry(error) => error.code(),
            Self::Manifest(_) => Code::InvalidImplementation,
            Self::Arguments { .. } => Code::InvalidArguments,
            Self::SecretsNeedKey { .. } => Code::KeyNeeded,
            Self::RateLimited { .. } => Code::RateLimited,
            Self::Vault(error) => error.code(),
            Self::Upstream(error) => error.code(),
            Self::NoExecutor => Code::NoExecutor,
        }
    }

    fn code_text(&self) -> Cow<'_, str> {
        match self {
            Self::Registry(error) => error.code_text(),
            _ => self.code().as_str().into(),
        }
    }

    fn hint(&self) -> Option<&str> {
        match self {
            Self::Registry(error) => error.hint(),
            Self::SecretsNeedKey { .. } => Some("give a key of the user, which begins with us-"),
            Self::Vault(VaultError::MissingSecrets(_)) => Some(
                "set them with PUT /v1/secrets/NAME; a skill of the market has to be granted each, and again when it \
                 calls another server",
            ),
            Self::Vault(error) => error.hint(),
            Self::NoExecutor => Some("start `skills serve` and ask that server"),
            Self::Manifest(_)
            | Self::Arguments { .. }
            | Self::RateLimited { .. }
            | Self::Upstream(_) => None,
        }
    }
}

/// Failure to read the manifest of a skill.
#[derive(Debug, thiserror::Error)]
pub enum ReadManifestError {
    /// The text cannot be read from the store.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The text is no valid manifest.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
}

impl From<ReadManifestError> for ExecuteError {
    fn from(error: ReadManifestError) -> Self {
        match error {
            ReadManifestError::Registry(error) => error.into(),
            ReadManifestError::Manifest(error) => Self::Manifest(error),
        }
    }
}

/// Returns the first violation in a sentence, with the number of further ones.
fn summary(violations: &[Violation]) -> String {
    let Some(Violation { pointer, message }) = violations.first() else { return String::new() };
    let place = if pointer.is_empty() { String::new() } else { format!("{pointer}: ") };
    match violations.len() - 1 {
        0 => format!("{place}{message}"),
        more => format!("{place}{message} (and {more} more)"),
    }
}
