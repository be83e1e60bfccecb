//! Generated document of a tool without one, so that readers of skills can read tools too.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::{
    markdown_escape::{code, line, paragraphs},
    spec::SkillSpec,
};
use skills_core::{SkillId, limits::MAX_SKILL_BYTES};

/// Longest cell or tag and longest title, in characters.
const MAX_CELL_CHARS: usize = 300;
const MAX_TITLE_CHARS: usize = 120;
/// Longest description, in bytes.
const MAX_DESCRIPTION_BYTES: usize = 48 * 1024;
/// Size of the document after which no further parameter is listed, in bytes. The rest of the document fits the
/// remaining space.
const MAX_TABLE_END: usize = 160 * 1024;
/// Most arguments of the example.
const MAX_EXAMPLE_ARGUMENTS: usize = 20;

/// Generates the document of a tool: description, parameters and an example call. At most [`MAX_SKILL_BYTES`].
#[must_use]
pub fn tool_document(spec: &SkillSpec, id: &SkillId) -> String {
    let title = line(spec.title(), MAX_TITLE_CHARS);
    let emoji = spec.emoji.as_deref().map(|emoji| line(emoji, MAX_TITLE_CHARS));
    let mut out = String::from("#");
    for part in [emoji.as_deref(), Some(title.as_str())].into_iter().flatten() {
        out.push(' ');
        out.push_str(part);
    }
    out.push_str("\n\n");
    if !spec.description.trim().is_empty() {
        out.push_str(&paragraphs(&spec.description, MAX_DESCRIPTION_BYTES));
        out.push_str("\n\n");
    }
    if !spec.tags.is_empty() {
        let tags: Vec<String> = spec.tags.iter().map(|tag| line(tag, MAX_CELL_CHARS)).collect();
        let _ = writeln!(out, "Tags: {}\n", tags.join(", "));
    }
    let properties = spec.parameters.get("properties").and_then(Value::as_object);
    let required: Vec<&str> = spec
        .parameters
        .get("required")
        .and_then(Value::as_array)
        .map_or_else(Vec::new, |names| names.iter().filter_map(Value::as_str).collect());
    out.push_str("## Parameters\n\n");
    match properties.filter(|properties| !properties.is_empty()) {
        Some(properties) => table(&mut out, properties, &required),
        None => out.push_str("None.\n"),
    }
    how_to_call(&mut out, id, &example(properties, &required));
    if let Some(docs) = spec.docs.as_ref().filter(|docs| !docs.full_md.trim().is_empty()) {
        let heading = "\n## Documentation\n\n";
        let room = MAX_SKILL_BYTES.saturating_sub(out.len() + heading.len() + "…\n".len());
        let kept = &docs.full_md[..docs.full_md.floor_char_boundary(room)];
        out.push_str(heading);
        out.push_str(kept.trim());
        out.push_str(if kept.len() < docs.full_md.len() { "…\n" } else { "\n" });
    }
    out
}

fn table(out: &mut String, properties: &Map<String, Value>, required: &[&str]) {
    out.push_str(
        "| name | type | required | description | default or values |\n|---|---|---|---|---|\n",
    );
    for (index, (name, schema)) in properties.iter().enumerate() {
        if out.len() > MAX_TABLE_END {
            let _ = writeln!(out, "\n{} more are not listed.", properties.len() - index);
            return;
        }
        let description = schema.get("description").and_then(Value::as_str).unwrap_or_default();
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} |",
            code(name, MAX_CELL_CHARS),
            line(&kind(schema), MAX_CELL_CHARS),
            if required.contains(&name.as_str()) { "yes" } else { "no" },
            line(description, MAX_CELL_CHARS),
            line(&values(schema), MAX_CELL_CHARS),
        );
    }
}

fn kind(schema: &Value) -> String {
    match schema.get("type") {
        Some(Value::String(kind)) if kind == "array" => match schema.pointer("/items/type") {
            Some(Value::String(item)) => format!("array of {item}"),
            _ => kind.clone(),
        },
        Some(Value::String(kind)) => kind.clone(),
        Some(Value::Array(kinds)) => {
            kinds.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or ")
        }
        _ => "any".to_owned(),
    }
}

fn values(schema: &Value) -> String {
    let values = match schema.get("enum").and_then(Value::as_array) {
        Some(values) => {
            // More are cut anyway.
            let shown: Vec<String> =
                values.iter().take(MAX_CELL_CHARS).map(Value::to_string).collect();
            format!("one of {}", shown.join(", "))
        }
        None => String::new(),
    };
    match schema.get("default") {
        Some(default) if values.is_empty() => format!("default {default}"),
        Some(default) => format!("{values}; default {default}"),
        None => values,
    }
}

/// Builds example arguments: the required ones, with values that fit the schema.
fn example(properties: Option<&Map<String, Value>>, required: &[&str]) -> Value {
    let argument = |name: &&str| {
        let schema = properties.and_then(|properties| properties.get(*name));
        let is_short = |value: &&Value| value.to_string().len() <= MAX_CELL_CHARS;
        let given = ["/default", "/example", "/examples/0", "/enum/0", "/const"]
            .into_iter()
            .find_map(|at| schema?.pointer(at).filter(is_short).cloned());
        let by_type = || match schema.and_then(|schema| schema.get("type")).and_then(Value::as_str)
        {
            Some("integer" | "number") => json!(1),
            Some("boolean") => json!(true),
            Some("array") => json!([]),
            Some("object") => json!({}),
            _ => json!("…"),
        };
        ((*name).to_owned(), given.unwrap_or_else(by_type))
    };
    let is_short = |name: &&&str| name.len() <= MAX_CELL_CHARS;
    required.iter().filter(is_short).take(MAX_EXAMPLE_ARGUMENTS).map(argument).collect()
}

fn how_to_call(out: &mut String, id: &SkillId, arguments: &Value) {
    let call = json!({"payload": arguments});
    let _ = write!(
        out,
        "\n## How to call it\n\nCall the tool `{id}` with the arguments, or `POST /v1/execute/{id}` with:\n\n\
         ```json\n{call:#}\n```\n",
    );
}
