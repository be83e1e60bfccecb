//! `listClients`, `listPaths`, `callPath` and `callPaths`: the tools of the Model Drive Protocol.
//!
//! Names, schemas and error texts are those of its reference hosts. The host of live clients executes the calls.

use std::sync::{Arc, LazyLock};

use rmcp::{
    ErrorData,
    model::{CallToolResult, ContentBlock, JsonObject, Tool, ToolAnnotations},
};
use serde_json::Value;
use skills_registry::{RegistryError, live::LiveOperation};

use super::{failed, object};
use crate::{budget::ResponseBudget, server::Shared};

pub(super) static TOOLS: LazyLock<Vec<Tool>> = LazyLock::new(|| {
    let tool = |operation: LiveOperation| {
        let definition = operation.definition();
        let annotations = ToolAnnotations::with_title(definition.title)
            .read_only(definition.is_read_only)
            .idempotent(definition.is_read_only)
            .open_world(!definition.is_read_only);
        let input = object(definition.input);
        let mut tool = Tool::new(operation.tool_name(), definition.description, input)
            .with_annotations(annotations);
        tool.title = Some(definition.title.to_owned());
        tool.output_schema = Some(Arc::new(object(definition.output)));
        tool
    };
    LiveOperation::ALL.map(tool).into()
});

/// Returns all of the tools while a live client is connected, otherwise none: their schemas would take tokens of every
/// model for nothing.
pub(super) async fn available(shared: &Shared) -> &'static [Tool] {
    if shared.skills.has_live_clients().await { TOOLS.as_slice() } else { &[] }
}

pub(super) fn is_tool(name: &str) -> bool {
    LiveOperation::from_tool_name(name).is_some()
}

/// Calls a tool. The arguments may be large, so they are moved and not copied.
pub(super) async fn call(
    shared: &Shared,
    budget: &ResponseBudget,
    name: &str,
    arguments: JsonObject,
) -> Result<CallToolResult, ErrorData> {
    let Some(operation) = LiveOperation::from_tool_name(name) else { return Ok(unknown(name)) };
    match shared.skills.call_live(operation, arguments).await {
        Ok(answer) => {
            // The host of live clients releases its own reservation when it returns.
            budget.reserve_tree(&answer)?;
            Ok(result(answer))
        }
        Err(RegistryError::LiveArguments { reason, .. }) => Ok(failed(format!(
            "MCP error -32602: Input validation error: Invalid arguments for tool {name}: {reason}"
        ))),
        Err(error) => Ok(failed(error.to_string())),
    }
}

/// Returns an answer as text and as structured content; an error if the client failed.
fn result(answer: Value) -> CallToolResult {
    // Compact: indentation can make deeply nested values a hundred times as large.
    let content = vec![ContentBlock::text(answer.to_string())];
    let mut result = if answer.get("ok") == Some(&Value::Bool(false)) {
        CallToolResult::error(content)
    } else {
        CallToolResult::success(content)
    };
    result.structured_content = Some(answer);
    result
}

/// Returns the result for an unknown tool, in the words of the reference hosts.
fn unknown(name: &str) -> CallToolResult {
    let name: String = name.chars().take(100).collect();
    failed(format!("MCP error -32602: Tool {name} not found"))
}
