//! The published contract, without the additions of this project.

use serde_json::{Map, Value};

/// Fields that bundles, tiers and versions add to the inputs of the contract.
const FIELDS: [&str; 7] =
    ["executable", "expected_version", "files", "key", "message", "source", "tier"];
const DEFINITIONS: [&str; 2] = ["FileContent", "Tier"];

/// Removes the added fields from an input schema. They are all optional, so callers of the published contract are
/// not affected.
///
/// # Panics
/// If an added field is required.
pub fn published_schema(mut schema: Value) -> Value {
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    assert!(!required.iter().any(|field| FIELDS.contains(&field.as_str().unwrap_or_default())));
    if let Some(fields) = schema.as_object_mut() {
        without(fields, "properties", &FIELDS);
        without(fields, "definitions", &DEFINITIONS);
    }
    schema
}

fn without(fields: &mut Map<String, Value>, group: &str, names: &[&str]) {
    let Some(members) = fields.get_mut(group).and_then(Value::as_object_mut) else { return };
    members.retain(|name, _| !names.contains(&name.as_str()));
    if members.is_empty() {
        fields.remove(group);
    }
}
