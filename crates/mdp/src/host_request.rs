//! Requests of hosts: the arguments of the four operations on clients and their paths, parsed. Unknown arguments are
//! ignored, as the reference hosts do.

use std::{collections::BTreeMap, num::NonZeroUsize};

use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::{Map, Value};
use skills_registry::live::LiveOperation;

use crate::wire::Method;

/// A parsed [`LiveOperation`].
#[derive(Debug, Clone)]
pub enum HostRequest {
    /// Lists connected clients.
    ListClients(ListClients),
    /// Lists the paths of connected clients.
    ListPaths(ListPaths),
    /// Calls a path of one client.
    CallPath(CallPath),
    /// Calls a path of several clients.
    CallPaths(CallPaths),
}

/// Arguments of [`HostRequest::ListClients`].
#[derive(Debug, Clone, Default, Deserialize)]
pub struct ListClients {
    /// Text to search for, without regard to case.
    #[serde(default)]
    pub search: Option<String>,
    /// `nextCursor` of the previous page.
    #[serde(default)]
    pub cursor: Option<String>,
}

/// Arguments of [`HostRequest::ListPaths`].
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListPaths {
    /// Client whose paths are listed. Without it: all clients.
    #[serde(default)]
    pub client_id: Option<String>,
    /// Text to search for, without regard to case.
    #[serde(default)]
    pub search: Option<String>,
    /// Levels of the hierarchy to list.
    #[serde(default)]
    pub depth: Option<NonZeroUsize>,
    /// Most paths of a page.
    #[serde(default)]
    pub limit: Option<NonZeroUsize>,
    /// `nextCursor` of the previous page.
    #[serde(default)]
    pub cursor: Option<String>,
}

/// Call of a path.
#[derive(Debug, Clone)]
pub struct PathCall {
    /// Method of the call.
    pub method: Method,
    /// Concrete path.
    pub path: String,
    /// Query parameters.
    pub query: Option<Map<String, Value>>,
    /// Body of the call; null is a body.
    pub body: Option<Value>,
    /// Header fields.
    pub headers: Option<BTreeMap<String, String>>,
    /// Credentials, in the form of the protocol.
    pub auth: Option<Map<String, Value>>,
}

/// Arguments of [`HostRequest::CallPath`].
#[derive(Debug, Clone)]
pub struct CallPath {
    /// Client to call.
    pub client_id: String,
    /// Call to send.
    pub call: PathCall,
}

/// Arguments of [`HostRequest::CallPaths`].
#[derive(Debug, Clone)]
pub struct CallPaths {
    /// Clients to call; empty for all that have the path.
    pub client_ids: Vec<String>,
    /// Call to send.
    pub call: PathCall,
}

/// Arguments of a call to one client or several.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CallArguments {
    #[serde(default)]
    client_id: Option<String>,
    #[serde(default)]
    client_ids: Option<Vec<String>>,
    method: Method,
    path: String,
    #[serde(default)]
    query: Option<Map<String, Value>>,
    #[serde(default, deserialize_with = "present")]
    body: Option<Value>,
    #[serde(default)]
    headers: Option<BTreeMap<String, String>>,
    #[serde(default)]
    auth: Option<Map<String, Value>>,
}

/// Keeps a null apart from an absent field.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

impl CallArguments {
    fn call(self) -> PathCall {
        let Self { method, path, query, body, headers, auth, .. } = self;
        PathCall { method, path, query, body, headers, auth }
    }
}

impl HostRequest {
    /// Parses the arguments of an operation.
    ///
    /// # Errors
    /// The first argument that does not fit, and why.
    pub fn parse(operation: LiveOperation, arguments: Map<String, Value>) -> Result<Self, String> {
        let arguments = Value::Object(arguments);
        match operation {
            LiveOperation::ListClients => parse(arguments).map(Self::ListClients),
            LiveOperation::ListPaths => parse(arguments).map(Self::ListPaths),
            LiveOperation::CallPath => parse(arguments).and_then(one),
            LiveOperation::CallPaths => parse(arguments).and_then(several),
        }
    }
}

