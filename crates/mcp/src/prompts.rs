//! Prompts: slash commands with arguments.

use rmcp::{
    ErrorData,
    model::{
        GetPromptRequestParams, GetPromptResult, ListPromptsResult, Prompt, PromptArgument,
        PromptMessage,
    },
};
use serde_json::{Value, json};
use skills_registry::{PromptRow, Skills};

use crate::{
    cursor::{self, Listing},
    error::{to_mcp, wrong_parameter},
    server::PAGE,
};

pub(crate) async fn list(
    skills: &dyn Skills,
    cursor: Option<&str>,
) -> Result<ListPromptsResult, ErrorData> {
    let after = cursor::read(Listing::Prompts, cursor)?;
    let catalog = skills.catalog().await.map_err(|error| to_mcp(&error))?;
    let rows = catalog.prompts_after(after.as_deref());
    let (rows, next_cursor) = cursor::page(Listing::Prompts, rows, PAGE, |row| &row.name);
    let prompts = rows.into_iter().map(|row| prompt(row)).collect();
    Ok(ListPromptsResult { next_cursor, ..ListPromptsResult::with_all_items(prompts) })
}

fn prompt(row: &PromptRow) -> Prompt {
    let argument = |argument: &skills_core::PromptArgument| {
        let mut shown = PromptArgument::new(&argument.name).with_required(argument.required);
        shown.description.clone_from(&argument.description);
        shown
    };
    let arguments: Vec<_> = row.definition.arguments.iter().map(argument).collect();
    let arguments = (!arguments.is_empty()).then_some(arguments);
    Prompt::new(&*row.name, Some(&row.definition.description), arguments)
}

pub(crate) async fn get(
    skills: &dyn Skills,
    request: GetPromptRequestParams,
) -> Result<GetPromptResult, ErrorData> {
    let arguments = request.arguments.unwrap_or_default();
    let catalog = skills.catalog().await.map_err(|error| to_mcp(&error))?;
    // A prompt that the catalog does not have is looked for by who renders it.
    if let Some(row) = catalog.prompt(&request.name) {
        let is_missing = |argument: &&skills_core::PromptArgument| {
            argument.required && arguments.get(&argument.name).is_none_or(Value::is_null)
        };
        let missing: Vec<&str> = row
            .definition
            .arguments
            .iter()
            .filter(is_missing)
            .map(|argument| argument.name.as_str())
            .collect();
        if !missing.is_empty() {
            let message = format!("{} needs these arguments: {}", request.name, missing.join(", "));
            let data = json!({ "code": "missing_arguments", "missing": missing });
            return Err(ErrorData::invalid_params(message, Some(data)));
        }
    }
    let rendered = skills.render_prompt(&request.name, Value::Object(arguments)).await;
    // A prompt is not a resource.
    let rendered = rendered.map_err(|error| wrong_parameter(to_mcp(&error)))?;
    let messages = rendered
        .messages
        .into_iter()
        .enumerate()
        .map(|(at, given)| message(&request.name, at, given))
        .collect::<Result<_, _>>()?;
    let mut result = GetPromptResult::new(messages);
    result.description = rendered.description;
    Ok(result)
}

/// A message in the shape of the protocol; plain text as its content is taken for a text block.
fn message(prompt: &str, at: usize, mut given: Value) -> Result<PromptMessage, ErrorData> {
    if let Some(content) = given.get_mut("content")
        && let Some(text) = content.as_str()
    {
        *content = json!({ "type": "text", "text": text });
    }
    serde_json::from_value(given).map_err(|error| {
        let message = format!("message {at} of {prompt} is not one that MCP knows: {error}");
        ErrorData::internal_error(message, Some(json!({ "code": "handler_output" })))
    })
}
