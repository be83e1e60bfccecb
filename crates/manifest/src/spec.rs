//! Format-independent description of a tool.
//!
//! The tier is not part of it: it comes from the layer of the entry and is added on the wire.

use std::{borrow::Cow, collections::BTreeMap};

use serde::Serialize;
use serde_json::{Map, Number, Value, json};

use crate::template::endpoint_template;
use skills_core::Tier;

/// Name of a tool without a name.
pub const UNKNOWN_NAME: &str = "Unknown_Skill";
/// Default HTTP method.
const DEFAULT_METHOD: &str = "POST";

/// Tool. The field names are those of the wire.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SkillSpec {
    /// Id in the manifest or of the entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Id, or its substitute: `meta.name` in JSON, the heading in Markdown.
    pub name: String,
    /// Display name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// Description of what the tool does; may be empty.
    pub description: String,
    /// JSON Schema of the arguments.
    pub parameters: Value,
    /// Shape of the answer; `null` in Markdown without a returns section.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub returns: Option<Value>,
    /// Request that the tool sends. Always has a `type`.
    pub implementation: Map<String, Value>,
    /// Documentation in the manifest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub docs: Option<ToolDocs>,
    /// Emoji.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub emoji: Option<String>,
    /// Keywords.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Identifier given by the publisher.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skill_uid: Option<String>,
    /// Cost of a call in the publisher's unit: metadata, nothing is charged. Never negative.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credits_per_call: Option<Number>,
    /// Formatter used by the publisher: metadata, nothing is run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugin_hook: Option<String>,
    /// Parts of the answer that are passed on: name to path.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub response_mapping: BTreeMap<String, String>,
}

/// Documentation of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct ToolDocs {
    /// One sentence.
    pub short: String,
    /// Markdown.
    pub full_md: String,
}

/// Tool as callers see it, with the tier it was read from.
#[derive(Debug, Clone, Serialize)]
pub struct PublicSpec<'a> {
    #[serde(flatten)]
    spec: Cow<'a, SkillSpec>,
    source: &'static str,
    #[serde(rename = "isOfficial")]
    is_official: bool,
}

impl SkillSpec {
    /// Converts the tool for callers: without literal credentials, with the tier it was read from.
    #[must_use]
    pub fn to_public(&self, tier: Tier) -> PublicSpec<'_> {
        let is_official = tier == Tier::Official;
        PublicSpec { spec: self.redact(), source: tier.as_str(), is_official }
    }

    /// Returns the URL template.
    #[must_use]
    pub fn endpoint(&self) -> Option<&str> {
        endpoint_template(&self.implementation)
    }

    /// Returns the HTTP method in upper case.
    #[must_use]
    pub fn method(&self) -> String {
        let request = self.implementation.get("request").and_then(Value::as_object);
        non_empty_text(&self.implementation, "method")
            .or_else(|| non_empty_text(request?, "method"))
            .unwrap_or(DEFAULT_METHOD)
            .to_ascii_uppercase()
    }

    /// Returns the schema of the arguments, always of type `object`.
    #[must_use]
    pub fn input_schema(&self) -> Value {
        match self.parameters.as_object() {
            Some(schema) if schema.contains_key("type") => self.parameters.clone(),
            Some(schema) => {
                let mut schema = schema.clone();
                schema.insert("type".into(), "object".into());
                schema.into()
            }
            None => no_parameters(),
        }
    }

    /// Returns the display name, or else the name.
    #[must_use]
    pub fn title(&self) -> &str {
        self.display_name.as_deref().unwrap_or(&self.name)
    }
}

/// Returns the schema of a tool without arguments.
pub(super) fn no_parameters() -> Value {
    json!({"type": "object", "properties": {}})
}

/// Returns a text field that is not empty.
pub(super) fn non_empty_text<'a>(fields: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    fields.get(key).and_then(Value::as_str).filter(|text| !text.is_empty())
}
