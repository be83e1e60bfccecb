//! JSON Schemas that strangers wrote: whether one is valid, and whether arguments fit it.
//!
//! - `bounds`: what a schema may cost, judged before it is compiled; `keywords` is what it knows of them
//!
//! The words of a schema are the validator's; what may be asked of it is decided here. Nothing is ever
//! fetched, patterns run on an engine without backtracking, and a schema that could take more than a time in
//! proportion to the arguments is refused, or, where it leads back to itself, the arguments for which it would. What
//! the arguments are for is not known here.

mod bounds;
mod keywords;

use std::fmt;

use jsonschema::{PatternOptions, ValidationError, Validator};
use serde::Serialize;
use serde_json::Value;

use self::bounds::Weight;

/// Most values (objects, lists, texts, numbers) of which a schema may be made.
pub const MAX_SCHEMA_VALUES: usize = 10_000;
/// How deep a schema may be nested, with its references followed.
pub const MAX_SCHEMA_DEPTH: usize = 64;
/// Most schemas, and values to compare with, that there may be when every reference is replaced by what it
/// points to.
pub const MAX_SCHEMA_PARTS: usize = 10_000;
/// Most patterns of a schema.
pub const MAX_PATTERNS: usize = 64;
/// Most violations that are reported.
pub const MAX_VIOLATIONS: usize = 32;

/// What patterns may cost. An engine without backtracking still takes (size of the pattern) x (bytes of
/// text) at worst, so large ones are tried on less.
const PATTERNS: [PatternLimits; 2] = [
    PatternLimits { compiled_bytes: 32 << 10, matched_bytes: 1 << 20 },
    PatternLimits { compiled_bytes: 512 << 10, matched_bytes: 64 << 10 },
];
/// Where there are more patterns none of them may be large: compiling them takes time and memory.
const MAX_LARGE_PATTERNS: usize = 16;
/// Most steps a check may take: parts of the schema times values of the arguments.
const MAX_STEPS: usize = 5_000_000;
/// Up to here a check takes no longer than a request takes anyway.
const MAX_QUICK_STEPS: usize = 50_000;
/// The same for what patterns are tried on.
const MAX_QUICK_BYTES: usize = 4 << 10;
/// Most schemas that may stand in each other: each takes a piece of the stack.
const MAX_NESTED: usize = 1024;
/// Up to here all violations are gathered; beyond, the first is enough: the validator keeps every one it
/// finds, and there may be one for each step.
const MAX_STEPS_FOR_ALL: usize = 200_000;
/// About what a part of a compiled schema takes in memory.
const PART_BYTES: usize = 512;
/// Longest message, in characters; those about an `enum` repeat it.
const MAX_MESSAGE_CHARS: usize = 300;

/// Why something is not a schema that is used here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// It breaks the rules of JSON Schema.
    #[error("not a valid JSON Schema: {message}")]
    Invalid {
        /// Where, as a JSON pointer into the schema.
        pointer: String,
        /// What the validator says.
        message: String,
    },
    /// It refers to something outside of itself.
    #[error(
        "the reference {reference:?} leaves the schema, and nothing is fetched; copy what it means under $defs and write \"#/$defs/…\""
    )]
    RemoteReference {
        /// Where.
        pointer: String,
        /// What it refers to.
        reference: String,
    },
    /// It refers to nothing.
    #[error("the reference {reference:?} points to nothing in the schema")]
    DanglingReference {
        /// Where.
        pointer: String,
        /// What it refers to.
        reference: String,
    },
    /// It refers to itself without end.
    #[error(
        "the reference {reference:?} leads back to itself for the same value, which never ends; put it under properties or items"
    )]
    Recursive {
        /// Where.
        pointer: String,
        /// What it refers to.
        reference: String,
    },
    /// It uses something that makes its cost unknowable.
    #[error("{keyword:?} is not supported here; write the schema without it")]
    Unsupported {
        /// Where.
        pointer: String,
        /// Which keyword.
        keyword: &'static str,
    },
    /// It is too large, too deep or too manifold.
    #[error("the schema has {what}, at most {max} are allowed")]
    TooLarge {
        /// Where the limit was passed.
        pointer: String,
        /// Too many of what.
        what: &'static str,
        /// The limit.
        max: usize,
    },
}

