//! Untrusted JSON Schemas: compiling them, and checking arguments against them.
//!
//! - `cost`: cost of a schema, computed before it is compiled; `keywords` classifies keywords for it
//!
//! The validator defines the meaning of a schema; this module decides which schemas it may run. Nothing is fetched,
//! and patterns run on an engine without backtracking. A schema that could take more than linear time is refused; for
//! a recursive schema, the arguments that would take too long are refused. The use of the arguments is not known
//! here.

mod cost;
mod keywords;

use std::fmt;

use jsonschema::{PatternOptions, ValidationError, Validator};
use serde::Serialize;
use serde_json::Value;
use skills_core::{Code, Coded};

use self::cost::SchemaCost;

/// Most values (objects, lists, texts, numbers) of a schema.
pub const MAX_SCHEMA_VALUES: usize = 10_000;
/// Deepest nesting of a schema, with references followed.
pub const MAX_SCHEMA_DEPTH: usize = 64;
/// Most schemas and values to compare with, with every reference replaced by its target.
pub const MAX_SCHEMA_PARTS: usize = 10_000;
/// Most patterns of a schema.
pub const MAX_PATTERNS: usize = 64;
/// Most violations that are reported.
pub const MAX_VIOLATIONS: usize = 32;

/// Limits for patterns. An engine without backtracking still takes (size of the pattern) x (bytes of text) at worst,
/// so large patterns are tried on less text.
const PATTERNS: [PatternLimits; 2] = [
    PatternLimits { compiled_bytes: 32 << 10, matched_bytes: 1 << 20 },
    PatternLimits { compiled_bytes: 512 << 10, matched_bytes: 64 << 10 },
];
/// Most patterns of a schema with large patterns: compiling them takes time and memory.
const MAX_LARGE_PATTERNS: usize = 16;
/// Most steps a check may take: parts of the schema times values of the arguments.
const MAX_STEPS: usize = 5_000_000;
/// Most steps of a check that takes no longer than a request.
const MAX_QUICK_STEPS: usize = 50_000;
/// Most bytes that patterns are tried on in a check that takes no longer than a request.
const MAX_QUICK_BYTES: usize = 4 << 10;
/// Deepest nesting of schemas during a check: each takes stack space.
const MAX_NESTED: usize = 1024;
/// Most steps of a check that collects all violations. Beyond, only the first is reported: the validator keeps every
/// violation, and there may be one for each step.
const MAX_STEPS_FOR_ALL: usize = 200_000;
/// Approximate memory of a part of a compiled schema.
const PART_BYTES: usize = 512;
/// Longest message, in characters; messages about an `enum` repeat it.
const MAX_MESSAGE_CHARS: usize = 300;

/// Error of compiling a schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// The schema is not valid.
    #[error("not a valid JSON Schema: {message}")]
    Invalid {
        /// JSON pointer into the schema.
        pointer: String,
        /// Message of the validator.
        message: String,
    },
    /// A reference leaves the schema.
    #[error(
        "the reference {reference:?} leaves the schema, and nothing is fetched; copy what it means under $defs and write \"#/$defs/…\""
    )]
    RemoteReference {
        /// JSON pointer into the schema.
        pointer: String,
        /// Target of the reference.
        reference: String,
    },
    /// A reference has no target.
    #[error("the reference {reference:?} points to nothing in the schema")]
    DanglingReference {
        /// JSON pointer into the schema.
        pointer: String,
        /// Target of the reference.
        reference: String,
    },
    /// A reference recurses on the same value.
    #[error(
        "the reference {reference:?} leads back to itself for the same value, which never ends; put it under properties or items"
    )]
    Recursive {
        /// JSON pointer into the schema.
        pointer: String,
        /// Target of the reference.
        reference: String,
    },
    /// A keyword makes the cost unpredictable.
    #[error("{keyword:?} is not supported here; write the schema without it")]
    Unsupported {
        /// JSON pointer into the schema.
        pointer: String,
        /// Unsupported keyword.
        keyword: &'static str,
    },
    /// A limit is exceeded.
    #[error("the schema has {what}, at most {max} are allowed")]
    TooLarge {
        /// JSON pointer to where the limit was exceeded.
        pointer: String,
        /// Exceeded quantity.
        what: &'static str,
        /// Limit.
        max: usize,
    },
}

impl SchemaError {
    /// Returns the JSON pointer into the schema.
    #[must_use]
    pub fn pointer(&self) -> &str {
        match self {
            Self::Invalid { pointer, .. }
            | Self::RemoteReference { pointer, .. }
            | Self::DanglingReference { pointer, .. }
            | Self::Recursive { pointer, .. }
            | Self::Unsupported { pointer, .. }
            | Self::TooLarge { pointer, .. } => pointer,
        }
    }
}

impl Coded for SchemaError {
    fn code(&self) -> Code {
        match self {
            Self::Invalid { .. } => Code::InvalidSchema,
            Self::RemoteReference { .. } => Code::RemoteReference,
            Self::DanglingReference { .. } => Code::DanglingReference,
            Self::Recursive { .. } => Code::RecursiveSchema,
            Self::Unsupported { .. } => Code::UnsupportedSchema,
            Self::TooLarge { .. } => Code::SchemaTooLarge,
        }
    }
}

