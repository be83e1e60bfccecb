//! Inputs and outputs of the contract, with the JSON Schemas that workers see.
//!
//! Names, field order and descriptions are those of the published API reference; a test compares every
//! schema with it. Inputs carry keys that are not named here (the bus adds some): they are ignored.

use std::collections::BTreeMap;

use schemars::{JsonSchema, r#gen::SchemaSettings};
use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};
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
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct UnregisterSkillOutput {
    pub id: String,
    pub removed: bool,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct ListSkillsInput {}

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
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct RegisterPromptOutput {
    pub name: String,
    pub registered_at: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct UnregisterPromptInput {
    pub name: String,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct UnregisterPromptOutput {
    pub name: String,
    pub removed: bool,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct ListPromptsInput {}

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
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct PromptGetInput {
    pub name: String,
    #[serde(default)]
    pub arguments: Value,
}

/// Input of a function that needs none.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct EmptyInput {}

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
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct FilesInput {
    pub id: String,
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
    /// The id that the page before ended with.
    #[serde(default)]
    pub after: Option<String>,
    /// At most so many.
    #[serde(default)]
    pub limit: Option<usize>,
    /// Only these, as far as they are there, on one page.
    #[serde(default)]
    pub ids: Option<Vec<String>>,
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
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct AvailableInput {
    #[serde(default)]
    pub filter: AvailableFilter,
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
