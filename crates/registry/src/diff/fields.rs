//! Fields of the frontmatter, or of the definition of a prompt or collection, that differ.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Map, Value, json};
use skills_agent_skills::frontmatter;

use super::{ComparedSkill, FieldChange};

pub(super) fn of_skills(from: &ComparedSkill, to: &ComparedSkill) -> Vec<FieldChange> {
    let mut changes = changes(&fields(from), &fields(to));
    // The text of a manifest is not shown.
    let manifest =
        |input: &ComparedSkill| input.manifest_digest().map(|digest| json!(digest.to_string()));
    if from.has_other_manifest(to) {
        let field = "manifest".to_owned();
        changes.push(FieldChange { field, before: manifest(from), after: manifest(to) });
    }
    changes
}

/// Compares the fields of prompts or collections.
pub(super) fn of_definitions<T: Serialize>(from: &T, to: &T) -> Vec<FieldChange> {
    let fields = |definition: &T| match serde_json::to_value(definition) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    changes(&fields(from), &fields(to))
}

/// Returns the fields of the root document. Those of a mapping are fields of their own: `metadata.author`.
fn fields(input: &ComparedSkill) -> Map<String, Value> {
    let fields = frontmatter::fields(input.root()).unwrap_or_default();
    let flatten = |(name, value): (String, Value)| match value {
        Value::Object(inner) => {
            let inner = inner.into_iter().map(|(key, value)| (format!("{name}.{key}"), value));
            inner.collect::<Vec<_>>()
        }
        value => vec![(name, value)],
    };
    fields.into_iter().flat_map(flatten).collect()
}

fn changes(before: &Map<String, Value>, after: &Map<String, Value>) -> Vec<FieldChange> {
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let differing = names.into_iter().filter(|name| before.get(*name) != after.get(*name));
    differing
        .map(|name| FieldChange {
            field: name.clone(),
            before: before.get(name).cloned(),
            after: after.get(name).cloned(),
        })
        .collect()
}
