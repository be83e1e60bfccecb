//! Skills that have a manifest as tools. The list is made of the catalog each time: there is nothing that could
//! differ from it.
//!
//! An id is a legal name of a tool and is the tool's name, unless a tool of ours or of a worker has that name.
//! Then it is called something that no id can be: capital letters stand in none.

use std::sync::Arc;

use rmcp::model::{CallToolResult, ContentBlock, JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};
use skills_core::{
    Digest, ToolMeta,
    manifest::{MAX_TOOL_NAME_BYTES, tool_name},
};
use skills_registry::{Catalog, RegistryError, SkillRow};

use super::{WorkerTools, is_ours, worker::any_object};
use crate::server::Shared;

/// What a name ends with that another tool has too.
const MARK: &str = "-X";
/// How much of a digest tells two long names apart.
const DIGEST_CHARS: usize = 16;

/// A row of a listing: what it is sorted by and where the next page begins, and the tool.
pub(super) type Row = (String, Tool);

/// The stored tools after a place in the list, in order.
pub(super) fn after<'a>(
    catalog: &'a Catalog,
    workers: &'a WorkerTools,
    last: Option<&'a str>,
) -> impl Iterator<Item = Row> + 'a {
    // The tool of a worker comes before the stored one of the same name.
    let twin = last.filter(|last| workers.get(last).is_some());
    let twin = twin.and_then(|last| catalog.skill(last).filter(|row| *row.id == *last));
    twin.into_iter().chain(catalog.tools_after(last)).filter_map(|row| {
        let meta = readable(row)?;
        let name = name(row, workers);
        // Right behind the id, so that the order is that of the ids.
        let key = if *name == *row.id { name.clone() } else { format!("{}\0", row.id) };
        Some((key, tool(name, row, meta)))
    })
}

/// The stored tool that a name leads to, by the rule of every surface.
fn find<'a>(
    catalog: &'a Catalog,
    workers: &WorkerTools,
    wanted: &str,
) -> Result<Option<&'a Arc<SkillRow>>, RegistryError> {
    let is_it = |row: &&Arc<SkillRow>| name(row, workers) == wanted;
    let kept = MAX_TOOL_NAME_BYTES - MARK.len() - DIGEST_CHARS;
    let row = match wanted.rsplit_once(MARK) {
        None => catalog.skill(wanted),
        Some((id, "")) => catalog.skill(id).filter(is_it),
        Some((start, _)) if start.len() == kept => {
            let rows = catalog.tools_after(Some(start));
            rows.take_while(|row| row.id.starts_with(start)).find(is_it)
        }
        Some(_) => None,
    };
    // What is damaged may have been a tool, and is not passed over.
    row.map(|row| row.readable()).transpose()?;
    Ok(row.filter(|row| readable(row).is_some()))
}

fn readable(row: &SkillRow) -> Option<&ToolMeta> {
    row.readable().ok()?.meta.tool.as_deref()
}

fn name(row: &SkillRow, workers: &WorkerTools) -> String {
    let name = tool_name(None, &row.id);
    let is_taken = is_ours(&name) || workers.get(&name).is_some();
    if is_taken { marked(&name) } else { name }
}

/// A name for what cannot have this one.
fn marked(name: &str) -> String {
    if name.len() + MARK.len() <= MAX_TOOL_NAME_BYTES {
        return format!("{name}{MARK}");
    }
    let digest = Digest::of(name.as_bytes()).to_string().to_ascii_uppercase();
    // A name is ASCII, so any byte is a boundary.
    let kept = &name[..MAX_TOOL_NAME_BYTES - MARK.len() - DIGEST_CHARS];
    format!("{kept}{MARK}{}", &digest[..DIGEST_CHARS])
}

fn tool(name: String, row: &SkillRow, meta: &ToolMeta) -> Tool {
    let description = meta.description.clone().or_else(|| row.meta.description.clone());
    let description = description.unwrap_or_else(|| format!("Calls the tool {}.", row.id));
    let input = match &meta.parameters {
        Value::Object(schema) if schema.get("type") == Some(&json!("object")) => schema.clone(),
        _ => any_object(),
    };
    let title = meta.name.clone().unwrap_or_else(|| row.title().to_owned());
    let annotations = ToolAnnotations::with_title(&title).open_world(true);
    let mut tool = Tool::new(name, description, input).with_annotations(annotations);
    tool.title = Some(title);
    tool
}

/// Calls the stored tool of a name; `None` when there is none.
pub(super) async fn call(
    shared: &Shared,
    workers: &WorkerTools,
    name: &str,
    arguments: JsonObject,
) -> Result<Option<CallToolResult>, RegistryError> {
    let catalog = shared.skills.catalog().await?;
    let called = match find(&catalog, workers, name) {
        Ok(None) => return Ok(None),
        Ok(Some(row)) => shared.skills.call_tool(&row.id, arguments).await,
        Err(error) => Err(error),
    };
    Ok(Some(called.map_or_else(|error| failed(&error), succeeded)))
}

/// What a stranger's server answered is shown as it is and never taken for more than it is.
fn succeeded(data: Value) -> CallToolResult {
    let text = match &data {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
    result.structured_content = Some(json!({ "data": data }));
    result
}

fn failed(error: &RegistryError) -> CallToolResult {
    let mut structure = json!({ "code": error.code(), "error": error.to_string() });
    let mut text = format!("{error} ({})", error.code());
    if let Some(hint) = error.hint() {
        structure["hint"] = json!(hint);
        text = format!("{text}: {hint}");
    }
    let details = match error {
        RegistryError::Arguments { violations, .. } => Some(json!(violations)),
        RegistryError::Execute(error) => error.details.clone(),
        _ => None,
    };
    if let Some(details) = details {
        structure["details"] = details;
    }
    let mut result = CallToolResult::error(vec![ContentBlock::text(text)]);
    result.structured_content = Some(structure);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_taken_becomes_one_that_no_id_is() {
        assert_eq!(marked("list_skills"), "list_skills-X");
        let (one, other) = ("a".repeat(64), format!("{}b", "a".repeat(63)));
        for name in [&one, &other] {
            assert_eq!(marked(name).len(), 64);
            assert!(marked(name).contains(MARK));
        }
        assert_ne!(marked(&one), marked(&other));
    }
}
