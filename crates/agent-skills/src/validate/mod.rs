//! Validation of a bundle against the Agent Skills specification.
//!
//! - `rules`: every rule with its code, its level in both modes and its hint
//! - `document`: encoding, frontmatter, YAML
//! - `name`, `fields`, `extensions`: values of fields
//! - `body`, `links`, `scan`: advice, and security warnings
//! - `findings`: the collector of findings
//!
//! Strict mode is for publishing: violations of the specification are errors. Lenient mode is for loading, as the client
//! guide prescribes: violations that a client can tolerate are warnings. A valid document may still get advice. Nothing
//! is read from a disk here, and every scanner takes linear time.

mod body;
mod document;
mod extensions;
mod fields;
mod findings;
mod links;
mod name;
mod rules;
mod scan;

use serde::Serialize;

pub use self::{
    rules::{ALL as RULES, Rule},
    scan::reveal_hidden,
};
use crate::frontmatter::{FrontmatterFields, NameAlphabet};

/// Longest compatibility note, in characters.
pub const MAX_COMPATIBILITY_CHARS: usize = 500;
/// More lines than this in a body deserve a file of their own.
pub const MAX_BODY_LINES: usize = 500;
/// More tokens than this in a body deserve a file of their own.
pub const MAX_BODY_TOKENS: usize = 5000;

/// Files of a bundle to validate.
#[derive(Debug, Clone, Copy)]
pub struct BundleFiles<'a> {
    /// Name of the folder, if there is one.
    pub directory: Option<&'a str>,
    /// Bytes of the SKILL.md.
    pub document: &'a [u8],
    /// Paths of all files, with forward slashes; `None` when they are not known.
    pub files: Option<&'a [String]>,
}

/// Validation options.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Purpose of the validation.
    pub mode: ValidationMode,
    /// Alphabet that names may use.
    pub names: NameAlphabet,
}

/// Purpose of a validation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ValidationMode {
    /// Publishing: the specification applies.
    #[default]
    Strict,
    /// Loading: the client guide applies.
    Lenient,
}

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FindingLevel {
    /// Refuses the bundle.
    Error,
    /// Something is wrong or suspicious; the bundle is accepted.
    Warning,
    /// Suggestion for improvement.
    Advice,
}

impl FindingLevel {
    /// Returns the name on the wire and in messages.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Advice => "advice",
        }
    }
}

/// Finding about a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Severity.
    pub level: FindingLevel,
    /// Stable code of the rule.
    pub code: &'static str,
    /// Line in the document, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// Message in one sentence.
    pub message: String,
    /// Suggested fix.
    pub hint: String,
}

/// Findings in document order.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct ValidationReport {
    /// Findings.
    pub findings: Vec<Finding>,
}

impl ValidationReport {
    /// Returns whether the report has no error.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.count(FindingLevel::Error) == 0
    }

    /// Counts the findings of a level.
    #[must_use]
    pub fn count(&self, level: FindingLevel) -> usize {
        self.findings.iter().filter(|finding| finding.level == level).count()
    }
}

/// Validates a bundle.
#[must_use]
pub fn validate(bundle: BundleFiles<'_>, options: Options) -> ValidationReport {
    validate_with_fields(bundle, options).0
}

/// Validates a bundle, and returns the fields of its frontmatter if it can be parsed.
#[must_use]
pub fn validate_with_fields(
    bundle: BundleFiles<'_>,
    options: Options,
) -> (ValidationReport, Option<FrontmatterFields>) {
    let mut findings = findings::Findings::new(options.mode);
    let fields = document::check(bundle, options, &mut findings);
    (findings.into_report(bundle.document), fields)
}

#[cfg(test)]
mod tests;
