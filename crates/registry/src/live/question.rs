//! What hosts ask about live clients and their paths, and how it is read.

use std::{collections::BTreeMap, num::NonZeroUsize};

use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

use super::Method;

/// One of the four.
#[derive(Debug, Clone)]
pub enum Question {
    /// Which clients are there?
    ListClients(ListClients),
    /// Which paths?
    ListPaths(ListPaths),
    /// What does one client answer at a path?
    CallPath(CallPath),
    /// What do several?
    CallPaths(CallPaths),
}

/// See [`Question::ListClients`].
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListClients {
    /// Only those that this is found in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<String>,
    /// Where the answer before this ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// See [`Question::ListPaths`].
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ListPaths {
    /// Only of this client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// Only those that this is found in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<String>,
    /// Down to this level.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<NonZeroUsize>,
    /// As many as this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<NonZeroUsize>,
    /// Where the answer before this ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// What a client is asked.
#[derive(Debug, Clone)]
pub struct PathCall {
    /// How.
    pub method: Method,
    /// For what.
    pub path: String,
    /// With which query.
    pub query: Option<Map<String, Value>>,
    /// With which body; null is one.
    pub body: Option<Value>,
    /// With which headers.
    pub headers: Option<BTreeMap<String, String>>,
    /// By whom, in the words of the protocol.
    pub auth: Option<Map<String, Value>>,
}

/// See [`Question::CallPath`].
#[derive(Debug, Clone)]
pub struct CallPath {
    /// Whom.
    pub client_id: String,
    /// What.
    pub call: PathCall,
}

/// See [`Question::CallPaths`].
#[derive(Debug, Clone)]
pub struct CallPaths {
    /// Whom; all that have the path when it is empty.
    pub client_ids: Vec<String>,
    /// What.
    pub call: PathCall,
}

/// The arguments of a call, of one client or several.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct CallArguments {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    client_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    client_ids: Option<Vec<String>>,
    method: Method,
    path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    query: Option<Map<String, Value>>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    body: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    headers: Option<BTreeMap<String, String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    auth: Option<Map<String, Value>>,
}

/// A null that is given is not the same as nothing.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

impl CallArguments {
    fn of(client_id: Option<String>, client_ids: Option<Vec<String>>, call: PathCall) -> Self {
        let PathCall { method, path, query, body, headers, auth } = call;
        Self { client_id, client_ids, method, path, query, body, headers, auth }
    }

    fn call(self) -> PathCall {
        let Self { method, path, query, body, headers, auth, .. } = self;
        PathCall { method, path, query, body, headers, auth }
    }
}

/// The name of each as a tool, and as a function on a bus.
const NAMES: [(&str, &str); 4] = [
    ("listClients", "mdp::list-clients"),
    ("listPaths", "mdp::list-paths"),
    ("callPath", "mdp::call-path"),
    ("callPaths", "mdp::call-paths"),
];

impl Question {
    /// The names of all as tools, in their order.
    pub const TOOLS: [&'static str; 4] = [NAMES[0].0, NAMES[1].0, NAMES[2].0, NAMES[3].0];

    /// The function on a bus that answers what a tool asks.
    #[must_use]
    pub fn function(tool: &str) -> Option<&'static str> {
        NAMES.iter().find(|(name, _)| *name == tool).map(|(_, function)| *function)
    }

    /// Reads the arguments of a tool. `None` when there is no such tool.
    #[must_use]
    pub fn read(tool: &str, arguments: Map<String, Value>) -> Option<Result<Self, String>> {
        let arguments = Value::Object(arguments);
        Some(match tool {
            "listClients" => parse(arguments).map(Self::ListClients),
            "listPaths" => parse(arguments).map(Self::ListPaths),
            "callPath" => parse(arguments).and_then(one),
            "callPaths" => parse(arguments).and_then(several),
            _ => return None,
        })
    }

    /// The function on a bus that answers it, and what to call that with.
    #[must_use]
    pub fn as_function(self) -> (&'static str, Value) {
        let (at, arguments) = match self {
            Self::ListClients(asked) => (0, json!(asked)),
            Self::ListPaths(asked) => (1, json!(asked)),
            Self::CallPath(CallPath { client_id, call }) => {
                (2, json!(CallArguments::of(Some(client_id), None, call)))
            }
            Self::CallPaths(CallPaths { client_ids, call }) => {
                (3, json!(CallArguments::of(None, Some(client_ids), call)))
            }
        };
        (NAMES[at].1, arguments)
    }
}

fn parse<T: DeserializeOwned>(arguments: Value) -> Result<T, String> {
    serde_json::from_value(arguments).map_err(|error| error.to_string())
}

fn one(mut asked: CallArguments) -> Result<Question, String> {
    if asked.client_ids.is_some() {
        return Err("clientIds is not taken here: clientId names the one client".to_owned());
    }
    let client_id = asked.client_id.take().ok_or("clientId is needed")?;
    Ok(Question::CallPath(CallPath { client_id, call: asked.call() }))
}

fn several(mut asked: CallArguments) -> Result<Question, String> {
    if asked.client_id.is_some() {
        return Err("clientId is not taken here: clientIds names the clients".to_owned());
    }
    let client_ids = asked.client_ids.take().unwrap_or_default();
    Ok(Question::CallPaths(CallPaths { client_ids, call: asked.call() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(tool: &str, arguments: Value) -> Result<(&'static str, Value), String> {
        let Value::Object(arguments) = arguments else { return Err("no object".to_owned()) };
        Question::read(tool, arguments).unwrap().map(Question::as_function)
    }

    #[test]
    fn what_is_read_is_written_as_it_was() {
        for (tool, arguments) in [
            ("listClients", json!({})),
            ("listClients", json!({"search": "x"})),
            ("listClients", json!({"cursor": "1:"})),
            ("listPaths", json!({"clientId": "a", "search": "x", "depth": 2})),
            ("listPaths", json!({"limit": 10, "cursor": "1:7"})),
            ("callPath", json!({"clientId": "a", "method": "GET", "path": "/a"})),
            (
                "callPath",
                json!({
                    "clientId": "a", "method": "PATCH", "path": "/a", "query": {"q": 1},
                    "body": null, "headers": {"h": "v"}, "auth": {"token": "t"},
                }),
            ),
            ("callPaths", json!({"clientIds": ["a", "b"], "method": "POST", "path": "/a"})),
        ] {
            let (function, written) = read(tool, arguments.clone()).unwrap();
            assert_eq!(written, arguments);
            assert_eq!(Question::function(tool), Some(function));
        }
        assert!(Question::read("listTools", Map::new()).is_none());
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (tool, arguments, words) in [
            ("listClients", json!({"search": 7}), "string"),
            ("listClients", json!({"serach": "x"}), "unknown field `serach`"),
            ("listPaths", json!({"depth": 0}), "nonzero"),
            ("listPaths", json!({"limit": 0}), "nonzero"),
            ("callPath", json!({"method": "GET", "path": "/a"}), "clientId is needed"),
            ("callPath", json!({"clientId": "a", "path": "/a"}), "missing field `method`"),
            ("callPath", json!({"clientId": "a", "method": "HEAD", "path": "/a"}), "HEAD"),
            ("callPath", json!({"clientIds": [], "method": "GET", "path": "/a"}), "clientIds"),
            ("callPaths", json!({"clientId": "a", "method": "GET", "path": "/a"}), "clientId "),
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
