//! Tools as their authors describe them: two formats, one [`SkillSpec`].
//!
//! - `unified`: the JSON format; `json_text` reads it with an eye on doubled keys
//! - `markdown`: the legacy format; `sections` and `section` find its parts in one pass
//! - `implementation`, `fields`: what both have in common
//! - `check`, `endpoint`, `credentials`: what makes a manifest fit to be stored and shown
//! - `readable`, `tool_name`: how a tool looks to people and what models call it
//!
//! Strict is for what is written now: anything wrong refuses it. Lenient is for what was stored elsewhere: a
//! default is used, as the readers of those stores always did. Either way everything is reported. Where a
//! manifest is stored, and what its placeholders mean, is not known here.

mod check;
mod credentials;
mod diagnostic;
mod endpoint;
mod escape;
mod fields;
mod implementation;
mod json_text;
mod markdown;
mod readable;
mod section;
mod sections;
mod spec;
mod tool_name;
mod unified;

use serde_json::Value;

use self::diagnostic::Report;
pub use self::{
    check::{METHODS, is_of_connection},
    credentials::{REDACTED, is_credential_header},
    diagnostic::{Diagnostic, Severity},
    readable::readable,
    spec::{Docs, OnWire, SkillSpec, UNKNOWN_NAME},
    tool_name::{MAX_TOOL_NAME_BYTES, tool_name},
};
use crate::{SkillId, limits::MAX_MANIFEST_BYTES, markdown::without_bom, pointer::At};

/// How many manifests may stand inside each other.
const MAX_NESTING: usize = 3;

/// What happens to a manifest with errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// It is refused.
    Strict,
    /// It is read as far as it goes.
    Lenient,
}

/// In which format a manifest is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// One JSON object.
    Json,
    /// Markdown with blocks of JSON and YAML.
    Markdown,
}

/// A manifest that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Parsed {
    /// The tool.
    pub spec: SkillSpec,
    /// How it was written.
    pub format: Format,
    /// Everything there is to say about it; in strict mode there is no error among it.
    pub diagnostics: Vec<Diagnostic>,
}

/// Why there is no tool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// It is larger than allowed.
    #[error("manifest too large: {len} bytes, at most {MAX_MANIFEST_BYTES} are allowed")]
    TooLarge {
        /// Its size in bytes.
        len: usize,
    },
    /// It has errors, and is read strictly.
    #[error("the manifest is refused: {}", first_error(.diagnostics))]
    Refused {
        /// Everything that was found, errors among it.
        diagnostics: Vec<Diagnostic>,
    },
}

impl ManifestError {
    /// A stable code for machines.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::TooLarge { .. } => "too_large",
            Self::Refused { .. } => "invalid_manifest",
        }
    }

    /// Everything that was found before the manifest was refused.
    #[must_use]
    pub fn diagnostics(&self) -> &[Diagnostic] {
        match self {
            Self::TooLarge { .. } => &[],
            Self::Refused { diagnostics } => diagnostics,
        }
    }
}

fn first_error(diagnostics: &[Diagnostic]) -> String {
    let mut errors = diagnostics.iter().filter(|found| found.severity == Severity::Error);
    let first = errors.next().map(ToString::to_string).unwrap_or_default();
    match errors.count() {
        0 => first,
        more => format!("{first} (and {more} more)"),
    }
}

/// Reads a manifest. `entry` is the id it is stored under, where that is known: the manifest must not
/// contradict it.
///
/// # Errors
/// When it is larger than [`MAX_MANIFEST_BYTES`]; in strict mode, when anything is wrong with it.
pub fn parse(text: &str, mode: Mode, entry: Option<&SkillId>) -> Result<Parsed, ManifestError> {
    if text.len() > MAX_MANIFEST_BYTES {
        return Err(ManifestError::TooLarge { len: text.len() });
    }
    let mut report = Report::default();
    let reading = Reading { mode, depth: 0, is_embedded: false };
    let found = read(text, reading, &mut report).map(|(mut spec, format)| {
        settle_name(&mut spec, entry, &mut report);
        (spec, format)
    });
    match found {
        Some((spec, format)) if mode == Mode::Lenient || !report.has_error() => {
            Ok(Parsed { spec, format, diagnostics: report.into_diagnostics() })
        }
        _ => Err(ManifestError::Refused { diagnostics: report.into_diagnostics() }),
    }
}

/// How a text is read.
#[derive(Clone, Copy)]
struct Reading {
    mode: Mode,
    /// How many manifests it stands in.
    depth: usize,
    /// Whether it is a part of another manifest, which is judged as a whole.
    is_embedded: bool,
}

impl Reading {
    /// For a text inside the text; `None` when that is too deep.
    fn inside(self) -> Option<Self> {
        (self.depth < MAX_NESTING).then_some(Self { depth: self.depth + 1, ..self })
    }

    /// For a part of the manifest that is a text of its own.
    fn embedded(self) -> Option<Self> {
        self.inside().map(|inner| Self { is_embedded: true, ..inner })
    }
}

/// Reads a text in whichever format it is; `None` when strictly it is in none.
fn read(text: &str, reading: Reading, report: &mut Report) -> Option<(SkillSpec, Format)> {
    if text.len() > without_bom(text).len() {
        report.note("byte_order_mark", "", "the byte order mark is not part of the manifest");
    }
    let text = without_bom(text);
    if text.trim_start().starts_with('{') {
        match json_text::read(text, At::Root, report) {
            Ok(Value::Object(root)) => {
                return Some((unified::read(&root, reading, report), Format::Json));
            }
            Ok(_) => {}
            Err(error) => {
                let at = format!("{}:{}", error.line().max(1), error.column().max(1));
                report.error("invalid_json", at, format!("the manifest is not JSON: {error}"));
                if reading.mode == Mode::Strict {
                    return None;
                }
            }
        }
    } else if let Some((inner, reading)) = quoted(text).zip(reading.inside()) {
        report.note("string_literal", "", "the manifest is a JSON text that holds a manifest");
        return read(&inner, reading, report);
    }
    Some((markdown::read(text, reading, report), Format::Markdown))
}

/// What a JSON text holds, when the whole manifest is one: that is how a store keeps Markdown it was given
/// as a value.
fn quoted(text: &str) -> Option<String> {
    text.trim_start().starts_with('"').then(|| serde_json::from_str(text).ok()).flatten()
}

/// What a tool is called, and whether that is where it is stored.
fn settle_name(spec: &mut SkillSpec, entry: Option<&SkillId>, report: &mut Report) {
    match (&spec.id, entry) {
        (Some(id), Some(entry)) if id != entry.as_str() => {
            let message = format!("the manifest is of another tool: it is stored under {entry}");
            report.error("id_mismatch", "/id", message);
            spec.name = entry.to_string();
        }
        (Some(id), None) => {
            if let Err(error) = id.parse::<SkillId>() {
                report.error("invalid_id", "/id", error.to_string());
            }
        }
        _ => {}
    }
    if let Some(entry) = entry {
        spec.id = Some(entry.to_string());
    }
    if spec.name == UNKNOWN_NAME {
        match entry {
            Some(entry) => spec.name = entry.to_string(),
            None => report.error("missing_name", "", "the tool has neither an id nor a name"),
        }
    }
    if spec.description.is_empty() {
        let message = "there is no description, so nobody knows when to use the tool";
        report.warning("missing_description", "", message);
    }
}

#[cfg(test)]
mod tests;