impl SchemaError {
    /// A stable code for machines.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Invalid { .. } => "invalid_schema",
            Self::RemoteReference { .. } => "remote_reference",
            Self::DanglingReference { .. } => "dangling_reference",
            Self::Recursive { .. } => "recursive_schema",
            Self::Unsupported { .. } => "unsupported_schema",
            Self::TooLarge { .. } => "schema_too_large",
        }
    }

    /// Where in the schema, as a JSON pointer.
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

/// Something in which a value does not fit a schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// Where, as a JSON pointer into the value.
    pub pointer: String,
    /// What is wrong. The value is not repeated: it may be long, or a secret.
    pub message: String,
}

/// A schema that can be asked.
pub struct Schema {
    validator: Validator,
    weight: Weight,
    compiled_bytes: usize,
    matched_bytes: usize,
}

/// What a check costs.
struct Cost {
    /// Parts of the schema times values.
    steps: usize,
    /// Bytes of text that patterns are tried on, one pattern after the other.
    matched: usize,
    /// How many schemas stand in each other when the deepest part of the value is looked at.
    nested: usize,
}

#[derive(Clone, Copy)]
struct PatternLimits {
    /// Largest compiled pattern.
    compiled_bytes: usize,
    /// Most text that patterns are tried on, one pattern after the other.
    matched_bytes: usize,
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Schema").field("weight", &self.weight).finish_non_exhaustive()
    }
}

impl Schema {
    /// Compiles a schema of drafts 4 to 2020-12; the newest where it does not say which.
    ///
    /// # Errors
    /// When it is not valid, refers to something outside or to itself, or is too large.
    pub fn compile(schema: &Value) -> Result<Self, SchemaError> {
        let weight = bounds::weigh(schema)?;
        let [small, large] = PATTERNS;
        let (built, limits) = match build(schema, small) {
            Err(_) if (1..=MAX_LARGE_PATTERNS).contains(&weight.patterns) => {
                (build(schema, large), large)
            }
            built => (built, small),
        };
        let validator = built.map_err(|error| SchemaError::Invalid {
            pointer: error.instance_path().as_str().to_owned(),
            message: shortened(&error.to_string()),
        })?;
        let PatternLimits { compiled_bytes, matched_bytes } = limits;
        Ok(Self { validator, weight, compiled_bytes, matched_bytes })
    }

    /// About how much memory it takes, in bytes.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.weight.parts * PART_BYTES + self.weight.patterns * self.compiled_bytes
    }

    /// Whether a check of the value takes no longer than a moment, so that it may be made where others wait.
    #[must_use]
    pub fn is_quick(&self, value: &Value) -> bool {
        let cost = self.cost(value);
        cost.steps <= MAX_QUICK_STEPS && cost.matched <= MAX_QUICK_BYTES
    }

    fn cost(&self, value: &Value) -> Cost {
        let Weight { parts, patterns, depth, ways } = self.weight;
        let size = size(value);
        // On every level each way back is gone again.
        let levels = u32::try_from(size.depth).unwrap_or(u32::MAX);
        let times = ways.max(1).saturating_pow(levels);
        Cost {
            steps: size.values.saturating_mul(parts).saturating_mul(times),
            matched: size.bytes.saturating_mul(patterns).saturating_mul(times),
            nested: if ways == 0 { depth } else { depth.saturating_mul(size.depth) },
        }
    }

    /// In what a value does not fit: nothing when it does, [`MAX_VIOLATIONS`] at most.
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
            message: shortened(&error.masked_with("the value").to_string()),
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

/// How large a value is.
struct Size {
    /// How many values it is made of, itself among them.
    values: usize,
    /// How many bytes of text it has.
    bytes: usize,
    /// How many levels it has below itself.
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

/// A message that is not longer than one can be.
pub(crate) fn shortened(message: &str) -> String {
    match message.char_indices().nth(MAX_MESSAGE_CHARS) {
        Some((at, _)) => format!("{}…", &message[..at]),
        None => message.to_owned(),
    }
}

#[cfg(test)]
mod tests;
