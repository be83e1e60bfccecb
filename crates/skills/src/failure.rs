//! How an error is shown: a sentence, a code for machines, and what to do about it.

use anstyle::{AnsiColor, Style};
use serde_json::{Value, json};
use skills_bundles::BundleError;
use skills_bus::ClientError;
use skills_http::BadRule;
use skills_registry::RegistryError;
use skills_vault::{MasterKeyError, VaultError};

/// Why a command failed.
#[derive(Debug, PartialEq, Eq)]
pub struct Failure {
    /// Stable, for machines.
    pub code: String,
    /// What went wrong.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Failure {
    /// A failure without a hint.
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Self { code: code.to_owned(), message: message.into(), hint: None }
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Code, message and hint, as machines get them.
    pub(crate) fn to_json(&self) -> Value {
        let Self { code, message, hint } = self;
        let mut error = json!({ "code": code, "message": message });
        if let Some(hint) = hint {
            error["hint"] = json!(hint);
        }
        error
    }

    /// Prints it on stderr, where it does not get into the way of an answer.
    pub fn print(&self, json: bool) {
        let Self { message, hint, .. } = self;
        if json {
            anstream::eprintln!("{}", json!({ "error": self.to_json() }));
            return;
        }
        let red = Style::new().bold().fg_color(Some(AnsiColor::Red.into()));
        let bold = Style::new().bold();
        anstream::eprintln!("{red}error:{red:#} {message}");
        if let Some(hint) = hint {
            anstream::eprintln!("{bold}hint:{bold:#} {hint}");
        }
    }
}

impl From<RegistryError> for Failure {
    fn from(error: RegistryError) -> Self {
        let failure = Self::new(error.code(), error.to_string());
        match error.hint() {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}

impl From<VaultError> for Failure {
    fn from(error: VaultError) -> Self {
        let failure = Self::new(error.code(), error.to_string());
        match error.hint() {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}

impl From<MasterKeyError> for Failure {
    fn from(error: MasterKeyError) -> Self {
        Self::new(error.code(), error.to_string())
            .hint("`openssl rand -hex 32` makes one that can be used")
    }
}

impl From<BundleError> for Failure {
    fn from(error: BundleError) -> Self {
        // Names of files may hold anything.
        let failure = Self::new(error.code(), crate::output::plain(&error.to_string()));
        match error.hint() {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}

impl From<BadRule> for Failure {
    fn from(error: BadRule) -> Self {
        Self::new(error.code(), error.to_string()).hint(error.hint())
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let (code, hint) = match &error {
            ClientError::BadUrl { .. } => ("bad_url", "a bus URL looks like ws://127.0.0.1:49134"),
            ClientError::Unreachable { .. } => {
                ("unreachable", "start one with `skills serve`, or name another with --url")
            }
            ClientError::Unauthorized { .. } => {
                ("unauthorized", "give its token with --token or III_TOKEN")
            }
        };
        Self::new(code, error.to_string()).hint(hint)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::new("io", error.to_string())
    }
}
