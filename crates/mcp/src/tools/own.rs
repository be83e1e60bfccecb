//! `list_skills`, `read_skill` and `search_skills`.

use std::{
    fmt::Write as _,
    sync::{Arc, LazyLock},
};

use futures_util::{StreamExt as _, stream};
use rmcp::model::{CallToolResult, ContentBlock, JsonObject, Tool, ToolAnnotations};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use skills_core::uri::SCHEME;
use skills_registry::{Catalog, SkillRow, search::search};

use super::{failed, object};
use crate::{server::Shared, skills_extension};

/// How much of a host's context a listing takes up unless it says how much it may.
const DEFAULT_BUDGET: usize = 2000;
/// Characters that make a token, roughly and on the safe side.
const CHARS_PER_TOKEN: usize = 4;
const DEFAULT_LIMIT: usize = 10;
const MAX_LIMIT: usize = 100;
/// No host has more context to give.
const MAX_BUDGET: usize = 100_000;
const MAX_URIS: usize = 50;
/// How many of them are read at once.
const READ_AHEAD: usize = 8;
/// The line that says how many were left out.
const LEFT_OUT_CHARS: usize = 70;
/// What stands around the entries of the structured answer.
const AROUND_CHARS: usize = 60;
/// Above this many skills a search is not done between two steps of other people's requests.
const SEARCH_INLINE: usize = 2_000;

pub(super) static TOOLS: LazyLock<[Tool; 3]> = LazyLock::new(|| {
    [
        tool(
            "list_skills",
            "List skills",
            "List the available skills, one line each, within a budget of tokens. Says how many were left out.",
            json!({
                "type": "object",
                "properties": {
                    "budget_tokens": {
                        "type": "integer",
                        "minimum": 1,
                        "maximum": MAX_BUDGET,
                        "default": DEFAULT_BUDGET,
                        "description": "How many tokens the answer may take up, roughly."
                    }
                },
                "additionalProperties": false
            }),
            listing_schema(),
        ),
        tool(
            "read_skill",
            "Read skills",
            "Read one or more skills or sections in full, by URI (iii://ID or iii://ID/FUNCTION). Read a skill before you do what it is about.",
            json!({
                "type": "object",
                "properties": {
                    "uri": { "type": "string", "description": "What to read, such as iii://brain." },
                    "uris": {
                        "type": "array",
                        "items": { "type": "string" },
                        "minItems": 1,
                        "maxItems": MAX_URIS,
                        "description": "Several to read at once; each comes under a heading of its own."
                    }
                },
                "additionalProperties": false
            }),
            json!({
                "type": "object",
                "properties": {
                    "documents": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "properties": {
                                "uri": { "type": "string" },
                                "mimeType": { "type": "string" },
                                "text": { "type": "string" },
                                "error": { "type": "string" }
                            },
                            "required": ["uri"]
                        }
                    }
                },
                "required": ["documents"]
            }),
        ),
        tool(
            "search_skills",
            "Search skills",
            "Find skills by words in their id, title or description; the best match comes first.",
            json!({
                "type": "object",
                "properties": {
                    "query": { "type": "string", "description": "Words to look for." },
                    "limit": {
                        "type": "integer",
                        "minimum": 1,
                        "maximum": MAX_LIMIT,
                        "default": DEFAULT_LIMIT
                    }
                },
                "required": ["query"],
                "additionalProperties": false
            }),
            listing_schema(),
        ),
    ]
});

fn listing_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "skills": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "id": { "type": "string" },
                        "uri": { "type": "string" },
                        "title": { "type": "string" },
                        "description": { "type": "string" }
                    },
                    "required": ["id", "uri", "title"]
                }
            },
            "total": { "type": "integer", "description": "How many skills there are." },
            "omitted": { "type": "integer", "description": "How many did not fit." }
        },
        "required": ["skills", "total", "omitted"]
    })
}

fn tool(
    name: &'static str,
    title: &str,
    description: &'static str,
    input: Value,
    output: Value,
) -> Tool {
    let annotations =
        ToolAnnotations::with_title(title).read_only(true).idempotent(true).open_world(false);
    let mut tool = Tool::new(name, description, object(input)).with_annotations(annotations);
    tool.title = Some(title.to_owned());
    tool.output_schema = Some(Arc::new(object(output)));
    tool
}

#[derive(Deserialize)]
struct ListInput {
    budget_tokens: Option<usize>,
}

