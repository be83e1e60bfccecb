//! Diagnostics about a manifest: a stable code, a sentence, and a location.

use std::fmt::{self, Display};

use serde::Serialize;

use crate::schema::truncate;

/// Most diagnostics of one manifest; more are not useful to a reader.
const MAX_DIAGNOSTICS: usize = 64;

/// Severity of a diagnostic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Refuses a new manifest. In an imported one, a default is used.
    Error,
    /// Accepted, but needs attention.
    Warning,
    /// Accepted, in an unusual notation.
    Note,
}

/// Diagnostic about a manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// Stable code of the rule.
    pub code: &'static str,
    /// Severity.
    pub severity: Severity,
    /// Message in one sentence.
    pub message: String,
    /// Location: a JSON pointer into a JSON manifest, `line:column` in a Markdown manifest.
    pub pointer: String,
}

impl Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pointer.as_str() {
            "" => f.write_str(&self.message),
            pointer => write!(f, "{pointer}: {}", self.message),
        }
    }
}

/// Diagnostics in the order of discovery.
#[derive(Debug, Default)]
pub(super) struct Diagnostics {
    found: Vec<Diagnostic>,
    has_error: bool,
}

impl Diagnostics {
    pub(super) fn error(&mut self, code: &'static str, at: impl Display, message: impl Display) {
        self.has_error = true;
        self.push(code, Severity::Error, at, message);
    }

    pub(super) fn warning(&mut self, code: &'static str, at: impl Display, message: impl Display) {
        self.push(code, Severity::Warning, at, message);
    }

    pub(super) fn note(&mut self, code: &'static str, at: impl Display, message: impl Display) {
        self.push(code, Severity::Note, at, message);
    }

    /// Adds the diagnostics of an embedded manifest.
    pub(super) fn embed(&mut self, inner: Self, at: &str) {
        self.has_error |= inner.has_error;
        for found in inner.found {
            self.push(found.code, found.severity, at, found);
        }
    }

    pub(super) const fn has_error(&self) -> bool {
        self.has_error
    }

    pub(super) fn into_diagnostics(self) -> Vec<Diagnostic> {
        self.found
    }

    fn push(
        &mut self,
        code: &'static str,
        severity: Severity,
        at: impl Display,
        message: impl Display,
    ) {
        if self.found.len() < MAX_DIAGNOSTICS {
            // Both may hold names that the author chose.
            let (pointer, message) = (truncate(&at.to_string()), truncate(&message.to_string()));
            self.found.push(Diagnostic { code, severity, message, pointer });
        }
    }
}
