//! What is said about a manifest: a code for machines, a sentence for people, and a place.

use std::fmt::{self, Display};

use serde::Serialize;

use crate::schema::shortened;

/// Most diagnostics of one manifest. One that has more is not read by a person any more.
const MAX_DIAGNOSTICS: usize = 64;

/// How much a diagnostic weighs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// It is wrong. A manifest that is written now is refused; of one that is imported, a default is used.
    Error,
    /// It is accepted, and somebody should look at it.
    Warning,
    /// It is accepted, though it is written in an unusual way.
    Note,
}

/// Something that was found in a manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// Which rule, for machines.
    pub code: &'static str,
    /// How much it weighs.
    pub severity: Severity,
    /// What it is, in a sentence.
    pub message: String,
    /// Where: a JSON pointer into a manifest in JSON, `line:column` in one of Markdown.
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

/// Diagnostics in the order in which they are found.
#[derive(Debug, Default)]
pub(super) struct Report {
    found: Vec<Diagnostic>,
    has_error: bool,
}

impl Report {
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

    /// Takes over what was found in a text inside the manifest.
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
            let (pointer, message) = (shortened(&at.to_string()), shortened(&message.to_string()));
            self.found.push(Diagnostic { code, severity, message, pointer });
        }
    }
}
