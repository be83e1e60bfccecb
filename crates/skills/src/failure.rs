//! Errors of commands: a message, a stable code, and a hint.

use anstyle::{AnsiColor, Style};
use serde_json::{Value, json};
use skills_bundles::BundleError;
use skills_bus::ClientError;
use skills_core::{Code, Coded, outcome_details};
use skills_engine::AttachError;
use skills_http::AccessRuleError;
use skills_registry::RegistryError;
use skills_transfer::TransferError;
use skills_vault::{AdminSecretTooShort, MasterKeyError, VaultError};

use crate::{
    config::ConfigError,
    output::{error_json, labelled, plain},
};

/// Error of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Stable error code.
    pub code: Code,
    /// Code that another program sent, for [`Code::Remote`].
    pub(crate) remote_code: Option<String>,
    /// Message: what failed, on what, and why.
    pub message: String,
    /// Next step for the user.
    pub hint: Option<String>,
    /// Details for machines.
    pub(crate) details: Option<Box<Value>>,
}

impl Failure {
    /// Creates an error without a hint.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { code, remote_code: None, message, hint: None, details: None }
    }

    /// Creates an error with the code, message and hint of another one.
    pub(crate) fn from_coded(error: &dyn Coded) -> Self {
        let code = error.code();
        let remote_code = (code == Code::Remote).then(|| error.code_text().into_owned());
        let hint = error.hint().map(Into::into);
        let details = outcome_details(error).map(Box::new);
        Self { code, remote_code, message: error.to_string(), hint, details }
    }

    /// Adds a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Returns code, message, hint and details as JSON.
    pub(crate) fn to_json(&self) -> Value {
        let Self { code, remote_code, message, hint, details } = self;
        let code = remote_code.as_deref().unwrap_or(code.as_str());
        let mut error = json!({ "code": code, "message": message });
        if let Some(hint) = hint {
            error["hint"] = json!(hint);
        }
        if let Some(details) = details {
            error["details"] = (**details).clone();
        }
        error
    }

    /// Prints the error on stderr.
    pub fn print(&self, json: bool) {
        let Self { message, hint, .. } = self;
        if json {
            error_json(&json!({ "error": self.to_json() }));
            return;
        }
        let red = Style::new().bold().fg_color(Some(AnsiColor::Red.into()));
        labelled(red, "error", message);
        if let Some(hint) = hint {
            labelled(Style::new().bold(), "hint", hint);
        }
    }
}

macro_rules! from_coded {
    ($($error:ty),*) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::from_coded(&error)
            }
        })*
    };
}

from_coded!(RegistryError, VaultError, MasterKeyError, AdminSecretTooShort, AccessRuleError);
from_coded!(AttachError, ConfigError, TransferError);

impl From<BundleError> for Failure {
    fn from(error: BundleError) -> Self {
        // File names may contain control characters.
        Self { message: plain(&error.to_string()), ..Self::from_coded(&error) }
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let (code, hint) = match &error {
            ClientError::BadUrl { .. } => {
                (Code::BadUrl, "a bus URL looks like ws://127.0.0.1:49134")
            }
            ClientError::Unreachable { .. } => {
                (Code::Unreachable, "start one with `skills serve`, or give another with --url")
            }
            ClientError::Unavailable { code, .. } => {
                (*code, "try again in a moment; the log of the server has the reason")
            }
            ClientError::Unauthorized { .. } => {
                (Code::Unauthorized, "give its token with --token or III_TOKEN")
            }
        };
        Self::new(code, error.to_string()).hint(hint)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::new(Code::Io, error.to_string())
    }
}
