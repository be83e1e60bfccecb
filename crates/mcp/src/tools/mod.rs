//! `tools/list` and `tools/call`.
//!
//! - `builtin`: three tools for hosts that cannot read resources
//! - `mdp`: four tools about live clients, while one is connected
//! - `worker`: functions of workers that ask to be offered to agents
//! - `stored`: skills with a manifest

mod builtin;
mod mdp;
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

pub(crate) use self::{
    builtin::{ReadReservation, read_one},
    worker::WorkerTools,
};
use crate::{
    budget::ResponseBudget,
    cursor::{self, Listing},
    error::invalid,
    server::{McpProfile, PAGE, Shared},
};

/// Returns a page of the tools: our own first, then those of workers and stored ones, sorted by name.
pub(crate) async fn list(
    shared: &Shared,
    budget: &ResponseBudget,
    cursor: Option<&str>,
) -> Result<ListToolsResult, ErrorData> {
    let after = cursor::decode(Listing::Tools, cursor)?;
    if shared.settings.profile == McpProfile::Mdp {
        return Ok(ListToolsResult::with_all_items(mdp::TOOLS.to_vec()));
    }
    let mdp_tools = mdp::available(shared).await;
    let workers = shared.worker_tools().await;
    let catalog = shared.tool_catalog().await;
    let own = builtin::TOOLS.iter().chain(mdp_tools).filter(|_| after.is_none());
    let mut tools: Vec<Tool> = own.cloned().collect();
    let worker_rows = workers
        .tools()
        .filter(|tool| after.as_deref().is_none_or(|last| &*tool.name > last))
        .map(|tool| (tool.name.to_string(), tool.clone()));
    let stored_rows = stored::rows_after(&catalog, &workers, after.as_deref());
    let bytes = |(_, tool): &stored::Row| {
        fields_size(&tool.input_schema) + tool.description.as_ref().map_or(0, |text| text.len())
    };
    // Our own tools are all on the first page, so a cursor always names one of the others.
    let (size, rows) = (PAGE.saturating_sub(tools.len()), merge(worker_rows, stored_rows));
    let page = cursor::page_by_bytes(Listing::Tools, rows, size, bytes, |(key, _)| key);
    let (rows, next_cursor) = page;
    budget.reserve(rows.iter().map(bytes).sum())?;
    tools.extend(rows.into_iter().map(|(_, tool)| tool));
    Ok(ListToolsResult { next_cursor, ..ListToolsResult::with_all_items(tools) })
}

/// Merges two sorted iterators; of equal keys the first iterator's comes first.
fn merge(
    first: impl Iterator<Item = stored::Row>,
    second: impl Iterator<Item = stored::Row>,
) -> impl Iterator<Item = stored::Row> {
    let (mut first, mut second) = (first.peekable(), second.peekable());
    std::iter::from_fn(move || match (first.peek(), second.peek()) {
        (Some((one, _)), Some((other, _))) if one > other => second.next(),
        (Some(_), _) => first.next(),
        (None, _) => second.next(),
    })
}

fn own_tools() -> impl Iterator<Item = &'static Tool> {
    builtin::TOOLS.iter().chain(mdp::TOOLS.iter())
}

/// Returns whether one of our own tools has a name.
fn is_own(name: &str) -> bool {
    own_tools().any(|tool| tool.name == name)
}

/// Returns one of our own tools or of a worker's, whose schema rmcp needs.
pub(crate) fn get(shared: &Shared, name: &str) -> Option<Tool> {
    own_tools()
        .find(|tool| tool.name == name)
        .cloned()
        .or_else(|| shared.cached_worker_tools().get(name).map(|(tool, _)| tool.clone()))
}

pub(crate) async fn call(
    shared: &Shared,
    budget: &ResponseBudget,
    request: CallToolRequestParams,
) -> Result<CallToolResult, ErrorData> {
    let arguments = request.arguments.unwrap_or_default();
    if shared.settings.profile == McpProfile::Mdp {
        return mdp::call(shared, budget, &request.name, arguments).await;
    }
    if let Some(result) = builtin::call(shared, budget, &request.name, &arguments).await {
        return Ok(result);
    }
    // Also without clients: the host may have listed the tools a moment ago.
    if mdp::is_tool(&request.name) && shared.skills.hosts_live_clients().await {
        return mdp::call(shared, budget, &request.name, arguments).await;
    }
    let workers = shared.worker_tools().await;
    if let Some((tool, function)) = workers.get(&request.name) {
        return worker::call(shared, budget, tool, function, arguments).await;
    }
    let called = stored::call(shared, budget, &workers, &request.name, arguments).await?;
    called.ok_or_else(|| invalid(format!("unknown tool: {}", request.name)))
}

/// Returns the fields of a schema.
fn object(schema: Value) -> JsonObject {
    match schema {
        Value::Object(fields) => fields,
        _ => JsonObject::new(),
    }
}

/// Returns a failed result, which the model reads and may be able to correct.
fn failed(message: impl Into<Cow<'static, str>>) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(message.into())])
}
