//! Operations on live clients: names and JSON Schemas.
//!
//! One home for both, because several crates offer the same operations: `mcp` as tools, `worker` as bus functions, and
//! `remote` calls those functions. None of them may know the protocol of the clients. The crate that speaks it
//! implements [`LiveHost`](super::LiveHost), parses the arguments and carries the operation out.

use serde_json::{Value, json};

/// An operation on live clients and the paths that they registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LiveOperation {
    /// Lists connected clients.
    ListClients,
    /// Lists the paths of connected clients.
    ListPaths,
    /// Calls a path of one client.
    CallPath,
    /// Calls a path of several clients.
    CallPaths,
}

/// Description of a [`LiveOperation`] for the surfaces that offer it.
#[derive(Debug, Clone)]
pub struct OperationDefinition {
    /// Human-readable title.
    pub title: &'static str,
    /// Purpose, in one sentence.
    pub description: &'static str,
    /// True if the operation changes nothing and calls no client.
    pub is_read_only: bool,
    /// JSON Schema of the arguments.
    pub input: Value,
    /// JSON Schema of the result.
    pub output: Value,
}

impl LiveOperation {
    /// All operations, in the order in which surfaces list them.
    pub const ALL: [Self; 4] =
        [Self::ListClients, Self::ListPaths, Self::CallPath, Self::CallPaths];

    /// Returns the name of the operation as a tool.
    #[must_use]
    pub const fn tool_name(self) -> &'static str {
        match self {
            Self::ListClients => "listClients",
            Self::ListPaths => "listPaths",
            Self::CallPath => "callPath",
            Self::CallPaths => "callPaths",
        }
    }

    /// Returns the bus function that carries out the operation.
    #[must_use]
    pub const fn function_id(self) -> &'static str {
        match self {
            Self::ListClients => "mdp::list-clients",
            Self::ListPaths => "mdp::list-paths",
            Self::CallPath => "mdp::call-path",
            Self::CallPaths => "mdp::call-paths",
        }
    }

    /// Returns the operation with that tool name.
    #[must_use]
    pub fn from_tool_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|operation| operation.tool_name() == name)
    }

    /// Returns the title, description and schemas of the operation.
    #[must_use]
    pub fn definition(self) -> OperationDefinition {
        match self {
            Self::ListClients => OperationDefinition {
                title: "List clients",
                description: "List currently connected MDP clients and their path catalogs. Use it to see which apps and \
                              devices can be called.",
                is_read_only: true,
                input: object(json!({ "search": search(), "cursor": cursor() }), &[]),
                output: list("clients", client()),
            },
            Self::ListPaths => OperationDefinition {
                title: "List paths",
                description: "List path descriptors registered by connected MDP clients. Use it to find the path to call.",
                is_read_only: true,
                input: list_paths_input(),
                output: list("paths", path(&[("clientId", "string"), ("clientName", "string")])),
            },
            Self::CallPath => OperationDefinition {
                title: "Call a path",
                description: "Invoke one exact path on one exact MDP client. Use it to read a live skill or to act.",
                is_read_only: false,
                input: call(
                    "clientId",
                    json!({ "type": "string" }),
                    &["clientId", "method", "path"],
                ),
                output: json!({
                    "type": "object",
                    "properties": outcome(),
                    "required": ["ok"],
                }),
            },
            Self::CallPaths => OperationDefinition {
                title: "Call a path of several clients",
                description: "Invoke one path on one or more MDP clients. Use it when several have the path.",
                is_read_only: false,
                input: call_paths_input(),
                output: call_paths_output(),
            },
        }
    }
}

fn list_paths_input() -> Value {
    object(
        json!({
            "clientId": { "type": "string", "description": "Only paths of this client." },
            "search": search(),
            "depth": {
                "type": "integer",
                "minimum": 1,
                "description": "Number of levels of the hierarchy to list. Default: 1, or all \
                                levels with a search.",
            },
            "limit": {
                "type": "integer",
                "minimum": 1,
                "description": "Maximum number of paths, up to 1000.",
            },
            "cursor": cursor(),
        }),
        &[],
    )
}

fn call_paths_input() -> Value {
    let clients = json!({
        "type": "array",
        "items": { "type": "string" },
        "description": "Clients to call. Default: all that have the path.",
    });
    call("clientIds", clients, &["method", "path"])
}

fn call_paths_output() -> Value {
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
}

fn object(properties: Value, required: &[&str]) -> Value {
    let mut schema = json!({ "type": "object", "properties": properties });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

fn list(name: &str, items: Value) -> Value {
    json!({
        "type": "object",
        "properties": { name: { "type": "array", "items": items }, "nextCursor": { "type": "string" } },
        "required": [name],
    })
}

fn cursor() -> Value {
    json!({
        "type": "string",
        "description": "Cursor: nextCursor of the previous page.",
    })
}

fn search() -> Value {
    json!({ "type": "string", "description": "Text to search for; case is ignored." })
}

fn call(target: &str, target_schema: Value, required: &[&str]) -> Value {
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
    properties[target] = target_schema;
    object(properties, required)
}

fn outcome() -> Value {
    json!({
        "ok": { "type": "boolean" },
        "data": { "description": "Response of the client; any JSON value." },
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

fn path(extra: &[(&str, &str)]) -> Value {
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
    let required = extra.iter().map(|(name, _)| json!(name));
    if let Value::Array(names) = &mut schema["required"] {
        names.extend(required);
    }
    for (name, kind) in extra {
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
                "description": "Number of paths, if not all are listed here; listPaths lists them.",
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
