//! Servers with and without the fast path on the same registry, and requests that are sent to both.

use std::sync::Arc;

use axum::{
    Router,
    body::{Body, to_bytes},
    http::{HeaderMap, Request, StatusCode},
    response::Response,
};
use bytes::Bytes;
use serde_json::Value;
use skills_agent_skills::Bundle;
use skills_core::{
    Caller, Digest, Layer, MemoryBudget, PromptArgument, PromptDefinition, RequestBudget, User,
};
use skills_execution::NoExecutor;
use skills_registry::{Registry, RegistryConfig};
use skills_store::MemoryStore;
use tower::ServiceExt as _;

use super::OfFastPath;
use crate::{Mcp, Settings, http};

const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}"#;

/// Servers with and without the fast path on the same registry, and a session on each.
pub(super) struct Servers {
    pub(super) registry: Arc<Registry>,
    pub(super) fast: Router,
    pub(super) reference: Router,
    pub(super) sessions: [String; 2],
}

/// Request for both servers.
#[derive(Debug, Clone, Default)]
pub(super) struct Sent {
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: String,
    pub(super) is_in_session: bool,
    pub(super) caller: Option<Caller>,
    pub(super) budget: Option<MemoryBudget>,
}

/// What a client sees of a response, and the path that it came from.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    pub(super) is_fast: bool,
}

impl Received {
    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

pub(super) fn body_of(id: &str, method: &str, params: &str) -> String {
    let params =
        if params.is_empty() { String::new() } else { format!(r#","params":{{{params}}}"#) };
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"{params}}}"#)
}

impl Sent {
    pub(super) fn in_session(method: &str, params: &str) -> Self {
        Self { body: body_of("1", method, params), is_in_session: true, ..Self::default() }
            .with("mcp-protocol-version", "2025-06-18")
    }

    pub(super) fn stateless(method: &str, name: &str, params: &str) -> Self {
        let comma = if params.is_empty() { "" } else { "," };
        let body = body_of("1", method, &format!("{params}{comma}{META}"));
        let sent = Self { body, ..Self::default() }
            .with("mcp-protocol-version", "2026-07-28")
            .with("mcp-method", method);
        if name.is_empty() { sent } else { sent.with("mcp-name", name) }
    }

    pub(super) fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(super) fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(header, _)| header != name);
        self
    }

    pub(super) fn body(mut self, body: &str) -> Self {
        body.clone_into(&mut self.body);
        self
    }

    pub(super) fn request(&self, session: &str) -> Request<Body> {
        let mut request = Request::post("/mcp").header("host", "localhost");
        let has = |name: &str| self.headers.iter().any(|(header, _)| header == name);
        for (name, value) in [
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
        ] {
            if !has(name) {
                request = request.header(name, value);
            }
        }
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        if self.is_in_session {
            request = request.header("mcp-session-id", session);
        }
        let mut request = request.body(Body::from(self.body.clone())).unwrap();
        if let Some(caller) = &self.caller {
            request.extensions_mut().insert(caller.clone());
        }
        if let Some(memory) = &self.budget {
            let budget = RequestBudget::with_memory(memory);
            request.extensions_mut().insert(budget);
        }
        request
    }
}

pub(super) async fn received(response: Response) -> Received {
    let (head, body) = response.into_parts();
    let body = to_bytes(body, 64 << 20).await.unwrap();
    let is_fast = head.extensions.get::<OfFastPath>().is_some();
    Received { status: head.status, headers: head.headers, body, is_fast }
}

pub(super) fn owner() -> Caller {
    Caller::User(User { owner: "ann".parse().unwrap(), key: Digest::of(b"key") })
}

pub(super) const SKILLS: usize = 230;

impl Servers {
    pub(super) async fn start() -> Self {
        let store = Arc::new(MemoryStore::new());
        let registry = Registry::open(store, None, RegistryConfig::default()).unwrap();
        let root = "---\nname: other\ndescription: Text.\n---\n# R\nSee iii://named/a::section.\n";
        let files = vec![
            ("docs/a b.md".parse().unwrap(), Bytes::from("# \"A\"\t\u{1}ü\n\n\n")),
            ("image.png".parse().unwrap(), Bytes::from(vec![0xff, 0, 1])),
            ("large.txt".parse().unwrap(), Bytes::from("x".repeat(2 << 20))),
        ];
        let official = &Layer::Official;
        let bundle = Bundle::new(root.to_owned(), files).unwrap();
        registry.register_bundle("t", official, "named", bundle).await.unwrap();
        let register = async |layer: &Layer, id: &str, body: String| {
            let bundle = Bundle::new(body, vec![]).unwrap();
            registry.register_bundle("t", layer, id, bundle).await.unwrap();
        };
        register(official, "odd", "# \"Odd\" \\ \u{7f}\u{2028}😀\r\n\t \n\n".to_owned()).await;
        register(&Layer::Private("ann".parse().unwrap()), "mine", "# Mine\n".to_owned()).await;
        for number in 0..SKILLS {
            register(official, &format!("s-{number:03}"), format!("# Skill {number}\n\nText.\n"))
                .await;
            let argument = PromptArgument {
                name: "topic".to_owned(),
                description: Some(format!("Topic {number}")),
                required: number % 2 == 0,
            };
            let definition = PromptDefinition {
                description: format!("Prompt {number}"),
                arguments: if number % 3 == 0 { vec![] } else { vec![argument] },
                function_id: "a::prompt".to_owned(),
            };
            let name = format!("p-{number:03}");
            registry.register_prompt("t", official, &name, definition).await.unwrap();
        }
        let router = |disable_fast_path| {
            let settings = Settings { disable_fast_path, ..Settings::default() };
            let skills = Arc::clone(&registry);
            http::routes(&Mcp::new(skills, Arc::new(NoExecutor), settings))
        };
        let (fast, reference) = (router(false), router(true));
        let sessions = [open(&fast, None).await, open(&reference, None).await];
        Self { registry, fast, reference, sessions }
    }

