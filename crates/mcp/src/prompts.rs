//! `prompts/list` and `prompts/get`.

use rmcp::{
    ErrorData,
    model::{
        GetPromptRequestParams, GetPromptResult, ListPromptsResult, Prompt, PromptArgument,
        PromptMessage,
    },
};
use serde_json::{Value, json};
use skills_core::Code;
use skills_registry::{Catalog, PromptRow, SkillRegistry};

use crate::{
    budget::ResponseBudget,
    cursor::{self, Listing},
    error::{into_invalid_params, to_mcp},
    server::PAGE,
};

pub(crate) async fn list(
    skills: &dyn SkillRegistry,
    budget: &ResponseBudget,
    cursor: Option<&str>,
) -> Result<ListPromptsResult, ErrorData> {
    let after = cursor::decode(Listing::Prompts, cursor)?;
    let catalog = skills.catalog().await.map_err(|error| to_mcp(&error))?;
    page(&catalog, budget, after.as_deref())
}

/// Returns the page of a catalog after the row with this name.
pub(crate) fn page(
    catalog: &Catalog,
    budget: &ResponseBudget,
    after: Option<&str>,
) -> Result<ListPromptsResult, ErrorData> {
    let rows = catalog.prompts_after(after);
    let (rows, next_cursor) = cursor::page(Listing::Prompts, rows, PAGE, |row| &row.name);
    budget.reserve(rows.iter().map(|row| listed_bytes(row)).sum())?;
    let prompts = rows.into_iter().map(|row| prompt(row)).collect();
    Ok(ListPromptsResult { next_cursor, ..ListPromptsResult::with_all_items(prompts) })
}

/// Returns the bytes of the texts of a prompt in a listing.
fn listed_bytes(row: &PromptRow) -> usize {
    let argument = |argument: &skills_core::PromptArgument| {
        argument.name.len() + argument.description.as_ref().map_or(0, String::len)
    };
    let arguments: usize = row.definition.arguments.iter().map(argument).sum();
    row.name.len() + row.definition.description.len() + arguments
}

fn prompt(row: &PromptRow) -> Prompt {
    let argument = |definition: &skills_core::PromptArgument| {
        let mut argument = PromptArgument::new(&definition.name).with_required(definition.required);
        argument.description.clone_from(&definition.description);
        argument
    };
    let arguments: Vec<_> = row.definition.arguments.iter().map(argument).collect();
    let arguments = (!arguments.is_empty()).then_some(arguments);
    Prompt::new(&*row.name, Some(&row.definition.description), arguments)
}

pub(crate) async fn get(
    skills: &dyn SkillRegistry,
    budget: &ResponseBudget,
    request: GetPromptRequestParams,
) -> Result<GetPromptResult, ErrorData> {
    let arguments = request.arguments.unwrap_or_default();
    let catalog = skills.catalog().await.map_err(|error| to_mcp(&error))?;
    // The registry reports a prompt that the catalog does not have.
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
            let data = json!({ "code": Code::MissingArguments, "missing": missing });
            return Err(ErrorData::invalid_params(message, Some(data)));
        }
    }
    let rendered = skills.render_prompt(&request.name, Value::Object(arguments)).await;
    // A prompt is not a resource.
    let rendered = rendered.map_err(|error| into_invalid_params(to_mcp(&error)))?;
    for message in &rendered.messages {
        budget.reserve_tree(message)?;
    }
    let messages = rendered
        .messages
        .into_iter()
        .enumerate()
        .map(|(index, value)| message(&request.name, index, value))
        .collect::<Result<_, _>>()?;
    let mut result = GetPromptResult::new(messages);
    result.description = rendered.description;
    Ok(result)
}

/// Parses a message that a prompt's function returned. Content that is a plain string becomes a text block.
fn message(prompt: &str, index: usize, mut value: Value) -> Result<PromptMessage, ErrorData> {
    if let Some(content) = value.get_mut("content")
        && let Some(text) = content.as_str()
    {
        *content = json!({ "type": "text", "text": text });
    }
    serde_json::from_value(value).map_err(|error| {
        let message = format!("message {index} of {prompt} is not an MCP message: {error}");
        ErrorData::internal_error(message, Some(json!({ "code": Code::HandlerOutput })))
    })
}
