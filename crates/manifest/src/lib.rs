//! Tool manifests: two formats, parsed into one [`SkillSpec`].
//!
//! - `unified`: the JSON format; `json_reader` reports duplicate keys
//! - `markdown`: the legacy Markdown format
//! - `implementation`, `fields`: parts that both formats share
//! - `check`, `endpoint`, `credentials`: checks before storing, redaction before showing
//! - `tool_document`, `tool_name`: the generated document of a tool, and its name for models
//! - [`schema`]: JSON Schemas of arguments
//! - [`template`]: text with placeholders, and the secrets that a manifest refers to
//!
//! Strict mode is for new manifests: any error refuses them. Lenient mode is for imported manifests: defaults replace
//! what is wrong, as the readers of other stores do. Both report everything. The storage of manifests is not known here.

mod check;
mod credentials;
mod diagnostic;
mod endpoint;
mod fields;
mod implementation;
mod json_pointer;
mod json_reader;
mod markdown;
mod markdown_escape;
pub mod schema;
mod spec;
pub mod template;
mod tool_document;
mod tool_name;
mod unified;

use serde_json::Value;

use self::diagnostic::Diagnostics;
pub use self::{
    check::{METHODS, is_connection_header},
    credentials::{REDACTED, is_credential_header},
    diagnostic::{Diagnostic, Severity},
    spec::{PublicSpec, SkillSpec, ToolDocs, UNKNOWN_NAME},
    tool_document::tool_document,
    tool_name::{MAX_TOOL_NAME_BYTES, tool_name},
};
use crate::json_pointer::JsonPointer;
use skills_agent_skills::markdown::strip_bom;
use skills_core::{Code, Coded, SkillId, limits::MAX_MANIFEST_BYTES};

/// Most levels of manifests embedded in manifests.
const MAX_NESTING: usize = 3;

/// Handling of a manifest with errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParseMode {
    /// Errors refuse the manifest.
    Strict,
    /// Errors are reported, and defaults are used.
    Lenient,
}

/// Format of a manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ManifestFormat {
    /// One JSON object.
    Json,
    /// Markdown with blocks of JSON and YAML.
    Markdown,
}

/// Parsed manifest.
#[derive(Debug, Clone, PartialEq)]
pub struct ParsedManifest {
    /// Parsed tool.
    pub spec: SkillSpec,
    /// Format of the source.
    pub format: ManifestFormat,
    /// All diagnostics; in strict mode without errors.
    pub diagnostics: Vec<Diagnostic>,
}

/// Error of parsing a manifest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// The manifest is too large.
    #[error("manifest too large: {len} bytes, at most {MAX_MANIFEST_BYTES} are allowed")]
    TooLarge {
        /// Size in bytes.
        len: usize,
    },
    /// The manifest has errors in strict mode.
    #[error("the manifest is refused: {}", first_error(.diagnostics))]
    Refused {
        /// All diagnostics, including the errors.
        diagnostics: Vec<Diagnostic>,
    },
}

impl ManifestError {
    /// Returns the diagnostics of a refused manifest.
    #[must_use]
    pub fn diagnostics(&self) -> &[Diagnostic] {
        match self {
            Self::TooLarge { .. } => &[],
            Self::Refused { diagnostics } => diagnostics,
        }
    }
}

