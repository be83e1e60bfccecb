//! Definitions of the built-in tools. Every host puts them into its model's context, so they are short.

use std::sync::LazyLock;

use rmcp::model::{Tool, ToolAnnotations};
use serde_json::{Value, json};
use skills_registry::search::{DEFAULT_LIMIT, MAX_LIMIT};

use super::{listing::DEFAULT_BUDGET, read::MAX_URIS};
use crate::tools::object;

pub(in crate::tools) static TOOLS: LazyLock<[Tool; 3]> = LazyLock::new(|| {
    [
        tool(
            "list_skills",
            "List skills",
            "List the skills, one line each. Use it when a task begins; with the task as query, \
             the matching skills come first.",
            json!({
                "query": { "type": "string", "description": "Task or words." },
                "context": { "type": "string", "description": "More about the task." },
                "after": { "type": "string", "description": "Last id of the list before." },
                "budget_tokens": { "type": "integer", "minimum": 1, "default": DEFAULT_BUDGET }
            }),
            &[],
        ),
        tool(
            "read_skill",
            "Read skills",
            "Read skills, or files of a skill, in full. Use it before the task that a skill \
             describes. A skill of several files ends with the URIs of the others.",
            json!({
                "uri": { "type": "string", "description": "iii://ID or iii://ID/PATH; ID@VERSION reads a version" },
                "uris": {
                    "type": "array",
                    "items": { "type": "string" },
                    "maxItems": MAX_URIS,
                    "description": "Several at once, instead of uri."
                }
            }),
            &[],
        ),
        tool(
            "search_skills",
            "Search skills",
            "Find skills, tools and prompts by words or a sentence, the best match first. Use it \
             when you know what you are looking for.",
            json!({
                "query": { "type": "string" },
                "limit": { "type": "integer", "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT },
                "kind": { "enum": ["skill", "tool", "prompt", "live"] },
                "tier": { "enum": ["private", "official", "market"] },
                "cursor": { "type": "string" },
                "budget_tokens": { "type": "integer", "minimum": 1 }
            }),
            &["query"],
        ),
    ]
});

fn tool(
    name: &'static str,
    title: &str,
    description: &'static str,
    properties: Value,
    required: &[&str],
) -> Tool {
    let mut input = json!({ "type": "object", "properties": properties });
    if !required.is_empty() {
        input["required"] = json!(required);
    }
    let annotations = ToolAnnotations::new().read_only(true).open_world(false);
    let mut tool = Tool::new(name, description, object(input)).with_annotations(annotations);
    tool.title = Some(title.to_owned());
    tool
}