fn parse<T: DeserializeOwned>(arguments: Value) -> Result<T, String> {
    serde_json::from_value(arguments).map_err(|error| error.to_string())
}

fn one(mut arguments: CallArguments) -> Result<HostRequest, String> {
    let client_id = arguments.client_id.take().ok_or("clientId is needed")?;
    Ok(HostRequest::CallPath(CallPath { client_id, call: arguments.call() }))
}

fn several(mut arguments: CallArguments) -> Result<HostRequest, String> {
    let client_ids = arguments.client_ids.take().unwrap_or_default();
    Ok(HostRequest::CallPaths(CallPaths { client_ids, call: arguments.call() }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(tool: &str, arguments: Value) -> Result<HostRequest, String> {
        let Value::Object(arguments) = arguments else { return Err("no object".to_owned()) };
        HostRequest::parse(LiveOperation::from_tool_name(tool).unwrap(), arguments)
    }

    #[test]
    fn arguments_are_parsed_and_a_null_body_is_a_body() {
        let Ok(HostRequest::ListPaths(request)) =
            read("listPaths", json!({"clientId": "a", "search": "x", "depth": 2, "cursor": "1:7"}))
        else {
            panic!("not the paths")
        };
        assert_eq!(request.client_id.as_deref(), Some("a"));
        assert_eq!(request.search.as_deref(), Some("x"));
        assert_eq!(request.depth.map(NonZeroUsize::get), Some(2));
        assert_eq!((request.limit, request.cursor.as_deref()), (None, Some("1:7")));
        let Ok(HostRequest::CallPath(CallPath { client_id, call })) = read(
            "callPath",
            json!({
                "clientId": "a", "method": "PATCH", "path": "/a", "query": {"q": 1},
                "body": null, "headers": {"h": "v"}, "auth": {"token": "t"},
            }),
        ) else {
            panic!("not a call")
        };
        assert_eq!(
            (client_id.as_str(), call.method, call.path.as_str()),
            ("a", Method::Patch, "/a")
        );
        assert_eq!(call.body, Some(Value::Null));
        assert_eq!(call.query.map(Value::Object), Some(json!({"q": 1})));
        assert_eq!(call.auth.map(Value::Object), Some(json!({"token": "t"})));
        assert_eq!(call.headers.unwrap()["h"], "v");
        for (tool, arguments) in [
            ("listClients", json!({})),
            ("listClients", json!({"search": "x"})),
            ("listClients", json!({"cursor": "1:"})),
            ("listPaths", json!({"limit": 10, "cursor": "1:7"})),
            ("callPath", json!({"clientId": "a", "method": "GET", "path": "/a"})),
            ("callPaths", json!({"clientIds": ["a", "b"], "method": "POST", "path": "/a"})),
            // Unknown arguments are ignored, as the reference hosts do.
            ("listClients", json!({"serach": "x"})),
            ("callPaths", json!({"clientId": "a", "method": "GET", "path": "/a", "more": 1})),
        ] {
            read(tool, arguments).unwrap();
        }
        assert!(LiveOperation::from_tool_name("listTools").is_none());
    }

    #[test]
    fn an_invalid_argument_is_named() {
        for (tool, arguments, words) in [
            ("listClients", json!({"search": 7}), "string"),
            ("listPaths", json!({"depth": 0}), "nonzero"),
            ("listPaths", json!({"limit": 0}), "nonzero"),
            ("callPath", json!({"method": "GET", "path": "/a"}), "clientId is needed"),
            ("callPath", json!({"clientId": "a", "path": "/a"}), "missing field `method`"),
            ("callPath", json!({"clientId": "a", "method": "HEAD", "path": "/a"}), "HEAD"),
            ("callPath", json!({"clientIds": ["a"], "method": "GET", "path": "/a"}), "clientId is"),
            (
                "callPaths",
                json!({"method": "GET", "path": "/a", "headers": {"a": 1}}),
                "expected a string",
            ),
        ] {
            let error = read(tool, arguments).expect_err(words);
            assert!(error.contains(words), "{tool}: {error}");
        }
    }
}
