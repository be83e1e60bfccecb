//! Inputs and outputs of the contract, with the JSON Schemas that workers see.
//!
//! Names, field order and descriptions are those of the published API reference; a test compares every
//! schema with it. Inputs carry keys that are not named here (the bus adds some): they are ignored.

use std::collections::BTreeMap;

use schemars::{JsonSchema, r#gen::SchemaSettings};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};
use skills_core as rules;

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

/// `skills::capabilities`, which the published reference does not have.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CapabilitiesOutput {
    /// Which registry answers.
    pub name: String,
    pub version: String,
    /// The functions it has beyond the published ones, sorted.
    pub functions: Vec<String>,
    /// What names are also looked for with; empty for nothing.
    pub prefix: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct ResolveInput {
    /// The name that is looked for.
    pub id: String,
    /// Whether to say what was passed on the way, and what is shadowed.
    #[serde(default)]
    pub explain: bool,
    /// Only in this tier.
    #[serde(default)]
    pub tier: Option<Tier>,
    /// Who asks: a key of a user, which begins with `us-`.
    #[serde(default)]
    pub key: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct ResolveOutput {
    /// The id under which it is stored.
    pub id: String,
    pub tier: Tier,
    /// Where it can be read.
    pub uri: String,
    pub title: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    pub bytes: u64,
    pub registered_at: String,
    pub files: Vec<FileEntry>,
    /// What its manifest says, if it is a tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Value>")]
    pub tool: Option<Box<rules::ToolMeta>>,
    /// What would answer if it did not, in order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shadows: Option<Vec<PlaceEntry>>,
    /// Where was looked, in order, up to the one that answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tried: Option<Vec<PlaceEntry>>,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct ExecuteInput {
    /// The tool, with or without the prefix.
    pub id: String,
    /// What it is called with.
    #[serde(default)]
    pub arguments: Map<String, Value>,
    /// Who calls: a key of a user, which begins with `us-`. Without one no secrets are used.
    #[serde(default)]
    pub key: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct ExecuteOutput {
    /// What the tool answered.
    pub data: Value,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct PlaceEntry {
    pub tier: Tier,
    pub id: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct FilesInput {
    pub id: String,
    /// The copy that this tier holds.
    #[serde(default)]
    pub tier: Option<Tier>,
    /// Who asks: a key of a user, which begins with `us-`.
    #[serde(default)]
    pub key: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct FilesOutput {
    pub id: String,
    /// The root document first, then sorted by path.
    pub files: Vec<FileEntry>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct FileEntry {
    pub path: String,
    pub size: u64,
    /// `sha256:` and 64 hexadecimal digits.
    pub digest: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct CatalogInput {
    /// What the page before said is next.
    #[serde(default)]
    pub after: Option<String>,
    /// At most so many.
    #[serde(default)]
    pub limit: Option<usize>,
    /// Only these, as far as they are there, on one page.
    #[serde(default)]
    pub ids: Option<Vec<String>>,
    /// Only of this tier.
    #[serde(default)]
    pub tier: Option<Tier>,
    /// Which of the entries of one id.
    #[serde(default)]
    pub layers: Layers,
    /// Who asks: a key of a user, which begins with `us-`.
    #[serde(default)]
    pub key: Option<String>,
}

/// Which entries a list shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Layers {
    /// Those that answer to their ids.
    #[default]
    Effective,
    /// Those that are shadowed too.
    All,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct CatalogOutput {
    pub skills: Vec<CatalogEntry>,
    /// What `after` is for the next page, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct CatalogEntry {
    pub id: String,
    pub tier: Tier,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    pub registered_at: String,
    pub files: Vec<FileEntry>,
    /// What it says of itself as an Agent Skill.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Value>")]
    pub agent: Option<Box<rules::AgentSkill>>,
    /// What its manifest says, if it is a tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Value>")]
    pub tool: Option<Box<rules::ToolMeta>>,
    /// Why it cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub corrupt: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct AvailableInput {
    #[serde(default)]
    pub filter: AvailableFilter,
    /// Who asks: a key of a user, which begins with `us-`.
    #[serde(default)]
    pub key: Option<String>,
}

/// All that is given must hold; upper and lower case are the same.
#[derive(Debug, Default, Deserialize, JsonSchema)]
pub struct AvailableFilter {
    /// Its license contains this.
    #[serde(default)]
    pub license: Option<String>,
    /// What it needs to run contains this.
    #[serde(default)]
    pub compatibility: Option<String>,
    /// It may use this tool.
    #[serde(default)]
    pub tool: Option<String>,
}

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
