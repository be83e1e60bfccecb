//! Protocol revisions with sessions, over HTTP.

use std::collections::HashSet;

use serde_json::json;
use skills_testkit::Request;

use crate::support::{
    TestServer,
    mcp_clients::{SESSIONS, STATELESS, Session, initialize, post, request, send, session},
    register,
};

/// Result fields of the newest revision only.
const NEWEST_ONLY: [&str; 3] = ["resultType", "ttlMs", "cacheScope"];

#[tokio::test]
async fn the_requested_revision_is_negotiated() {
    let server = TestServer::new();
    let mut ids = HashSet::new();
    for version in SESSIONS {
        let answer = send(&server.process.http, &post(&initialize(version))).await;
        assert_eq!(answer.status, 200);
        // A plain JSON answer, not an event stream.
        assert_eq!(answer.header("Content-Type").as_deref(), Some("application/json"));
        let id = answer.header("Mcp-Session-Id").unwrap();
        assert!(id.len() >= 32 && id.chars().all(|c| c.is_ascii_graphic()), "{id}");
        assert!(ids.insert(id), "every session has an id of its own");
        let message = answer.json();
        let result = &message["result"];
        assert_eq!(result["protocolVersion"], version);
        assert_eq!(result["serverInfo"]["name"], "skills");
        assert!(result["instructions"].as_str().is_some_and(|text| !text.is_empty()));
        let capabilities = &result["capabilities"];
        assert_eq!(capabilities["resources"], json!({ "subscribe": true, "listChanged": true }));
        assert_eq!(capabilities["prompts"], json!({ "listChanged": true }));
        assert_eq!(capabilities["tools"], json!({ "listChanged": true }));
        assert_eq!(capabilities["completions"], json!({}));
        assert_eq!(capabilities["logging"], json!({}));
        assert_eq!(
            capabilities["extensions"]["io.modelcontextprotocol/skills"],
            json!({ "directoryRead": true })
        );
    }
}

#[tokio::test]
async fn results_have_no_fields_of_later_revisions() {
    let server = TestServer::new();
    register(&server.worker().await, "brain", "# Brain\n").await;
    for version in SESSIONS {
        let mut session = Session::open(&server.process.http, version).await;
        assert_eq!(session.ask("ping", &json!({})).await["result"], json!({}));
        for (method, params) in [
            ("resources/list", json!({})),
            ("resources/templates/list", json!({})),
            ("resources/read", json!({ "uri": "iii://brain" })),
            ("prompts/list", json!({})),
            ("tools/list", json!({})),
            ("tools/call", json!({ "name": "list_skills" })),
        ] {
            let answer = session.ask(method, &params).await;
            let result = answer["result"].as_object().unwrap_or_else(|| panic!("{answer}"));
            for field in NEWEST_ONLY {
                assert!(!result.contains_key(field), "{version} {method}: {field}");
            }
        }
        let answer = session.ask("subscriptions/listen", &json!({ "notifications": {} })).await;
        assert_eq!(answer["error"]["code"], -32601, "{version}");
    }
}

#[tokio::test]
async fn an_unknown_version_gets_the_newest_revision_with_sessions() {
    let server = TestServer::new();
    for version in ["1999-01-01", "2099-01-01", STATELESS, "", "nonsense"] {
        let answer = send(&server.process.http, &post(&initialize(version))).await;
        assert_eq!(answer.status, 200, "{version}");
        assert_eq!(answer.json()["result"]["protocolVersion"], "2025-11-25", "{version}");
    }
}

#[tokio::test]
async fn a_session_ends_when_its_client_deletes_it() {
    let server = TestServer::new();
    let (one, other) = (
        Session::open(&server.process.http, "2025-06-18").await,
        Session::open(&server.process.http, "2025-06-18").await,
    );
    let mut events = one.events().await;
    assert_eq!(one.ping().await, 200);
    assert!([200, 202, 204].contains(&one.delete().await));
    assert_eq!(one.ping().await, 404);
    assert_eq!(events.next().await, None, "its stream ends with it");
    assert_eq!(other.ping().await, 200, "others go on");
}

#[tokio::test]
async fn requests_must_name_an_existing_session() {
    let server = TestServer::new();
    let ping = request(1, "ping", &json!({}));
    assert_eq!(send(&server.process.http, &post(&ping)).await.status, 400);
    for id in ["nonsense", "00000000-0000-4000-8000-000000000000", "ü"] {
        let ask = post(&ping).header("Mcp-Session-Id", id);
        assert_eq!(send(&server.process.http, &ask).await.status, 404, "{id}");
        for method in ["GET", "DELETE"] {
            let ask = Request::new(method, "/mcp")
                .header("Accept", "text/event-stream")
                .header("Mcp-Session-Id", id);
            assert_eq!(send(&server.process.http, &ask).await.status, 404, "{method} {id}");
        }
    }
    let get = Request::get("/mcp").header("Accept", "text/event-stream");
    assert_eq!(send(&server.process.http, &get).await.status, 400);
    let session = Session::open(&server.process.http, "2025-06-18").await;
    let other = post(&ping)
        .header("Mcp-Session-Id", &session.id)
        .header("MCP-Protocol-Version", "1999-01-01");
    assert_eq!(send(&server.process.http, &other).await.status, 400);
}

#[tokio::test]
async fn server_failures_are_logged_to_clients_that_set_a_level() {
    let server = TestServer::new();
    register(&server.worker().await, "brain", "See iii://brain/brain::nobody.\n").await;
    let mut session = Session::open(&server.process.http, "2025-06-18").await;
    let mut events = session.events().await;
    let section = json!({ "uri": "iii://brain/brain::nobody" });
    // Without a level no log messages are sent: the first message is the answer.
    session.ask("resources/read", &section).await;
    assert_eq!(
        session.ask("logging/setLevel", &json!({ "level": "error" })).await["result"],
        json!({})
    );
    let answer = session.ask("resources/read", &section).await;
    assert_eq!(answer["error"]["code"], -32603, "{answer}");
    let message = events.message().await;
    assert_eq!(message["method"], "notifications/message");
    assert_eq!(
        (&message["params"]["level"], &message["params"]["logger"]),
        (&json!("error"), &json!("skills"))
    );
    assert!(message["params"]["data"]["message"].as_str().unwrap().contains("brain::nobody"));
    // A client error is not logged as a server failure.
    session.ask("resources/read", &json!({ "uri": "nonsense" })).await;
    session.ask("logging/setLevel", &json!({ "level": "emergency" })).await;
    session.ask("resources/read", &section).await;
    register(&server.worker().await, "brain", "# Brain\n").await;
    assert_eq!(events.message().await["method"], "notifications/resources/list_changed");
    let refused = crate::support::mcp_clients::Client::Session(session)
        .fails("logging/setLevel", json!({ "level": "shout" }))
        .await;
    assert_eq!(refused.code, -32602);
}

#[tokio::test]
async fn wrong_parameters_are_invalid_params_in_a_session() {
    let server = TestServer::new();
    let mut client = session(&server).await;
    for (method, params) in [
        ("resources/read", json!({})),
        ("resources/read", json!({ "uri": 7 })),
        ("resources/subscribe", json!({})),
        ("prompts/get", json!({ "name": [] })),
        ("tools/call", json!({})),
        ("completion/complete", json!({ "ref": { "type": "ref/prompt" } })),
        ("skills/get", json!({})),
        ("skills/list", json!({ "cursor": 7 })),
    ] {
        let refused = client.fails(method, params.clone()).await;
        assert_eq!(refused.code, -32602, "{method} {params}: {refused:?}");
    }
}