#[derive(Deserialize)]
struct ReadInput {
    uri: Option<String>,
    uris: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct SearchInput {
    query: String,
    limit: Option<usize>,
}

/// Calls a tool of ours; `None` when the name is none.
pub(super) async fn call(
    shared: &Shared,
    name: &str,
    arguments: &JsonObject,
) -> Option<CallToolResult> {
    let result = match name {
        "list_skills" => match parse(arguments) {
            Ok(input) => list(shared, input).await,
            Err(reason) => Err(reason),
        },
        "read_skill" => match parse(arguments) {
            Ok(input) => read(shared, input).await,
            Err(reason) => Err(reason),
        },
        "search_skills" => match parse(arguments) {
            Ok(input) => find(shared, input).await,
            Err(reason) => Err(reason),
        },
        _ => return None,
    };
    Some(result.unwrap_or_else(|reason| failed(format!("{name}: {reason}"))))
}

fn parse<T: DeserializeOwned>(arguments: &JsonObject) -> Result<T, String> {
    serde_json::from_value(Value::Object(arguments.clone())).map_err(|error| error.to_string())
}

async fn list(shared: &Shared, input: ListInput) -> Result<CallToolResult, String> {
    let budget = input.budget_tokens.unwrap_or(DEFAULT_BUDGET).clamp(1, MAX_BUDGET);
    let catalog = shared.skills.catalog().await.map_err(|error| error.to_string())?;
    let total = for_models(&catalog);
    // What is stored first: a client may have any number of skills, and any id.
    let rows =
        |is_live: bool| catalog.skills_after(None).filter(move |row| row.is_live() == is_live);
    let rows = rows(false).chain(rows(true)).filter(|row| is_for_models(row));
    Ok(listing(rows, total, total, budget * CHARS_PER_TOKEN))
}

/// How many skills there are for models.
fn for_models(catalog: &Catalog) -> usize {
    catalog.skills_after(None).filter(|row| is_for_models(row)).count()
}

/// A skill that says it is for people is not put before a model; who names it can read it.
fn is_for_models(row: &SkillRow) -> bool {
    row.meta.agent.as_ref().is_none_or(|agent| agent.model_invocable)
}

async fn find(shared: &Shared, input: SearchInput) -> Result<CallToolResult, String> {
    let limit = input.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT);
    let catalog = shared.skills.catalog().await.map_err(|error| error.to_string())?;
    let is_quick = catalog.skill_count() <= SEARCH_INLINE;
    let answer = move || {
        let mut hits = search(&catalog, &input.query, usize::MAX);
        hits.retain(|row| is_for_models(row));
        hits.truncate(limit);
        let count = hits.len();
        listing(hits.into_iter(), count, for_models(&catalog), usize::MAX)
    };
    if is_quick {
        return Ok(answer());
    }
    tokio::task::spawn_blocking(answer).await.map_err(|_| "the search was ended".to_owned())
}

/// As many of `count` rows as fit, and how many did not. A host may give its model the text or the structure;
/// neither is larger than the budget.
fn listing<'a>(
    rows: impl Iterator<Item = &'a Arc<SkillRow>>,
    count: usize,
    total: usize,
    budget_chars: usize,
) -> CallToolResult {
    let mut text = String::new();
    let mut shown = Vec::new();
    // What stands around the rows has to fit too.
    let (mut lines, mut entries) = (LEFT_OUT_CHARS, AROUND_CHARS);
    for row in rows {
        let (line, entry) = (line(row), entry(row));
        lines += line.chars().count();
        // Entries are written as JSON; the comma between two counts.
        entries += entry.to_string().chars().count() + 1;
        if lines.max(entries) > budget_chars {
            break;
        }
        text.push_str(&line);
        shown.push(entry);
    }
    let left_out = count - shown.len();
    if left_out > 0 {
        let _ = writeln!(text, "{left_out} more left out; search_skills finds them by words.");
    } else if shown.is_empty() {
        text.push_str(if total == 0 { "No skills are registered." } else { "No skill matches." });
    }
    let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
    result.structured_content =
        Some(json!({ "skills": shown, "total": total, "omitted": left_out }));
    result
}

fn line(row: &SkillRow) -> String {
    match row.meta.description.as_deref().or(row.meta.title.as_deref()) {
        Some(about) => format!("- {SCHEME}{}: {about}\n", row.id),
        None => format!("- {SCHEME}{}\n", row.id),
    }
}

fn entry(row: &SkillRow) -> Value {
    let mut entry = json!({
        "id": &*row.id,
        "uri": format!("{SCHEME}{}", row.id),
        "title": row.title(),
    });
    if let Some(description) = &row.meta.description {
        entry["description"] = json!(description);
    }
    entry
}

async fn read(shared: &Shared, input: ReadInput) -> Result<CallToolResult, String> {
    let uris = match (input.uri, input.uris) {
        (Some(uri), None) => vec![uri],
        (None, Some(uris)) if !uris.is_empty() && uris.len() <= MAX_URIS => uris,
        (None, Some(_)) => return Err(format!("uris takes 1 to {MAX_URIS} URIs")),
        (Some(_), Some(_)) => return Err("give either uri or uris".to_owned()),
        (None, None) => return Err("uri or uris is needed".to_owned()),
    };
    let has_headings = uris.len() > 1;
    let mut text = String::new();
    let mut documents = Vec::new();
    let mut failures = 0;
    let read: Vec<_> = stream::iter(uris)
        .map(|uri| async move { (document(shared, &uri).await, uri) })
        .buffered(READ_AHEAD)
        .collect()
        .await;
    for (read, uri) in read {
        if has_headings {
            let _ = writeln!(text, "# {uri}\n");
        }
        match read {
            Ok((mime_type, body)) => {
                text.push_str(&body);
                documents.push(json!({ "uri": uri, "mimeType": mime_type, "text": body }));
            }
            Err(reason) => {
                failures += 1;
                text.push_str(&reason);
                documents.push(json!({ "uri": uri, "error": reason }));
            }
        }
        if has_headings {
            text.push_str("\n\n");
        }
    }
    let content = vec![ContentBlock::text(text.trim_end().to_owned())];
    // Part of an answer is better than none.
    let mut result = match failures == documents.len() {
        true => CallToolResult::error(content),
        false => CallToolResult::success(content),
    };
    result.structured_content = Some(json!({ "documents": documents }));
    Ok(result)
}

async fn document(shared: &Shared, uri: &str) -> Result<(String, String), String> {
    let resource = if uri.starts_with(skills_extension::SCHEME) {
        skills_extension::read(shared, uri).await.map_err(|error| error.message.into_owned())?
    } else {
        // A model that has read a listing may give the bare id.
        let uri = if uri.contains("://") { uri.to_owned() } else { format!("{SCHEME}{uri}") };
        shared.skills.read(&uri).await.map_err(|error| error.to_string())?
    };
    if resource.text().is_none() {
        return Err(format!("{uri} is not text but {}", resource.mime_type));
    }
    Ok((resource.mime_type.clone(), resource.into_text()))
}