/// Violation of a schema by a value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// JSON pointer into the value.
    pub pointer: String,
    /// Message without the value, which may be long or a secret.
    pub message: String,
}

/// Compiled schema.
pub struct Schema {
    validator: Validator,
    cost: SchemaCost,
    compiled_bytes: usize,
    matched_bytes: usize,
}

/// Cost of a check.
struct Cost {
    /// Parts of the schema times values.
    steps: usize,
    /// Bytes of text that patterns are tried on, summed over patterns.
    matched: usize,
    /// Nesting depth of schemas at the deepest part of the value.
    nested: usize,
}

#[derive(Clone, Copy)]
struct PatternLimits {
    /// Largest compiled pattern.
    compiled_bytes: usize,
    /// Most text that patterns are tried on, summed over patterns.
    matched_bytes: usize,
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Schema").field("weight", &self.cost).finish_non_exhaustive()
    }
}

impl Schema {
    /// Compiles a schema of drafts 4 to 2020-12, the newest by default.
    ///
    /// # Errors
    /// When it is not valid, refers to something outside or to itself, or is too large.
    pub fn compile(schema: &Value) -> Result<Self, SchemaError> {
        let cost = cost::schema_cost(schema)?;
        let [small, large] = PATTERNS;
        let (built, limits) = match build(schema, small) {
            Err(_) if (1..=MAX_LARGE_PATTERNS).contains(&cost.patterns) => {
                (build(schema, large), large)
            }
            built => (built, small),
        };
        let validator = built.map_err(|error| SchemaError::Invalid {
            pointer: error.instance_path().as_str().to_owned(),
            message: truncate(&error.to_string()),
        })?;
        let PatternLimits { compiled_bytes, matched_bytes } = limits;
        Ok(Self { validator, cost, compiled_bytes, matched_bytes })
    }

    /// Returns the approximate memory in bytes.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.cost.parts * PART_BYTES + self.cost.patterns * self.compiled_bytes
    }

    /// Returns whether a check of the value is fast enough to run on a thread that serves requests.
    #[must_use]
    pub fn is_quick(&self, value: &Value) -> bool {
        let cost = self.cost(value);
        cost.steps <= MAX_QUICK_STEPS && cost.matched <= MAX_QUICK_BYTES
    }

    fn cost(&self, value: &Value) -> Cost {
        let SchemaCost { parts, patterns, depth, recursions } = self.cost;
        let size = size(value);
        // On every level each way back is gone again.
        let levels = u32::try_from(size.depth).unwrap_or(u32::MAX);
        let times = recursions.max(1).saturating_pow(levels);
        Cost {
            steps: size.values.saturating_mul(parts).saturating_mul(times),
            matched: size.bytes.saturating_mul(patterns).saturating_mul(times),
            nested: if recursions == 0 { depth } else { depth.saturating_mul(size.depth) },
        }
    }

    /// Returns the violations of a value, at most [`MAX_VIOLATIONS`].
    #[must_use]
    pub fn check(&self, value: &Value) -> Vec<Violation> {
        let Cost { steps, matched, nested } = self.cost(value);
        if steps > MAX_STEPS || matched > self.matched_bytes || nested > MAX_NESTED {
            let message = "the value is too large to be checked against this schema".to_owned();
            return vec![Violation { pointer: String::new(), message }];
        }
        if self.validator.is_valid(value) {
            return Vec::new();
        }
        let violation = |error: &ValidationError<'_>| Violation {
            pointer: error.instance_path().as_str().to_owned(),
            message: truncate(&error.masked_with("the value").to_string()),
        };
        if steps <= MAX_STEPS_FOR_ALL {
            let errors = self.validator.iter_errors(value).take(MAX_VIOLATIONS);
            return errors.map(|error| violation(&error)).collect();
        }
        self.validator.validate(value).err().iter().map(violation).collect()
    }
}

fn build(schema: &Value, limits: PatternLimits) -> Result<Validator, ValidationError<'static>> {
    let patterns = PatternOptions::regex()
        .size_limit(limits.compiled_bytes)
        .dfa_size_limit(limits.compiled_bytes);
    // Drafts disagree on whether formats are checked; here none of them is.
    let options = jsonschema::options().offline().should_validate_formats(false);
    options.with_pattern_options(patterns).build(schema)
}

/// Size of a value.
struct Size {
    /// Number of values, itself included.
    values: usize,
    /// Bytes of text.
    bytes: usize,
    /// Levels below the value.
    depth: usize,
}

fn size(value: &Value) -> Size {
    let mut size = Size { values: 0, bytes: 0, depth: 0 };
    let mut rest = vec![(value, 0)];
    while let Some((value, depth)) = rest.pop() {
        size.values += 1;
        size.depth = size.depth.max(depth);
        match value {
            Value::String(text) => size.bytes += text.len(),
            Value::Array(items) => rest.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Object(fields) => {
                size.bytes += fields.keys().map(String::len).sum::<usize>();
                rest.extend(fields.values().map(|value| (value, depth + 1)));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    size
}

/// Truncates a message.
pub(crate) fn truncate(message: &str) -> String {
    match message.char_indices().nth(MAX_MESSAGE_CHARS) {
        Some((at, _)) => format!("{}…", &message[..at]),
        None => message.to_owned(),
    }
}

#[cfg(test)]
mod tests;
