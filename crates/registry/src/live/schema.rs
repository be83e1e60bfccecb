//! The shapes of questions and answers as JSON Schemas, for whoever offers the questions.

use serde_json::{Value, json};

/// What a question takes and gives, and what it is for.
#[derive(Debug, Clone)]
pub struct Shape {
    /// The name as a tool.
    pub tool: &'static str,
    /// What people call it.
    pub title: &'static str,
    /// What it is for, in the words of the protocol.
    pub description: &'static str,
    /// Whether it only looks.
    pub only_lists: bool,
    /// What it takes.
    pub input: Value,
    /// What it gives.
    pub output: Value,
}

/// The four questions, in their order.
#[must_use]
pub fn shapes() -> [Shape; 4] {
    [
        Shape {
            tool: "listClients",
            title: "List clients",
            description: "List currently connected MDP clients and their path catalogs.",
            only_lists: true,
            input: object(json!({ "search": search(), "cursor": cursor() }), &[]),
            output: list("clients", client()),
        },
        Shape {
            tool: "listPaths",
            title: "List paths",
            description: "List path descriptors registered by connected MDP clients.",
            only_lists: true,
            input: object(
                json!({
                    "clientId": { "type": "string", "description": "Only paths of this client." },
                    "search": search(),
                    "depth": {
                        "type": "integer",
                        "minimum": 1,
                        "description": "How many levels of the hierarchy to list. Without it: the first, \
                                        or all of them when searching.",
                    },
                    "limit": {
                        "type": "integer",
                        "minimum": 1,
                        "description": "At most so many paths, and never more than 1000.",
                    },
                    "cursor": cursor(),
                }),
                &[],
            ),
            output: list("paths", path(&[("clientId", "string"), ("clientName", "string")])),
        },
        Shape {
            tool: "callPath",
            title: "Call a path",
            description: "Invoke one exact path on one exact MDP client.",
            only_lists: false,
            input: call("clientId", json!({ "type": "string" }), &["clientId", "method", "path"]),
            output: json!({
                "type": "object",
                "properties": outcome(),
                "required": ["ok"],
            }),
        },
        Shape {
            tool: "callPaths",
            title: "Call a path of several clients",
            description: "Invoke one path on one or more MDP clients.",
            only_lists: false,
            input: call(
                "clientIds",
                json!({
                    "type": "array",
                    "items": { "type": "string" },
                    "description": "Which clients. Without any: all that have the path.",
                }),
                &["method", "path"],
            ),
            output: {
                let mut properties = outcome();
                properties["clientId"] = json!({ "type": "string" });
                let result = json!({
                    "type": "object",
                    "properties": properties,
                    "required": ["clientId", "ok"],
                });
                json!({
                    "type": "object",
                    "properties": { "results": { "type": "array", "items": result } },
                    "required": ["results"],
                })
            },
        },
    ]
}

fn object(properties: Value, required: &[&str]) -> Value {
    let mut schema =
        json!({ "type": "object", "properties": properties, "additionalProperties": false });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

fn list(of: &str, items: Value) -> Value {
    json!({
        "type": "object",
        "properties": { of: { "type": "array", "items": items }, "nextCursor": { "type": "string" } },
        "required": [of],
    })
}

fn cursor() -> Value {
    json!({
        "type": "string",
        "description": "The nextCursor of the answer before, to go on where it ended.",
    })
}

fn search() -> Value {
    json!({ "type": "string", "description": "Text to look for; upper and lower case are the same." })
}

fn call(whom: &str, whom_schema: Value, required: &[&str]) -> Value {
    let mut properties = json!({
        "method": { "type": "string", "enum": ["GET", "POST", "PUT", "PATCH", "DELETE"] },
        "path": { "type": "string", "description": "A concrete path, such as /workspace/review/skill.md." },
        "query": { "type": "object" },
        "body": { "description": "Any JSON value." },
        "headers": { "type": "object", "additionalProperties": { "type": "string" } },
        "auth": {
            "type": "object",
            "properties": {
                "scheme": { "type": "string" },
                "token": { "type": "string" },
                "headers": { "type": "object", "additionalProperties": { "type": "string" } },
                "metadata": { "type": "object" },
            },
        },
    });
    properties[whom] = whom_schema;
    object(properties, required)
}

fn outcome() -> Value {
    json!({
        "ok": { "type": "boolean" },
        "data": { "description": "What the client answered; any JSON value." },
        "error": {
            "type": "object",
            "properties": {
                "code": { "type": "string" },
                "message": { "type": "string" },
                "details": {},
            },
            "required": ["code", "message"],
        },
    })
}

fn path(more: &[(&str, &str)]) -> Value {
    let mut schema = json!({
        "type": "object",
        "properties": {
            "type": { "type": "string", "enum": ["endpoint", "skill", "prompt"] },
            "path": { "type": "string" },
            "method": { "type": "string" },
            "description": { "type": "string" },
            "contentType": { "type": "string" },
            "inputSchema": { "type": "object" },
            "outputSchema": { "type": "object" },
        },
        "required": ["type", "path"],
    });
    let required = more.iter().map(|(name, _)| json!(name));
    if let Value::Array(names) = &mut schema["required"] {
        names.extend(required);
    }
    for (name, kind) in more {
        schema["properties"][*name] = json!({ "type": kind });
    }
    schema
}

fn client() -> Value {
    json!({
        "type": "object",
        "properties": {
            "id": { "type": "string" },
            "name": { "type": "string" },
            "description": { "type": "string" },
            "version": { "type": "string" },
            "platform": { "type": "string" },
            "metadata": { "type": "object" },
            "paths": { "type": "array", "items": path(&[]) },
            "pathCount": {
                "type": "integer",
                "description": "How many paths there are, where not all are listed here; listPaths has them.",
            },
            "status": { "type": "string", "enum": ["online"] },
            "connectedAt": { "type": "string" },
            "lastSeenAt": { "type": "string" },
            "connection": {
                "type": "object",
                "properties": {
                    "mode": { "type": "string" },
                    "secure": { "type": "boolean" },
                    "authSource": { "type": "string" },
                },
                "required": ["mode", "secure", "authSource"],
            },
        },
        "required": ["id", "name", "paths", "status", "connectedAt", "lastSeenAt", "connection"],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::Question;

    #[test]
    fn every_question_has_a_shape_in_the_same_order() {
        assert_eq!(shapes().map(|shape| shape.tool), Question::TOOLS);
    }
}
