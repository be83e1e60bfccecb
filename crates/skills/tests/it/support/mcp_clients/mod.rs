//! MCP clients written by hand, which send exactly what a test asks for.
//!
//! - [`Session`], [`Stateless`]: over HTTP, the older revisions and the newest; [`EventStream`]: their streams
//! - [`Pipe`]: over stdio, both
//! - [`Client`]: any of them; [`Listener`]: any of them with notifications

mod events;
mod http;
mod listener;
mod pipe;

use serde_json::{Value, json};

pub(crate) use self::{
    events::EventStream,
    http::{Session, Stateless, post, send},
    listener::Listener,
    pipe::Pipe,
};

use crate::support::{TestServer, wait::eventually};

/// Revisions with sessions.
pub(crate) const SESSIONS: [&str; 3] = ["2025-03-26", "2025-06-18", "2025-11-25"];
/// Revision without sessions.
pub(crate) const STATELESS: &str = "2026-07-28";
/// Metadata key of the stream that a notification belongs to.
pub(crate) const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

/// JSON-RPC error.
#[derive(Debug, PartialEq)]
pub(crate) struct RpcError {
    pub(crate) code: i64,
    pub(crate) message: String,
    pub(crate) data: Value,
}

/// Builds a request of the revisions with sessions.
pub(crate) fn request(id: i64, method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

/// Builds a request of the newest revision, which carries its own metadata.
pub(crate) fn stateless_request(id: i64, method: &str, params: &Value) -> Value {
    let mut params = params.clone();
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": STATELESS,
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    request(id, method, &params)
}

pub(crate) fn initialize(version: &str) -> Value {
    let client = json!({ "name": "test", "version": "1" });
    let params = json!({ "protocolVersion": version, "capabilities": {}, "clientInfo": client });
    request(0, "initialize", &params)
}

pub(crate) fn initialized() -> Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })
}

/// Client of any kind.
pub(crate) enum Client {
    Session(Session),
    Stateless(Stateless),
    Pipe(Pipe),
}

impl Client {
    pub(crate) fn is_stateless(&self) -> bool {
        match self {
            Self::Session(_) => false,
            Self::Stateless(_) => true,
            Self::Pipe(pipe) => pipe.is_stateless(),
        }
    }

    /// Sends a request and returns the whole answer.
    pub(crate) async fn ask(&mut self, method: &str, params: Value) -> Value {
        match self {
            Self::Session(session) => session.ask(method, &params).await,
            Self::Stateless(stateless) => stateless.ask(method, &params).await,
            Self::Pipe(pipe) => pipe.ask(method, &params).await,
        }
    }

    /// Sends a request that must succeed.
    pub(crate) async fn ok(&mut self, method: &str, params: Value) -> Value {
        let mut answer = self.ask(method, params.clone()).await;
        assert!(answer["error"].is_null(), "{method} {params}: {answer}");
        answer["result"].take()
    }

    /// Sends a request that must fail.
    pub(crate) async fn fails(&mut self, method: &str, params: Value) -> RpcError {
        let mut answer = self.ask(method, params.clone()).await;
        let mut error = answer["error"].take();
        RpcError {
            code: error["code"].as_i64().unwrap_or_else(|| panic!("{method} {params}: {answer}")),
            message: error["message"].as_str().unwrap().to_owned(),
            data: error["data"].take(),
        }
    }

    /// Reads the text of a resource.
    pub(crate) async fn read(&mut self, uri: &str) -> String {
        let answer = self.ok("resources/read", json!({ "uri": uri })).await;
        let contents = answer["contents"].as_array().unwrap();
        assert_eq!((contents.len(), &contents[0]["uri"]), (1, &json!(uri)));
        contents[0]["text"].as_str().unwrap().to_owned()
    }

    /// Calls a tool.
    pub(crate) async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.ok("tools/call", json!({ "name": tool, "arguments": arguments })).await
    }

    /// Returns all rows of a listing, page after page.
    pub(crate) async fn all(&mut self, method: &str, key: &str) -> Vec<Value> {
        let mut rows = Vec::new();
        let mut params = json!({});
        loop {
            let mut page = self.ok(method, params.clone()).await;
            rows.append(page[key].as_array_mut().unwrap());
            match page["nextCursor"].as_str() {
                Some(cursor) => params["cursor"] = json!(cursor),
                None => return rows,
            }
        }
    }

    /// Returns the names of the tools.
    pub(crate) async fn tools(&mut self) -> Vec<String> {
        let rows = self.all("tools/list", "tools").await;
        rows.iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect()
    }
}

/// Built-in tools of a server without live clients.
pub(crate) const OWN_TOOLS: [&str; 3] = ["list_skills", "read_skill", "search_skills"];

/// Opens a session of a process on a bus and waits until it has the catalog. Until then it lists only its own tools,
/// after a wait of two seconds.
pub(crate) async fn pipe_with_catalog(arguments: &[&str], version: &str) -> Client {
    let mut client = Client::Pipe(Pipe::session(arguments, version).await);
    eventually("the process has the catalog", async || {
        client.ask("resources/list", json!({})).await["error"].is_null()
    })
    .await;
    client
}

/// Opens a session over HTTP.
pub(crate) async fn session(server: &TestServer) -> Client {
    Client::Session(Session::open(&server.process.http, "2025-06-18").await)
}

/// Returns a client of the newest revision over HTTP.
pub(crate) fn stateless(server: &TestServer) -> Client {
    Client::Stateless(Stateless::new(&server.process.http))
}

/// Opens one client of each kind, with a name for messages.
pub(crate) async fn every_kind(server: &TestServer) -> Vec<(&'static str, Client)> {
    let bus = ["--url", &server.process.url];
    vec![
        ("HTTP, session", session(server).await),
        ("HTTP, stateless", stateless(server)),
        ("stdio, session", Client::Pipe(Pipe::session(&bus, "2025-11-25").await)),
        ("stdio, stateless", Client::Pipe(Pipe::stateless(&bus))),
    ]
}
