//! Differential tests: every request is sent to a server with the fast path and to one without, and the responses must
//! be the same. The marker [`OfFastPath`] shows which path a response came from.

mod random;
mod servers;

use std::sync::Arc;

use serde_json::json;
use skills_agent_skills::Bundle;
use skills_core::{Layer, MemoryBudget, RequestBudget};
use skills_execution::NoExecutor;
use skills_registry::{Registry, RegistryConfig};
use skills_store::MemoryStore;
use tower::ServiceExt as _;

use self::servers::{SKILLS, Sent, Servers, body_of, both, calls, open, owner, received};
use crate::{Mcp, Settings};

/// Extension of responses of the fast path.
#[derive(Debug, Clone)]
pub(super) struct OfFastPath;

#[tokio::test]
async fn stored_documents_are_served_by_the_fast_path_with_the_same_bytes() {
    let servers = Servers::start().await;
    for uri in
        ["iii://odd", "iii://s-001", "iii://named", "iii://named/docs/a b.md", "iii://skills"]
    {
        for (method, name, params) in &calls(uri)[..2] {
            for sent in both(method, name, params) {
                let received = servers.expect(true, &sent).await;
                assert!(received.json()["result"].is_object(), "{received:?}");
            }
        }
    }
    for uri in ["odd", "skills"] {
        let (method, name, params) = &calls(uri)[1];
        for sent in both(method, name, params) {
            servers.expect(true, &sent).await;
        }
    }
    for sent in both("resources/read", "iii://named/image.png", r#""uri":"iii://named/image.png""#)
    {
        let received = servers.expect(true, &sent).await;
        assert!(received.json()["result"]["contents"][0]["blob"].is_string());
    }
    for uri in ["skill://s-001/SKILL.md", "skill://named/other/SKILL.md", "skill://odd/SKILL.md"] {
        let (method, name, params) = &calls(uri)[2];
        for sent in both(method, name, params) {
            let received = servers.expect(true, &sent).await;
            assert_eq!(received.json()["result"]["skill"]["uri"], uri, "{uri:?}");
        }
        let (method, name, params) = &calls(uri)[0];
        for sent in both(method, name, params) {
            let received = servers.expect(true, &sent).await;
            assert_eq!(received.json()["result"]["contents"][0]["uri"], uri, "{uri:?}");
        }
    }
}

#[tokio::test]
async fn a_uri_with_a_version_is_left_to_rmcp() {
    let servers = Servers::start().await;
    for uri in
        ["iii://s-001@1", "iii://s-001%401", "iii://s-001@latest", "skill://s-001@1/SKILL.md"]
    {
        let (method, name, params) = &calls(uri)[0];
        for sent in both(method, name, params) {
            let received = servers.expect(false, &sent).await;
            let content = &received.json()["result"]["contents"][0];
            assert_eq!((&content["uri"], &content["_meta"]["version"]), (&json!(uri), &json!(1)));
        }
        let (method, name, params) = &calls(uri)[1];
        for sent in both(method, name, params) {
            assert!(servers.expect(false, &sent).await.json()["result"].is_object(), "{uri}");
        }
    }
}

#[tokio::test]
async fn every_page_of_a_listing_is_served_by_the_fast_path() {
    let servers = Servers::start().await;
    for (method, member) in [("resources/list", "resources"), ("prompts/list", "prompts")] {
        for in_session in [true, false] {
            let (mut params, mut pages, mut rows) = (String::new(), 0, 0);
            loop {
                let [session, stateless] = both(method, "", &params);
                let sent = if in_session { session } else { stateless };
                let result = servers.expect(true, &sent).await.json()["result"].take();
                pages += 1;
                rows += result[member].as_array().unwrap().len();
                let Some(next) = result["nextCursor"].as_str() else { break };
                params = format!(r#""cursor":"{next}""#);
            }
            assert_eq!(pages, 3, "{method}");
            assert!(rows >= SKILLS, "{method}");
        }
    }
    let absent = Sent::in_session("prompts/list", "").without("mcp-protocol-version");
    servers.expect(true, &absent).await;
}

#[tokio::test]
async fn a_change_is_served_at_once() {
    let servers = Servers::start().await;
    let read = Sent::in_session("resources/read", r#""uri":"iii://s-007""#);
    let get = Sent::in_session("skills/get", r#""uri":"skill://s-007/SKILL.md""#);
    let list = Sent::in_session("resources/list", "");
    let mut seen = vec![];
    for body in ["# One\n", "# Two\n", "# One\n"] {
        let bundle = Bundle::new(body.to_owned(), vec![]).unwrap();
        servers.registry.register_bundle("t", &Layer::Official, "s-007", bundle).await.unwrap();
        let received = servers.expect(true, &read).await.json();
        assert_eq!(received["result"]["contents"][0]["text"], body, "{body:?}");
        seen.push((
            servers.expect(true, &get).await.json()["result"]["skill"]["resources"][0]["digest"]
                .take(),
            servers.expect(true, &list).await.body,
        ));
    }
    assert_eq!(seen[0].0, seen[2].0);
    assert_ne!(seen[0].0, seen[1].0);
    assert_ne!(seen[0].1, seen[1].1);
    servers.registry.remove_skill("t", &Layer::Official, "s-007").await.unwrap();
    for sent in [&read, &get] {
        assert!(servers.expect(false, sent).await.json()["error"].is_object());
    }
    servers.expect(true, &list).await;
}

#[tokio::test]
async fn a_caller_is_served_their_own_view() {
    let mut servers = Servers::start().await;
    let read = |caller| Sent {
        caller,
        ..Sent::stateless("resources/read", "iii://mine", r#""uri":"iii://mine""#)
    };
    let list = |caller| Sent { caller, ..Sent::stateless("resources/list", "", "") };
    let received = servers.expect(true, &read(Some(owner()))).await.json();
    assert_eq!(received["result"]["contents"][0]["text"], "# Mine\n");
    assert_eq!(received["result"]["cacheScope"], "private");
    assert!(servers.expect(false, &read(None)).await.json()["error"].is_object());
    let pages = [
        servers.expect(true, &list(Some(owner()))).await.body,
        servers.expect(true, &list(None)).await.body,
    ];
    assert!(String::from_utf8_lossy(&pages[0]).contains("iii://mine"));
    assert!(!String::from_utf8_lossy(&pages[1]).contains("iii://mine"));
    // A session has the view of the caller that opened it.
    let in_session = Sent::in_session("resources/read", r#""uri":"iii://mine""#);
    servers.expect(false, &in_session).await;
    servers.sessions =
        [open(&servers.fast, Some(owner())).await, open(&servers.reference, Some(owner())).await];
    servers.expect(true, &in_session).await;
}

#[tokio::test]
async fn anything_unusual_is_left_to_rmcp() {
    let servers = Servers::start().await;
    let uri = r#""uri":"iii://odd""#;
    let session = Sent::in_session("resources/read", uri);
    let stateless = Sent::stateless("resources/read", "iii://odd", uri);
    let read = |id: &str, params: &str| body_of(id, "resources/read", params);
    for sent in [
        // Envelopes
        session.clone().body(&format!("[{}]", read("1", uri))),
        session.clone().body(&read("1.0", uri)),
        session.clone().body(&read("null", uri)),
        session.clone().body(&read(r#""a\u0062""#, uri)),
        session.clone().body(&read("1", &format!(r#"{uri},"_meta":{{"progressToken":7}}"#))),
        session.clone().body(&read("1", r#""uri":"iii:\/\/odd""#)),
        session.clone().body(&read("1", r#""uri":"iii://odd","task":{"ttl":1}"#)),
        session.clone().body("{"),
        session.clone().body(&read("1", uri).replace("2.0", "1.0")),
        stateless.clone().body(&read("1", uri)),
        stateless.clone().body(
            &stateless
                .body
                .replace(r#""io.modelcontextprotocol/clientCapabilities":{}"#, r#""x":1"#),
        ),
        stateless
            .clone()
            .body(&stateless.body.replace(r#"clientCapabilities":{}"#, r#"clientCapabilities":7"#)),
        stateless.clone().body(&stateless.body.replace("2026-07-28", "2025-11-25")),
        stateless
            .clone()
            .body(&stateless.body.replace(r#""_meta":{"#, r#""_meta":{"progressToken":1,"#)),
        // Headers
        session.clone().with("last-event-id", "1"),
        session.clone().without("mcp-protocol-version").with("mcp-protocol-version", "1999-01-01"),
        session.clone().without("mcp-protocol-version").with("mcp-protocol-version", "2026-07-28"),
        session.clone().with("accept", "application/json"),
        session.clone().with("content-type", "text/plain"),
        stateless.clone().without("mcp-protocol-version"),
        stateless.clone().without("mcp-method"),
        stateless.clone().with("mcp-method", "resources/read"),
        stateless.clone().without("mcp-name"),
        stateless.clone().without("mcp-name").with("mcp-name", "iii://other"),
        stateless.clone().without("mcp-name").with("mcp-name", "=?base64?aWlpOi8vb2Rk?="),
        Sent { is_in_session: true, ..stateless.clone() },
        Sent { is_in_session: false, ..session.clone() },
        // Content
        Sent::in_session("resources/read", r#""uri":"iii://named/large.txt""#),
        Sent::in_session("resources/read", r#""uri":"iii://nothing""#),
        Sent::in_session("resources/read", r#""uri":"nonsense""#),
        Sent::in_session("resources/read", r#""uri":"iii://named/a::section""#),
        Sent::in_session("resources/read", r#""uri":"skill://official/odd""#),
        Sent::in_session("resources/read", r#""uri":"skill://named/other/sections/a::section""#),
        Sent::in_session("resources/read", r#""uri":"skill://named/other/large.txt""#),
        Sent::in_session("resources/read", r#""uri":"skill://named/other/docs""#),
        Sent::in_session("resources/list", r#""cursor":"""#),
        Sent::in_session("resources/list", r#""cursor":"nonsense""#),
        Sent::in_session("skills/get", r#""uri":"skill://odd""#),
        Sent::in_session("skills/get", r#""uri":"skill://nothing/SKILL.md""#),
        Sent::in_session("tools/call", r#""name":"read_skill","arguments":{"uri":"nothing"}"#),
        Sent::in_session(
            "tools/call",
            r#""name":"read_skill","arguments":{"uri":"iii://named/image.png"}"#,
        ),
        Sent::in_session("tools/call", r#""name":"read_skill","arguments":{"uris":["odd"]}"#),
        Sent::in_session("tools/list", ""),
        Sent::in_session("ping", ""),
    ] {
        servers.expect(false, &sent).await;
    }
}

#[tokio::test]
async fn a_request_over_the_memory_budget_is_refused_by_both_paths() {
    let servers = Servers::start().await;
    for (method, name, params) in [
        ("resources/read", "iii://odd", r#""uri":"iii://odd""#),
        ("tools/call", "read_skill", r#""name":"read_skill","arguments":{"uri":"odd"}"#),
        ("resources/list", "", ""),
    ] {
        for is_cached in [false, true] {
            let sent = Sent::stateless(method, name, params);
            if is_cached {
                servers.expect(true, &sent).await;
            }
            let memory = MemoryBudget::new(10);
            for router in [&servers.fast, &servers.reference] {
                let sent = Sent { budget: Some(memory.clone()), ..sent.clone() };
                let request = sent.request("");
                let budget = request.extensions().get::<RequestBudget>().unwrap().clone();
                let response = received(router.clone().oneshot(request).await.unwrap()).await;
                assert!(budget.is_refused() && !response.is_fast, "{method} {response:?}");
            }
            assert_eq!(memory.reserved(), 0, "{method:?}");
        }
    }
}

#[tokio::test]
async fn a_pending_id_of_a_session_is_a_duplicate_for_the_fast_path_too() {
    let ids = crate::http::request_ids::RequestIds::default();
    let mcp = {
        let store = Arc::new(MemoryStore::new());
        let registry = Registry::open(store, None, RegistryConfig::default()).unwrap();
        Mcp::new(registry, Arc::new(NoExecutor), Settings::default())
    };
    let fast_path = super::FastPath::new(&mcp).unwrap();
    let sent = Sent::in_session("resources/list", "");
    let head = sent.request("s").into_parts().0;
    let view = super::SessionView { shared: Arc::clone(&mcp.shared), requests: ids.clone() };
    let respond = || fast_path.respond(&head, sent.body.as_bytes(), Some(view.clone()));
    assert!(respond().await.is_some());
    let pending = ids.begin(&rmcp::model::RequestId::Number(1));
    assert!(respond().await.is_none());
    drop(pending);
    assert!(respond().await.is_some());
}

#[tokio::test]
async fn methods_of_the_mdp_profile_are_left_to_rmcp() {
    let servers = Servers::start().await;
    let sent = Sent::stateless("resources/list", "", "");
    let mut request = sent.request("");
    *request.uri_mut() = "/mcp/mdp".parse().unwrap();
    let received = received(servers.fast.clone().oneshot(request).await.unwrap()).await;
    assert_eq!((received.is_fast, &received.json()["error"]["code"]), (false, &json!(-32601)));
}
