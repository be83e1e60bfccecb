//! Inputs and outputs of the contract, with the JSON Schemas that workers see.
//!
//! Names, field order and descriptions are those of the published API reference; a test compares every schema with it,
//! apart from our optional fields. Unknown fields of inputs are ignored (the bus adds some). Functions that the
//! reference does not have are in `extensions`.

mod collections;
mod extensions;
mod register_many;
mod versions;

use std::collections::BTreeMap;

use schemars::{JsonSchema, r#gen::SchemaSettings};
use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};
use skills_core::{PromptArgument, Provenance, Tier};
use skills_registry::SectionAccess;

pub use self::{collections::*, extensions::*, register_many::*, versions::*};

/// Input of `skills::register`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct RegisterSkillInput {
    /// Unique skill id (lowercase ASCII, kebab/underscore, max 64 chars).
    pub id: String,
    /// Markdown body served at iii://{id}.
    pub skill: String,
    /// Additional files of a bundle, by path: text, or an object with the bytes in base64.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, FileContent>,
    /// Paths of the executable files. Without it, files that begin with `#!` count as executable.
    #[serde(default)]
    pub executable: Option<Vec<String>>,
    /// Place that the content came from: `kind`, `location`, and optionally `path`, `ref` and `commit`. By default the
    /// calling worker.
    #[serde(default)]
    #[schemars(with = "Option<Value>")]
    pub source: Option<Box<Provenance>>,
    /// Message of the version, at most 1 KiB.
    #[serde(default)]
    pub message: Option<String>,
    /// Number that the newest version must have; 0 if the entry must not exist.
    #[serde(default)]
    pub expected_version: Option<u64>,
    /// Tier to write to, by default official. The private tier is that of the key's user.
    #[serde(default)]
    pub tier: Option<TierInput>,
    /// Key of the calling user, which begins with `us-`.
    #[serde(default)]
    pub key: Option<String>,
}

/// Content of a bundle's file.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum FileContent {
    /// UTF-8 text.
    Text(String),
    /// Any bytes.
    Bytes {
        /// Bytes in base64, with padding.
        base64: String,
    },
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct RegisterSkillOutput {
    pub id: String,
    pub registered_at: String,
    /// Version, for calls with a message or an expected version.
    #[serde(flatten)]
    #[schemars(skip)]
    pub version: Option<PublishedVersion>,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct UnregisterSkillInput {
    pub id: String,
    /// Tier to write to, by default official. The private tier is that of the key's user.
    #[serde(default)]
    pub tier: Option<TierInput>,
    /// Key of the calling user, which begins with `us-`.
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
    /// Key of the calling user, which begins with `us-`.
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
#[schemars(rename = "PromptArgument")]
pub struct PromptArgumentInput {
    pub name: String,
    pub description: Option<String>,
    #[serde(default)]
    pub required: bool,
}

impl From<PromptArgumentInput> for PromptArgument {
    fn from(PromptArgumentInput { name, description, required }: PromptArgumentInput) -> Self {
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
    pub arguments: Vec<PromptArgumentInput>,
    /// Handler function called on prompts/get with the supplied arguments.
    pub function_id: String,
    /// Message of the version, at most 1 KiB.
    #[serde(default)]
    pub message: Option<String>,
    /// Number that the newest version must have; 0 if the entry must not exist.
    #[serde(default)]
    pub expected_version: Option<u64>,
    /// Tier to write to, by default official. The private tier is that of the key's user.
    #[serde(default)]
    pub tier: Option<TierInput>,
    /// Key of the calling user, which begins with `us-`.
    #[serde(default)]
    pub key: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct RegisterPromptOutput {
    pub name: String,
    pub registered_at: String,
    /// Version, for calls with a message or an expected version.
    #[serde(flatten)]
    #[schemars(skip)]
    pub version: Option<PublishedVersion>,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct UnregisterPromptInput {
    pub name: String,
    /// Tier to write to, by default official. The private tier is that of the key's user.
    #[serde(default)]
    pub tier: Option<TierInput>,
    /// Key of the calling user, which begins with `us-`.
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
    /// Key of the calling user, which begins with `us-`.
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
    /// Key of the calling user, which begins with `us-`.
    #[serde(default)]
    pub key: Option<String>,
    /// Rule for sections that a surface applies when it reads for its own callers. Without it every eligible function
    /// is called, as published.
    #[serde(default)]
    #[schemars(skip)]
    pub sections: Option<SectionAccess>,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct PromptGetInput {
    pub name: String,
    #[serde(default)]
    pub arguments: Value,
    /// Key of the calling user, which begins with `us-`.
    #[serde(default)]
    pub key: Option<String>,
}

/// Input of a function without parameters.
#[derive(Debug, Default, Deserialize, JsonSchema)]
pub struct EmptyInput {}

/// Input of a function whose only parameter is the key of the caller.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "EmptyInput")]
pub struct CallerInput {
    /// Key of the calling user, which begins with `us-`.
    #[serde(default)]
    pub key: Option<String>,
}

/// Input that may carry the key of a user.
pub trait HasKey {
    /// Returns the key, if there is one.
    fn key(&self) -> Option<&str>;
}

macro_rules! impl_has_key {
    ($($input:ty),* $(,)?) => {
        $(impl HasKey for $input {
            fn key(&self) -> Option<&str> {
                self.key.as_deref()
            }
        })*
    };
}

impl_has_key!(
    RegisterSkillInput,
    RegisterManyInput,
    UnregisterSkillInput,
    ListSkillsInput,
    ReadResourceInput,
    RegisterPromptInput,
    UnregisterPromptInput,
    ListPromptsInput,
    PromptGetInput,
    CallerInput,
    FilesInput,
    CatalogInput,
    CollectionsInput,
    CollectionInput,
    PutCollectionInput,
    RemoveCollectionInput,
    AvailableInput,
    SearchInput,
    ResolveInput,
    ExecuteInput,
    SkillInput,
    PromptInput,
    VersionedCollectionInput,
    LogInput,
);

/// Tier of an entry, in resolution order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "Tier")]
pub enum TierInput {
    Private,
    Official,
    Market,
}

impl From<TierInput> for Tier {
    fn from(tier: TierInput) -> Self {
        match tier {
            TierInput::Private => Self::Private,
            TierInput::Official => Self::Official,
            TierInput::Market => Self::Market,
        }
    }
}

impl From<Tier> for TierInput {
    fn from(tier: Tier) -> Self {
        match tier {
            Tier::Private => Self::Private,
            Tier::Official => Self::Official,
            Tier::Market => Self::Market,
        }
    }
}

/// Output in the form of another protocol.
#[derive(Debug, Serialize, JsonSchema)]
pub struct AnyValue(pub Value);

/// Returns the draft-07 schema of a type.
#[must_use]
pub fn schema<T: JsonSchema>() -> Value {
    let root = SchemaSettings::draft07().into_generator().into_root_schema_for::<T>();
    let mut schema = serde_json::to_value(root).unwrap_or_default();
    use_integers(&mut schema);
    if let Some(fields) = schema.as_object_mut() {
        // Documentation of the Rust type is not part of the contract.
        fields.remove("description");
    }
    schema
}

/// Turns `0.0` into `0`: the generator writes bounds as floats, the contract as integers.
fn use_integers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let Some(float) = number.as_f64().filter(|_| number.is_f64())
                && let Some(integer) = Number::from_u128(float as u128)
                && integer.as_f64() == Some(float)
            {
                *number = integer;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(use_integers),
        Value::Object(fields) => fields.values_mut().for_each(use_integers),
        _ => {}
    }
}
