//! Tools: three of our own, for hosts that cannot read resources, four about live clients where there may be any, the
//! functions of workers that ask for it, and the skills that have a manifest.

mod own;
mod paths;
mod stored;
mod worker;

use std::borrow::Cow;

use rmcp::{
    ErrorData,
    model::{
        CallToolRequestParams, CallToolResult, ContentBlock, JsonObject, ListToolsResult, Tool,
    },
};

use serde_json::Value;
use skills_core::tool::fields_size;

pub(crate) use self::worker::WorkerTools;
use crate::{
    cursor::{self, Listing},
    error::{invalid, to_mcp},
    server::{PAGE, Profile, Shared},
};

/// A page of the tools: ours first, then those of workers and those that are stored, in the order of their names.
pub(crate) async fn list(
    shared: &Shared,
    cursor: Option<&str>,
) -> Result<ListToolsResult, ErrorData> {
    let after = cursor::read(Listing::Tools, cursor)?;
    if shared.settings.profile == Profile::Mdp {
        return Ok(ListToolsResult::with_all_items(paths::TOOLS.to_vec()));
    }
    let of_clients = paths::offered(shared).await;
    let workers = shared.worker_tools().await;
    let catalog = shared.catalog_of_tools().await;
    let ours = own::TOOLS.iter().chain(of_clients).filter(|_| after.is_none());
    let mut tools: Vec<Tool> = ours.cloned().collect();
    let theirs =
        workers.tools().filter(|tool| after.as_deref().is_none_or(|last| &*tool.name > last));
    let theirs = theirs.map(|tool| (tool.name.to_string(), tool.clone()));
    let stored = stored::after(&catalog, &workers, after.as_deref());
    let bytes = |(_, tool): &stored::Row| {
        fields_size(&tool.input_schema) + tool.description.as_ref().map_or(0, |text| text.len())
    };
    // Ours are on the first page, whatever else is: a cursor is always the place of one of the others.
    let (room, rows) = (PAGE.saturating_sub(tools.len()), merged(theirs, stored));
    let page = cursor::page_within(Listing::Tools, rows, room, bytes, |(key, _)| key);
    let (rows, next_cursor) = page;
    tools.extend(rows.into_iter().map(|(_, tool)| tool));
    Ok(ListToolsResult { next_cursor, ..ListToolsResult::with_all_items(tools) })
}

/// Two sorted lists as one.
fn merged(
    one: impl Iterator<Item = stored::Row>,
    other: impl Iterator<Item = stored::Row>,
) -> impl Iterator<Item = stored::Row> {
    let (mut one, mut other) = (one.peekable(), other.peekable());
    std::iter::from_fn(move || match (one.peek(), other.peek()) {
        (Some((first, _)), Some((second, _))) if first > second => other.next(),
        (Some(_), _) => one.next(),
        (None, _) => other.next(),
    })
}

/// The tool of a name, for who must know its schema.
pub(crate) fn get(shared: &Shared, name: &str) -> Option<Tool> {
    own::TOOLS
        .iter()
        .chain(paths::TOOLS.iter())
        .find(|tool| tool.name == name)
        .cloned()
        .or_else(|| shared.known_worker_tools().get(name).map(|(tool, _)| tool.clone()))
}

pub(crate) async fn call(
    shared: &Shared,
    request: CallToolRequestParams,
) -> Result<CallToolResult, ErrorData> {
    let arguments = request.arguments.unwrap_or_default();
    if shared.settings.profile == Profile::Mdp {
        let result = paths::call(shared, &request.name, &arguments).await;
        return Ok(result.unwrap_or_else(|| paths::unknown(&request.name)));
    }
    if let Some(result) = own::call(shared, &request.name, &arguments).await {
        return Ok(result);
    }
    if !paths::offered(shared).await.is_empty()
        && let Some(result) = paths::call(shared, &request.name, &arguments).await
    {
        return Ok(result);
    }
    let workers = shared.worker_tools().await;
    if let Some((tool, function)) = workers.get(&request.name) {
        return Ok(worker::call(shared, tool, function, arguments).await);
    }
    let called = stored::call(shared, &workers, &request.name, arguments).await;
    called
        .map_err(|error| to_mcp(&error))?
        .ok_or_else(|| invalid(format!("unknown tool: {}", request.name)))
}

/// Whether a tool of our own has that name.
fn is_ours(name: &str) -> bool {
    own::TOOLS.iter().chain(paths::TOOLS.iter()).any(|tool| tool.name == name)
}

/// The object that a schema is.
fn object(schema: Value) -> JsonObject {
    match schema {
        Value::Object(fields) => fields,
        _ => JsonObject::new(),
    }
}

/// A failure that the model should read, and can perhaps mend.
fn failed(message: impl Into<Cow<'static, str>>) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(message.into())])
}
