//! What the specification of Agent Skills thinks of a bundle.
//!
//! - `rules`: every rule with its code, its level in both modes and its hint
//! - `document`: encoding, frontmatter, YAML
//! - `name`, `fields`, `extensions`: what the fields may hold
//! - `body`, `links`, `scan`: advice, and what a reader should know before trusting a skill
//! - `findings`: how findings become a report
//!
//! Strict is for publishing: what the specification says is an error. Lenient is for loading, as the client
//! guide prescribes: what a client can live with is a warning. A valid document may still be given advice.
//! Nothing is read from a disk here, and every scanner takes time in proportion to the document.

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

pub use self::rules::{ALL as RULES, Rule};
use crate::frontmatter::{Alphabet, Fields};

/// Longest description, in characters.
pub const MAX_DESCRIPTION_CHARS: usize = 1024;
/// Longest compatibility note, in characters.
pub const MAX_COMPATIBILITY_CHARS: usize = 500;
/// More lines than this in a body deserve a file of their own.
pub const MAX_BODY_LINES: usize = 500;
/// The same in tokens.
pub const MAX_BODY_TOKENS: usize = 5000;

/// What is judged.
#[derive(Debug, Clone, Copy)]
pub struct Bundle<'a> {
    /// The name of the folder, where there is one.
    pub directory: Option<&'a str>,
    /// The bytes of its SKILL.md.
    pub document: &'a [u8],
    /// The paths of all its files, with forward slashes; `None` when they are not known.
    pub files: Option<&'a [String]>,
}

/// How it is judged.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// For publishing or for loading.
    pub mode: Mode,
    /// Which letters names may have.
    pub names: Alphabet,
}

/// What the verdict is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Publishing: the specification.
    #[default]
    Strict,
    /// Loading: the client guide.
    Lenient,
}

/// How much a finding weighs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// The bundle is refused.
    Error,
    /// It is kept; something is wrong, or should be looked at.
    Warning,
    /// It could be better.
    Advice,
}

impl Level {
    /// As it is shown.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Advice => "advice",
        }
    }
}

/// One thing that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How much it weighs.
    pub level: Level,
    /// Which rule, for machines.
    pub code: &'static str,
    /// Line in the document, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What it is, in a sentence.
    pub message: String,
    /// What to do about it.
    pub hint: String,
}

/// Everything that was found, in the order of the document.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Report {
    /// The findings.
    pub findings: Vec<Finding>,
}

impl Report {
    /// Whether there is no error.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.count(Level::Error) == 0
    }

    /// How many findings have a level.
    #[must_use]
    pub fn count(&self, level: Level) -> usize {
        self.findings.iter().filter(|finding| finding.level == level).count()
    }
}

/// Judges a bundle.
#[must_use]
pub fn validate(bundle: Bundle<'_>, options: Options) -> Report {
    examine(bundle, options).0
}

/// Judges a bundle, and tells the fields of its frontmatter, if it has any that can be read.
#[must_use]
pub fn examine(bundle: Bundle<'_>, options: Options) -> (Report, Option<Fields>) {
    let mut findings = findings::Findings::new(options.mode);
    let fields = document::check(bundle, options, &mut findings);
    (findings.into_report(bundle.document), fields)
}

#[cfg(test)]
mod tests;
