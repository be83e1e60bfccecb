//! `listClients`, `listPaths`, `callPath` and `callPaths`: the clients of the Model Drive Protocol, in the shapes and
//! words that its hosts know. What is asked and answered is the registry's to say.

use std::sync::{Arc, LazyLock};

use rmcp::model::{CallToolResult, ContentBlock, JsonObject, Tool, ToolAnnotations};
use serde_json::Value;
use skills_registry::live::{Question, schema};

use super::{failed, object};
use crate::server::Shared;

pub(super) static TOOLS: LazyLock<Vec<Tool>> = LazyLock::new(|| {
    let tool = |shape: schema::Shape| {
        let annotations = ToolAnnotations::with_title(shape.title)
            .read_only(shape.only_lists)
            .idempotent(shape.only_lists)
            .open_world(!shape.only_lists);
        let mut tool = Tool::new(shape.tool, shape.description, object(shape.input))
            .with_annotations(annotations);
        tool.title = Some(shape.title.to_owned());
        tool.output_schema = Some(Arc::new(object(shape.output)));
        tool
    };
    schema::shapes().map(tool).into()
});

/// Those that are offered: all, where clients can be asked for.
pub(super) async fn offered(shared: &Shared) -> &'static [Tool] {
    if shared.skills.has_paths().await { TOOLS.as_slice() } else { &[] }
}

/// Calls one of them; `None` when the name is none.
pub(super) async fn call(
    shared: &Shared,
    name: &str,
    arguments: &JsonObject,
) -> Option<CallToolResult> {
    let question = match Question::read(name, arguments.clone())? {
        Ok(question) => question,
        Err(reason) => {
            return Some(failed(format!(
                "MCP error -32602: Input validation error: Invalid arguments for tool {name}: {reason}"
            )));
        }
    };
    Some(match shared.skills.ask_paths(question).await {
        Ok(answer) => told(answer),
        Err(error) => failed(error.to_string()),
    })
}

/// The answer as text and as structure. That a client failed is an answer too.
fn told(answer: Value) -> CallToolResult {
    // `{:#}` of a `Value` is its pretty-printed JSON.
    let content = vec![ContentBlock::text(format!("{answer:#}"))];
    let mut result = match answer.get("ok") == Some(&Value::Bool(false)) {
        true => CallToolResult::error(content),
        false => CallToolResult::success(content),
    };
    result.structured_content = Some(answer);
    result
}

/// What a host of the protocol hears of a tool that is not there.
pub(super) fn unknown(name: &str) -> CallToolResult {
    let name: String = name.chars().take(100).collect();
    failed(format!("MCP error -32602: Tool {name} not found"))
}
