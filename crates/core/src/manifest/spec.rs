//! A tool as everything else sees it, whatever format its manifest has.
//!
//! The tier is not part of it: that comes from where the manifest is stored, and is added on the wire.

use std::{borrow::Cow, collections::BTreeMap};

use serde::Serialize;
use serde_json::{Map, Number, Value, json};

use crate::{Tier, template::endpoint_of};

/// The name of a tool that does not say what it is called.
pub const UNKNOWN_NAME: &str = "Unknown_Skill";
/// The method of a tool that does not name one.
const DEFAULT_METHOD: &str = "POST";

/// A tool. The field names are those of the wire.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SkillSpec {
    /// Its id, where the manifest or the entry has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The id, or what stands for it: `meta.name` in JSON, the heading in Markdown.
    pub name: String,
    /// The name that people see.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// What it does; empty when nobody said.
    pub description: String,
    /// The JSON Schema of its arguments.
    pub parameters: Value,
    /// What its answer looks like; `null` in Markdown that does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub returns: Option<Value>,
    /// How it is called. There always is a `type`.
    pub implementation: Map<String, Value>,
    /// Documentation that came with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub docs: Option<Docs>,
    /// A pictogram.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub emoji: Option<String>,
    /// What it is about.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The identity its publisher gave it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skill_uid: Option<String>,
    /// What a call costs, in the publisher's unit: metadata, nothing is charged. Never negative.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credits_per_call: Option<Number>,
    /// The formatter its publisher uses: metadata, nothing is run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugin_hook: Option<String>,
    /// Which parts of the answer are kept: name to path.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub response_mapping: BTreeMap<String, String>,
}

/// Documentation of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Docs {
    /// In a sentence.
    pub short: String,
    /// In Markdown.
    pub full_md: String,
}

/// A tool together with the tier it was read from.
#[derive(Debug, Clone, Serialize)]
pub struct OnWire<'a> {
    #[serde(flatten)]
    spec: Cow<'a, SkillSpec>,
    source: &'static str,
    #[serde(rename = "isOfficial")]
    is_official: bool,
}

impl SkillSpec {
    /// As it goes to a caller: without literal credentials, and with the tier it was read from.
    #[must_use]
    pub fn on_wire(&self, tier: Tier) -> OnWire<'_> {
        let is_official = tier == Tier::Official;
        OnWire { spec: self.redacted(), source: tier.as_str(), is_official }
    }

    /// The URL template that is called.
    #[must_use]
    pub fn endpoint(&self) -> Option<&str> {
        endpoint_of(&self.implementation)
    }

    /// The method it is called with, in upper case.
    #[must_use]
    pub fn method(&self) -> String {
        let request = self.implementation.get("request").and_then(Value::as_object);
        text_of(&self.implementation, "method")
            .or_else(|| text_of(request?, "method"))
            .unwrap_or(DEFAULT_METHOD)
            .to_ascii_uppercase()
    }

    /// The schema of its arguments for who needs one of an object.
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

    /// The name that people see, whichever it is.
    #[must_use]
    pub fn title(&self) -> &str {
        self.display_name.as_deref().unwrap_or(&self.name)
    }
}

/// The schema of a tool that takes no arguments.
pub(super) fn no_parameters() -> Value {
    json!({"type": "object", "properties": {}})
}

/// A text that is there and not empty.
pub(super) fn text_of<'a>(fields: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    fields.get(key).and_then(Value::as_str).filter(|text| !text.is_empty())
}