    /// Sends a request to both servers, and compares the responses.
    pub(super) async fn compare(&self, sent: &Sent) -> Received {
        let [fast, reference] = &self.sessions;
        let fast = self.fast.clone().oneshot(sent.request(fast)).await.unwrap();
        let reference = self.reference.clone().oneshot(sent.request(reference)).await.unwrap();
        let (fast, reference) = (received(fast).await, received(reference).await);
        assert!(!reference.is_fast);
        assert_eq!(
            (fast.status, &fast.headers),
            (reference.status, &reference.headers),
            "{sent:?}"
        );
        assert_eq!(
            String::from_utf8_lossy(&fast.body),
            String::from_utf8_lossy(&reference.body),
            "{sent:?}"
        );
        fast
    }

    /// Compares a request that must be served as expected, twice: the second time, texts are cached.
    pub(super) async fn expect(&self, is_fast: bool, sent: &Sent) -> Received {
        self.compare(sent).await;
        let received = self.compare(sent).await;
        assert_eq!(received.is_fast, is_fast, "{sent:?}");
        received
    }
}

pub(super) async fn open(router: &Router, caller: Option<Caller>) -> String {
    let body = body_of(
        "0",
        "initialize",
        r#""protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}"#,
    );
    let sent = Sent { body, caller, ..Sent::default() };
    let response = router.clone().oneshot(sent.request("")).await.unwrap();
    response.headers()["mcp-session-id"].to_str().unwrap().to_owned()
}

/// Methods with parameters and the header `Mcp-Name`.
pub(super) fn calls(uri: &str) -> Vec<(&'static str, String, String)> {
    let params = format!(r#""uri":"{uri}""#);
    vec![
        ("resources/read", uri.to_owned(), params.clone()),
        (
            "tools/call",
            "read_skill".to_owned(),
            format!(r#""name":"read_skill","arguments":{{{params}}}"#),
        ),
        ("skills/get", String::new(), params),
    ]
}

pub(super) fn both(method: &str, name: &str, params: &str) -> [Sent; 2] {
    [Sent::in_session(method, params), Sent::stateless(method, name, params)]
}
