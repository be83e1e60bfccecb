//! Metadata of a tool's manifest. The manifest text is stored beside the skill's files and is not one of them, so
//! that no surface serves it verbatim: it may hold more than callers should see.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};

use crate::{
    Digest, Field, RuleError,
    limits::{MAX_MANIFEST_BYTES, MAX_TOOL_BYTES},
};

/// Reference to the stored text of a manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestSource {
    /// Content address.
    pub digest: Digest,
    /// Size in bytes.
    pub size: u64,
    /// `application/json` or `text/markdown`.
    pub media_type: String,
}

impl ManifestSource {
    /// Creates the reference for a manifest text.
    ///
    /// # Errors
    /// When there is none, or too much.
    pub fn new(text: &str, media_type: &str) -> Result<Self, RuleError> {
        let (len, max) = (text.len(), MAX_MANIFEST_BYTES);
        if text.is_empty() {
            return Err(RuleError::Empty(Field::Manifest));
        }
        if len > max {
            return Err(RuleError::TooLarge { field: Field::Manifest, len, max });
        }
        let digest = Digest::of(text.as_bytes());
        Ok(Self { digest, size: len as u64, media_type: media_type.to_owned() })
    }
}

/// Metadata of a manifest for listings and callers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolMeta {
    /// Reference to the manifest.
    pub source: ManifestSource,
    /// Display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Emoji shown beside the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emoji: Option<String>,
    /// Search keywords.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Description of what the tool does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// JSON Schema of the arguments.
    pub parameters: Value,
    /// Declared cost of a call; passed on and never charged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credits_per_call: Option<Number>,
}

impl ToolMeta {
    /// Checks that it is small enough to be kept in memory.
    ///
    /// # Errors
    /// When it is too large.
    pub fn check_size(self) -> Result<Self, RuleError> {
        let (len, max) = (self.bytes(), MAX_TOOL_BYTES);
        if len > max {
            return Err(RuleError::TooLarge { field: Field::Manifest, len, max });
        }
        Ok(self)
    }

    /// Returns the bytes of all texts.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let tags: usize = self.tags.iter().map(String::len).sum();
        text(&self.name)
            + text(&self.emoji)
            + text(&self.description)
            + tags
            + value_size(&self.parameters)
    }
}

/// Returns the approximate memory of an object's fields.
#[must_use]
pub fn fields_size(fields: &Map<String, Value>) -> usize {
    fields.iter().map(|(name, value)| name.len() + value_size(value)).sum()
}

/// Returns the approximate memory of a value.
#[must_use]
pub fn value_size(value: &Value) -> usize {
    let inside = match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(value_size).sum(),
        Value::Object(fields) => fields_size(fields),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    };
    inside + size_of::<Value>()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::SkillMeta;

    fn tool(source: &str, parameters: Value) -> ToolMeta {
        ToolMeta {
            source: ManifestSource::new(source, "application/json").unwrap(),
            name: Some("Global Weather".to_owned()),
            emoji: None,
            tags: vec![],
            description: None,
            parameters,
            credits_per_call: Some(1.into()),
        }
    }

    #[test]
    fn a_changed_manifest_changes_the_digest() {
        let mut meta = SkillMeta::default();
        let plain = meta.digest();
        meta.tool = Some(Box::new(tool("{}", json!({}))));
        let one = meta.digest();
        meta.tool = Some(Box::new(tool("{ }", json!({}))));
        assert!(plain != one && one != meta.digest());
        let json = serde_json::to_string(&meta).unwrap();
        assert_eq!(serde_json::from_str::<SkillMeta>(&json).unwrap(), meta);
    }

    #[test]
    fn bounded() {
        assert!(ManifestSource::new("", "application/json").is_err());
        assert!(ManifestSource::new(&"x".repeat(MAX_MANIFEST_BYTES + 1), "text/markdown").is_err());
        assert!(tool("{}", json!({"type": "object"})).check_size().is_ok());
        let many: Vec<u8> = vec![0; MAX_TOOL_BYTES];
        let error = tool("{}", json!(many)).check_size().expect_err("too large").to_string();
        assert!(error.starts_with("manifest too large"), "{error}");
    }
}
