//! Stored tools: skills with a manifest. Each listing is built from the catalog, so it is never stale.
//!
//! A tool's name is its id, unless one of our own tools or of a worker's has that name. Then it gets a suffix with a
//! capital letter, which no id contains.

use std::{borrow::Cow, sync::Arc};

use rmcp::{
    ErrorData,
    model::{CallToolResult, ContentBlock, JsonObject, Tool, ToolAnnotations},
};
use serde_json::{Value, json};
use skills_core::{Coded, Digest, ToolMeta};
use skills_execution::ExecuteError;
use skills_manifest::{MAX_TOOL_NAME_BYTES, tool_name};
use skills_registry::{Catalog, RegistryError, SkillRow};

use super::{WorkerTools, is_own, worker::any_object};
use crate::{budget::ResponseBudget, error::to_mcp, server::Shared};

/// Suffix of a name that another tool has too.
const DUPLICATE_SUFFIX: &str = "-X";
/// Bytes of the largest response of an upstream, reserved before the call.
const MAX_UPSTREAM_BYTES: usize = 1 << 20;
/// Characters of the digest that distinguishes two long names.
const DIGEST_CHARS: usize = 16;
/// Characters of a long name before its suffix and digest.
const PREFIX_CHARS: usize = MAX_TOOL_NAME_BYTES - DUPLICATE_SUFFIX.len() - DIGEST_CHARS;

/// Row of a listing: its key, which is the sort order and the cursor, and the tool.
pub(super) type Row = (String, Tool);

/// Returns the stored tools after a key, in order.
pub(super) fn rows_after<'a>(
    catalog: &'a Catalog,
    workers: &'a WorkerTools,
    last: Option<&'a str>,
) -> impl Iterator<Item = Row> + 'a {
    // The tool of a worker comes before the stored one of the same name.
    let duplicate = last.filter(|last| workers.get(last).is_some());
    let duplicate = duplicate.and_then(|last| catalog.skill(last).filter(|row| *row.id == *last));
    duplicate.into_iter().chain(catalog.tools_after(last)).filter_map(|row| {
        let meta = tool_meta(row)?;
        let name = name(row, workers);
        // Directly after the id, so that rows stay sorted by id.
        let key = if *name == *row.id { name.clone() } else { format!("{}\0", row.id) };
        Some((key, tool(name, row, meta)))
    })
}

/// Resolves a name to a stored tool, by the rule of every surface.
fn find<'a>(
    catalog: &'a Catalog,
    workers: &WorkerTools,
    wanted: &str,
) -> Result<Option<&'a Arc<SkillRow>>, RegistryError> {
    let has_name = |row: &&Arc<SkillRow>| name(row, workers) == wanted;
    let row = match wanted.rsplit_once(DUPLICATE_SUFFIX) {
        None => catalog.skill(wanted),
        Some((id, "")) => catalog.skill(id).filter(has_name),
        Some((prefix, _)) if prefix.len() == PREFIX_CHARS => {
            let rows = catalog.tools_after(Some(prefix));
            rows.take_while(|row| row.id.starts_with(prefix)).find(has_name)
        }
        Some(_) => None,
    };
    // A corrupt entry may have been a tool: the call fails instead of resolving to nothing.
    row.map(|row| row.readable()).transpose()?;
    Ok(row.filter(|row| tool_meta(row).is_some()))
}

fn tool_meta(row: &SkillRow) -> Option<&ToolMeta> {
    row.readable().ok()?.meta.tool.as_deref()
}

fn name(row: &SkillRow, workers: &WorkerTools) -> String {
    let name = tool_name(None, &row.id);
    let is_duplicate = is_own(&name) || workers.get(&name).is_some();
    if is_duplicate { with_suffix(&name) } else { name }
}

/// Appends the suffix to a name; a long name is truncated and gets a digest.
fn with_suffix(name: &str) -> String {
    if name.len() + DUPLICATE_SUFFIX.len() <= MAX_TOOL_NAME_BYTES {
        return format!("{name}{DUPLICATE_SUFFIX}");
    }
    let digest = Digest::of(name.as_bytes()).to_string().to_ascii_uppercase();
    // A name is ASCII, so any byte is a boundary.
    format!("{}{DUPLICATE_SUFFIX}{}", &name[..PREFIX_CHARS], &digest[..DIGEST_CHARS])
}

fn tool(name: String, row: &SkillRow, meta: &ToolMeta) -> Tool {
    let description = meta.description.clone().or_else(|| row.description().map(Cow::into_owned));
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

/// Calls the stored tool of a name; `None` if there is none.
pub(super) async fn call(
    shared: &Shared,
    budget: &ResponseBudget,
    workers: &WorkerTools,
    name: &str,
    arguments: JsonObject,
) -> Result<Option<CallToolResult>, ErrorData> {
    let catalog = shared.skills.catalog().await.map_err(|error| to_mcp(&error))?;
    let called = match find(&catalog, workers, name) {
        Ok(None) => return Ok(None),
        Ok(Some(row)) => {
            budget.reserve_read(MAX_UPSTREAM_BYTES)?;
            shared.executor.call_tool(&shared.caller, &row.id, arguments).await
        }
        Err(error) => Err(error.into()),
    };
    Ok(Some(match called {
        Err(error) => failed(&error),
        Ok(data) => {
            budget.reserve_tree(&data)?;
            succeeded(data)
        }
    }))
}

/// Returns the response of an upstream, which is untrusted: it is passed on as data and never interpreted.
fn succeeded(data: Value) -> CallToolResult {
    let text = match &data {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
    result.structured_content = Some(json!({ "data": data }));
    result
}

fn failed(error: &ExecuteError) -> CallToolResult {
    let mut structure = json!({ "code": error.code_text(), "error": error.to_string() });
    let mut text = format!("{error} ({})", error.code_text());
    if let Some(hint) = error.hint() {
        structure["hint"] = json!(hint);
        text = format!("{text}: {hint}");
    }
    if let Some(details) = error.details() {
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
    fn a_duplicate_name_gets_a_suffix_that_no_id_has() {
        assert_eq!(with_suffix("list_skills"), "list_skills-X");
        let (one, other) = ("a".repeat(64), format!("{}b", "a".repeat(63)));
        for name in [&one, &other] {
            assert_eq!(with_suffix(name).len(), 64);
            assert!(with_suffix(name).contains(DUPLICATE_SUFFIX));
        }
        assert_ne!(with_suffix(&one), with_suffix(&other));
    }
}
