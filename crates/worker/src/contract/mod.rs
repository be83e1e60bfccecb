//! Inputs and outputs of the contract, with the JSON Schemas that workers see.
//!
//! Names, field order and descriptions are those of the published API reference; a test compares every
//! schema with it, apart from fields of ours that may be left out. Inputs carry keys that are not named here (the
//! bus adds some): they are ignored. What the reference does not have at all is in `beyond`.

mod beyond;

use std::collections::BTreeMap;

use schemars::{JsonSchema, r#gen::SchemaSettings};
use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};
use skills_core as rules;

pub use self::beyond::*;

/// `skills::register`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct RegisterSkillInput {
    /// Unique skill id (lowercase ASCII, kebab/underscore, max 64 chars).
    pub id: String,
    /// Markdown body served at iii://{id}.
    pub skill: String,
    /// More files of a bundle, by path: text, or an object with the bytes in base64.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, FileContent>,
    /// In which tier; a private one is that of the key's user. Official unless another is named.
    #[serde(default)]
    pub tier: Option<Tier>,
    /// Who asks: a key of a user, which begins with `us-`.
    #[serde(default)]
    pub key: Option<String>,
}

/// What a file of a bundle holds.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum FileContent {
    /// UTF-8 text.
    Text(String),
    /// Any bytes.
    Bytes {
        /// In base64, with padding.
        base64: String,
    },
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct RegisterSkillOutput {
    pub id: String,
    pub registered_at: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct UnregisterSkillInput {
    pub id: String,
    /// In which tier; a private one is that of the key's user. Official unless another is named.
    #[serde(default)]
    pub tier: Option<Tier>,
    /// Who asks: a key of a user, which begins with `us-`.
    #[serde(default)]
    pub key: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct UnregisterSkillOutput {
    pub id: String,
    pub removed: bool,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
pub struct ListSkillsInput {
    /// Who asks: a key of a user, which begins with `us-`.
    #[serde(default)]
    pub key: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct SkillEntry {
    pub id: String,
    pub bytes: usize,
    pub registered_at: String,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct ListSkillsOutput {
    pub skills: Vec<SkillEntry>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct PromptArgument {
    pub name: String,
    pub description: Option<String>,
    #[serde(default)]
    pub required: bool,
}

impl From<PromptArgument> for rules::PromptArgument {
    fn from(PromptArgument { name, description, required }: PromptArgument) -> Self {
        Self { name, description, required }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct RegisterPromptInput {
    /// Unique prompt name (lowercase ASCII, kebab/underscore, max 64 chars).
    pub name: String,
    /// Free-text description shown in the client's prompt picker.
    pub description: String,
    #[serde(default)]
    pub arguments: Vec<PromptArgument>,
    /// Handler function called on prompts/get with the supplied arguments.
    pub function_id: String,
    /// In which tier; a private one is that of the key's user. Official unless another is named.
    #[serde(default)]
    pub tier: Option<Tier>,
    /// Who asks: a key of a user, which begins with `us-`.
    #[serde(default)]
    pub key: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct RegisterPromptOutput {
    pub name: String,
    pub registered_at: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct UnregisterPromptInput {
    pub name: String,
    /// In which tier; a private one is that of the key's user. Official unless another is named.
    #[serde(default)]
    pub tier: Option<Tier>,
    /// Who asks: a key of a user, which begins with `us-`.
    #[serde(default)]
    pub key: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct UnregisterPromptOutput {
    pub name: String,
    pub removed: bool,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
pub struct ListPromptsInput {
    /// Who asks: a key of a user, which begins with `us-`.
    #[serde(default)]
    pub key: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct PromptEntry {
    pub name: String,
    pub function_id: String,
    pub arguments: usize,
    pub registered_at: String,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct ListPromptsOutput {
    pub prompts: Vec<PromptEntry>,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct ReadResourceInput {
    pub uri: String,
    /// Who asks: a key of a user, which begins with `us-`.
    #[serde(default)]
    pub key: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct PromptGetInput {
    pub name: String,
    #[serde(default)]
    pub arguments: Value,
    /// Who asks: a key of a user, which begins with `us-`.
    #[serde(default)]
    pub key: Option<String>,
}

/// Input of a function that needs none.
#[derive(Debug, Default, Deserialize, JsonSchema)]
pub struct EmptyInput {}

/// Input of a function that needs nothing but to know who asks.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "EmptyInput")]
pub struct WhoInput {
    /// Who asks: a key of a user, which begins with `us-`.
    #[serde(default)]
    pub key: Option<String>,
}

/// An input that may say who asks.
pub trait Asks {
    /// The key that was presented.
    fn key(&self) -> Option<&str>;
}

macro_rules! asks {
    ($($input:ty),* $(,)?) => {
        $(impl Asks for $input {
            fn key(&self) -> Option<&str> {
                self.key.as_deref()
            }
        })*
    };
}

asks!(
    RegisterSkillInput,
    UnregisterSkillInput,
    ListSkillsInput,
    ReadResourceInput,
    RegisterPromptInput,
    UnregisterPromptInput,
    ListPromptsInput,
    PromptGetInput,
    WhoInput,
    FilesInput,
    CatalogInput,
    AvailableInput,
    ResolveInput,
    ExecuteInput,
);

/// Where entries are stored, in the order in which names are resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Tier {
    Private,
    Official,
    Market,
}

impl From<Tier> for rules::Tier {
    fn from(tier: Tier) -> Self {
        match tier {
            Tier::Private => Self::Private,
            Tier::Official => Self::Official,
            Tier::Market => Self::Market,
        }
    }
}

impl From<rules::Tier> for Tier {
    fn from(tier: rules::Tier) -> Self {
        match tier {
            rules::Tier::Private => Self::Private,
            rules::Tier::Official => Self::Official,
            rules::Tier::Market => Self::Market,
        }
    }
}

/// Output whose shape is that of another protocol.
#[derive(Debug, Serialize, JsonSchema)]
pub struct AnyValue(pub Value);

/// The draft-07 schema of a type.
#[must_use]
pub fn schema<T: JsonSchema>() -> Value {
    let root = SchemaSettings::draft07().into_generator().into_root_schema_for::<T>();
    let mut schema = serde_json::to_value(root).unwrap_or_default();
    whole_numbers(&mut schema);
    if let Some(fields) = schema.as_object_mut() {
        // Documentation of the Rust type is not part of the contract.
        fields.remove("description");
    }
    schema
}

/// Writes `0.0` as `0`: bounds are numbers with a fraction in the generator, but not in the contract.
fn whole_numbers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let Some(float) = number.as_f64().filter(|_| number.is_f64())
                && let Some(whole) = Number::from_u128(float as u128)
                && whole.as_f64() == Some(float)
            {
                *number = whole;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        Value::Object(fields) => fields.values_mut().for_each(whole_numbers),
        _ => {}
    }
}
