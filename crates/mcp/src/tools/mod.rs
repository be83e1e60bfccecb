//! Tools: three of our own, for hosts that cannot read resources, and the functions of workers that ask
//! for it.

mod own;
mod worker;

use std::borrow::Cow;

use rmcp::{
    ErrorData,
    model::{CallToolRequestParams, CallToolResult, ContentBlock, ListToolsResult, Tool},
};

pub(crate) use self::worker::WorkerTools;
use crate::{
    cursor::{self, Listing},
    error::invalid,
    server::{PAGE, Shared},
};

/// A page of the tools: ours first, then those of workers in the order of their names.
pub(crate) async fn list(
    shared: &Shared,
    cursor: Option<&str>,
) -> Result<ListToolsResult, ErrorData> {
    let after = cursor::read(Listing::Tools, cursor)?;
    let workers = shared.worker_tools().await;
    let ours = own::TOOLS.iter().filter(|_| after.is_none());
    let theirs =
        workers.tools().filter(|tool| after.as_deref().is_none_or(|last| &*tool.name > last));
    // Ours fit on the first page, so a cursor is always the name of one of theirs.
    let rows = ours.chain(theirs).cloned();
    let (tools, next_cursor) = cursor::page(Listing::Tools, rows, PAGE, |tool| &tool.name);
    Ok(ListToolsResult { next_cursor, ..ListToolsResult::with_all_items(tools) })
}

/// The tool of a name, for who must know its schema.
pub(crate) fn get(shared: &Shared, name: &str) -> Option<Tool> {
    own::TOOLS
        .iter()
        .find(|tool| tool.name == name)
        .cloned()
        .or_else(|| shared.known_worker_tools().get(name).map(|(tool, _)| tool.clone()))
}

pub(crate) async fn call(
    shared: &Shared,
    request: CallToolRequestParams,
) -> Result<CallToolResult, ErrorData> {
    let arguments = request.arguments.unwrap_or_default();
    if let Some(result) = own::call(shared, &request.name, &arguments).await {
        return Ok(result);
    }
    match shared.worker_tools().await.get(&request.name) {
        Some((tool, function)) => Ok(worker::call(shared, tool, function, arguments).await),
        None => Err(invalid(format!("unknown tool: {}", request.name))),
    }
}

/// A failure that the model should read, and can perhaps mend.
fn failed(message: impl Into<Cow<'static, str>>) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(message.into())])
}
