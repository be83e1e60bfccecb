//! Tools of workers: functions on the bus that ask to be offered to agents.

use std::{collections::BTreeMap, sync::Arc};

use rmcp::{
    ErrorData,
    model::{CallToolResult, ContentBlock, JsonObject, ResultType, Tool, ToolAnnotations},
};
use serde::Deserialize as _;
use serde_json::{Value, json};
use skills_core::{Digest, HandlerId};
use skills_manifest::MAX_TOOL_NAME_BYTES;
use skills_registry::ExposedFunction;

use super::{failed, is_own};
use crate::{budget::ResponseBudget, server::Shared};

/// Characters of the digest that distinguishes two names.
const DIGEST_CHARS: usize = 8;

/// Snapshot of the tools of all workers.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct WorkerTools(BTreeMap<String, (Tool, HandlerId)>);

impl WorkerTools {
    /// Builds the tools of functions. Of several functions whose names would be equal, all but the first get a digest
    /// of their id.
    pub(crate) fn from_functions(functions: Vec<ExposedFunction>) -> Self {
        let mut tools = BTreeMap::new();
        for function in functions {
            let name = name(function.id.as_str());
            let is_duplicate = tools.contains_key(&name) || is_own(&name);
            let name = if is_duplicate { with_digest(&name, function.id.as_str()) } else { name };
            let id = function.id.clone();
            tools.insert(name.clone(), (tool(name, function), id));
        }
        Self(tools)
    }

    pub(crate) fn tools(&self) -> impl Iterator<Item = &Tool> {
        self.0.values().map(|(tool, _)| tool)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&(Tool, HandlerId)> {
        self.0.get(name)
    }
}

/// Returns the name of a function's tool: `brain::summarize` becomes `brain__summarize`.
fn name(id: &str) -> String {
    let legal = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let name: String = id.chars().map(legal).collect();
    if name.len() > MAX_TOOL_NAME_BYTES { with_digest(&name, id) } else { name }
}

fn with_digest(name: &str, id: &str) -> String {
    let digest = Digest::of(id.as_bytes()).to_string();
    let end = name.len().min(MAX_TOOL_NAME_BYTES - DIGEST_CHARS - 1);
    // A name is ASCII by now, so any byte is a boundary.
    format!("{}_{}", &name[..end], &digest[digest.len() - DIGEST_CHARS..])
}

fn tool(name: String, function: ExposedFunction) -> Tool {
    let ExposedFunction { id, description, request_format, response_format, options } = function;
    let mut tool = Tool::new(
        name,
        description.unwrap_or_else(|| format!("Calls the function {id}.")),
        object_schema(request_format).unwrap_or_else(any_object),
    );
    tool.output_schema = object_schema(response_format).map(Arc::new);
    tool.title = options.get("title").and_then(Value::as_str).map(str::to_owned);
    tool.annotations = options
        .get("annotations")
        .and_then(|value| serde_json::from_value::<ToolAnnotations>(value.clone()).ok());
    tool
}

/// Returns a schema if it describes an object, which is all that MCP allows.
fn object_schema(format: Option<Value>) -> Option<JsonObject> {
    match format {
        Some(Value::Object(schema)) if schema.get("type") == Some(&json!("object")) => Some(schema),
        _ => None,
    }
}

pub(super) fn any_object() -> JsonObject {
    JsonObject::from_iter([("type".to_owned(), json!("object"))])
}

pub(super) async fn call(
    shared: &Shared,
    budget: &ResponseBudget,
    tool: &Tool,
    function: &HandlerId,
    arguments: JsonObject,
) -> Result<CallToolResult, ErrorData> {
    let has_schema = tool.output_schema.is_some();
    match shared.skills.call_function(function, Value::Object(arguments)).await {
        Err(error) => Ok(failed(error.to_string())),
        Ok(output) => {
            budget.reserve_tree(&output)?;
            Ok(result(output, has_schema).unwrap_or_else(|| {
                failed(format!("the output of {function} does not match its schema"))
            }))
        }
    }
}

/// Converts the output of a function. An MCP result is passed through, a string becomes text, any other value becomes
/// JSON text, and an object becomes structured content too. `None` if a schema promises an object and there is none.
fn result(output: Value, has_schema: bool) -> Option<CallToolResult> {
    if output.get("content").is_some_and(Value::is_array)
        && let Ok(mut result) = CallToolResult::deserialize(&output)
    {
        result.result_type = Some(ResultType::COMPLETE);
        let is_complete =
            !has_schema || result.structured_content.is_some() || result.is_error == Some(true);
        return is_complete.then_some(result);
    }
    match output {
        Value::Object(fields) => {
            let output = Value::Object(fields);
            let mut result = CallToolResult::success(vec![ContentBlock::text(output.to_string())]);
            result.structured_content = Some(output);
            Some(result)
        }
        _ if has_schema => None,
        Value::String(text) => Some(CallToolResult::success(vec![ContentBlock::text(text)])),
        other => Some(CallToolResult::success(vec![ContentBlock::text(other.to_string())])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(id: &str) -> ExposedFunction {
        ExposedFunction {
            id: id.parse().unwrap(),
            description: None,
            request_format: None,
            response_format: None,
            options: JsonObject::new(),
        }
    }

    fn names(ids: &[&str]) -> Vec<(String, String)> {
        let tools = WorkerTools::from_functions(ids.iter().map(|id| function(id)).collect());
        tools.0.iter().map(|(name, (_, id))| (name.clone(), id.to_string())).collect()
    }

    #[test]
    fn names_are_legal_unique_and_map_to_their_functions() {
        let long = format!("a::{}", "x".repeat(100));
        let found = names(&["a::b", "a:.b", "brain.do-it", "list_skills", &long, "日本::語"]);
        assert_eq!(found.len(), 6);
        for (name, _) in &found {
            assert!(!name.is_empty() && name.len() <= MAX_TOOL_NAME_BYTES, "{name}");
            assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c)), "{name}");
            assert_ne!(name, "list_skills");
        }
        assert!(found.contains(&("a__b".to_owned(), "a::b".to_owned())));
        assert!(found.contains(&("brain_do-it".to_owned(), "brain.do-it".to_owned())));
    }

    #[test]
    fn outputs_become_text_structured_content_or_are_passed_through() {
        let text = |output: Value| {
            let result = result(output, false).unwrap();
            (serde_json::to_value(&result.content).unwrap(), result.structured_content)
        };
        let block = |text: &str| json!([{ "type": "text", "text": text }]);
        assert_eq!(text(json!("hi")), (block("hi"), None));
        assert_eq!(text(json!([1])), (block("[1]"), None));
        assert_eq!(text(json!({"a": 1})), (block("{\"a\":1}"), Some(json!({"a": 1}))));
        let image = json!([{ "type": "image", "data": "AA==", "mimeType": "image/png" }]);
        assert_eq!(text(json!({ "content": image })), (image, None));
        assert_eq!(text(json!({"content": "plain"})).1, Some(json!({"content": "plain"})));
    }

    #[test]
    fn an_output_schema_requires_structured_content() {
        assert!(result(json!("text"), true).is_none());
        assert!(result(json!({"a": 1}), true).is_some());
        assert!(result(json!({"content": []}), true).is_none());
        assert!(result(json!({"content": [], "isError": true}), true).is_some());
    }
}
