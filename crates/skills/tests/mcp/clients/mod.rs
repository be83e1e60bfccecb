//! MCP clients by hand: they send what a test says and nothing else.
//!
//! - [`Session`], [`Stateless`]: over HTTP, the older revisions and the newest; [`Events`]: their streams
//! - [`Pipe`]: over standard input and output, either
//! - [`Client`]: any of them; [`Listener`]: any of them that hears of changes

mod events;
mod http;
mod listener;
mod pipe;

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use skills_testkit::DEADLINE;

pub(crate) use self::{
    events::Events,
    http::{Session, Stateless, post, send},
    listener::Listener,
    pipe::Pipe,
};
use crate::support::Home;

/// The revisions with sessions.
pub(crate) const SESSIONS: [&str; 3] = ["2025-03-26", "2025-06-18", "2025-11-25"];
/// The one without.
pub(crate) const STATELESS: &str = "2026-07-28";
/// Where a notification says which stream it belongs to.
pub(crate) const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

/// What a request was refused with.
#[derive(Debug, PartialEq)]
pub(crate) struct Refusal {
    pub(crate) code: i64,
    pub(crate) message: String,
    pub(crate) data: Value,
}

/// A request as the revisions with sessions want it.
pub(crate) fn request(id: i64, method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

/// The same as the newest wants it: it says everything about itself.
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

/// A client of any kind.
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

    /// Asks and returns the whole answer.
    pub(crate) async fn ask(&mut self, method: &str, params: Value) -> Value {
        match self {
            Self::Session(session) => session.ask(method, &params).await,
            Self::Stateless(stateless) => stateless.ask(method, &params).await,
            Self::Pipe(pipe) => pipe.ask(method, &params).await,
        }
    }

    /// Asks for something that must be answered.
    pub(crate) async fn ok(&mut self, method: &str, params: Value) -> Value {
        let mut answer = self.ask(method, params.clone()).await;
        assert!(answer["error"].is_null(), "{method} {params}: {answer}");
        answer["result"].take()
    }

    /// Asks for something that must be refused.
    pub(crate) async fn fails(&mut self, method: &str, params: Value) -> Refusal {
        let mut answer = self.ask(method, params.clone()).await;
        let mut error = answer["error"].take();
        Refusal {
            code: error["code"].as_i64().unwrap_or_else(|| panic!("{method} {params}: {answer}")),
            message: error["message"].as_str().unwrap().to_owned(),
            data: error["data"].take(),
        }
    }

    /// The text of a resource.
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

    /// All rows of a listing, page after page.
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

    /// The names of the tools.
    pub(crate) async fn tools(&mut self) -> Vec<String> {
        let rows = self.all("tools/list", "tools").await;
        rows.iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect()
    }
}

/// The tools that are always there.
pub(crate) const OWN_TOOLS: [&str; 7] = [
    "list_skills",
    "read_skill",
    "search_skills",
    "listClients",
    "listPaths",
    "callPath",
    "callPaths",
];

/// Asks again and again until something holds.
pub(crate) async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let started = Instant::now();
    while !holds().await {
        assert!(started.elapsed() < DEADLINE, "not in time: {what}");
        // What is waited for needs the cores too.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A session over HTTP, as any client.
pub(crate) async fn session(home: &Home) -> Client {
    Client::Session(Session::open(&home.server.http, "2025-06-18").await)
}

/// A client of the newest revision over HTTP.
pub(crate) fn stateless(home: &Home) -> Client {
    Client::Stateless(Stateless::new(&home.server.http))
}

/// One client of each kind, and what to call it when a test fails.
pub(crate) async fn every_kind(home: &Home) -> Vec<(&'static str, Client)> {
    let bus = ["--url", &home.server.url];
    vec![
        ("HTTP, session", session(home).await),
        ("HTTP, stateless", stateless(home)),
        ("stdio, session", Client::Pipe(Pipe::session(&bus, "2025-11-25").await)),
        ("stdio, stateless", Client::Pipe(Pipe::stateless(&bus))),
    ]
}