impl Coded for ManifestError {
    fn code(&self) -> Code {
        match self {
            Self::TooLarge { .. } => Code::TooLarge,
            Self::Refused { .. } => Code::InvalidManifest,
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

/// Parses a manifest. `entry` is the id it is stored under, if known: the manifest must not contradict it.
///
/// # Errors
/// When it is larger than [`MAX_MANIFEST_BYTES`]; in strict mode, when anything is wrong with it.
pub fn parse(
    text: &str,
    mode: ParseMode,
    entry: Option<&SkillId>,
) -> Result<ParsedManifest, ManifestError> {
    if text.len() > MAX_MANIFEST_BYTES {
        return Err(ManifestError::TooLarge { len: text.len() });
    }
    let mut diagnostics = Diagnostics::default();
    let context = ParseContext { mode, depth: 0, is_embedded: false };
    let found = read(text, context, &mut diagnostics).map(|(mut spec, format)| {
        resolve_name(&mut spec, entry, &mut diagnostics);
        (spec, format)
    });
    match found {
        Some((spec, format)) if mode == ParseMode::Lenient || !diagnostics.has_error() => {
            Ok(ParsedManifest { spec, format, diagnostics: diagnostics.into_diagnostics() })
        }
        _ => Err(ManifestError::Refused { diagnostics: diagnostics.into_diagnostics() }),
    }
}

/// Context of parsing one text.
#[derive(Clone, Copy)]
struct ParseContext {
    mode: ParseMode,
    /// Number of manifests around this one.
    depth: usize,
    /// True for a text inside another manifest, which is checked as a whole.
    is_embedded: bool,
}

impl ParseContext {
    /// Returns the context of a nested text; `None` when it is nested too deeply.
    fn inside(self) -> Option<Self> {
        (self.depth < MAX_NESTING).then_some(Self { depth: self.depth + 1, ..self })
    }

    /// Returns the context of a text that is part of this manifest.
    fn embedded(self) -> Option<Self> {
        self.inside().map(|inner| Self { is_embedded: true, ..inner })
    }
}

/// Parses a text in either format; `None` when strict mode rejects both.
fn read(
    text: &str,
    context: ParseContext,
    diagnostics: &mut Diagnostics,
) -> Option<(SkillSpec, ManifestFormat)> {
    if text.len() > strip_bom(text).len() {
        diagnostics.note("byte_order_mark", "", "the byte order mark is not part of the manifest");
    }
    let text = strip_bom(text);
    if text.trim_start().starts_with('{') {
        match json_reader::read(text, JsonPointer::Root, diagnostics) {
            Ok(Value::Object(root)) => {
                return Some((unified::read(&root, context, diagnostics), ManifestFormat::Json));
            }
            Ok(_) => {}
            Err(error) => {
                let at = format!("{}:{}", error.line().max(1), error.column().max(1));
                diagnostics.error("invalid_json", at, format!("the manifest is not JSON: {error}"));
                if context.mode == ParseMode::Strict {
                    return None;
                }
            }
        }
    } else if let Some((inner, context)) = unquote_json(text).zip(context.inside()) {
        diagnostics.note("string_literal", "", "the manifest is a JSON text that holds a manifest");
        return read(&inner, context, diagnostics);
    }
    Some((markdown::read(text, context, diagnostics), ManifestFormat::Markdown))
}

/// Returns the text of a manifest that is one JSON string. Some stores keep Markdown that way.
fn unquote_json(text: &str) -> Option<String> {
    text.trim_start().starts_with('"').then(|| serde_json::from_str(text).ok()).flatten()
}

/// Sets id and name, and reports an id that contradicts the entry.
fn resolve_name(spec: &mut SkillSpec, entry: Option<&SkillId>, diagnostics: &mut Diagnostics) {
    match (&spec.id, entry) {
        (Some(id), Some(entry)) if id != entry.as_str() => {
            let message = format!("the id of the manifest contradicts the entry {entry}");
            diagnostics.error("id_mismatch", "/id", message);
            spec.name = entry.to_string();
        }
        (Some(id), None) => {
            if let Err(error) = id.parse::<SkillId>() {
                diagnostics.error("invalid_id", "/id", error.to_string());
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
            None => diagnostics.error("missing_name", "", "the tool has neither an id nor a name"),
        }
    }
    if spec.description.is_empty() {
        let message = "there is no description, so models cannot know when to use the tool";
        diagnostics.warning("missing_description", "", message);
    }
}

#[cfg(test)]
mod tests;
