//! The published contract, beside which more may be offered.

use serde_json::{Map, Value};

/// What bundles and tiers add to the inputs of the contract.
const FIELDS: [&str; 3] = ["files", "key", "tier"];
const DEFINITIONS: [&str; 2] = ["FileContent", "Tier"];

/// The schema of an input without what was added to it. All of that may be left out, so it is no other contract
/// for those who do.
///
/// # Panics
/// When it may not be left out.
pub fn as_published(mut schema: Value) -> Value {
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
