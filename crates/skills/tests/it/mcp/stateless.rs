//! The protocol revision without sessions, over HTTP.

use serde_json::{Value, json};
use skills_testkit::{Request, Response};

use crate::support::{
    TestServer,
    mcp_clients::{
        SESSIONS, STATELESS, Stateless, post, request, send, stateless, stateless_request,
    },
    register,
};

fn refusal(answer: &Response) -> (u16, i64) {
    (answer.status, answer.json()["error"]["code"].as_i64().unwrap_or_else(|| panic!("{answer:?}")))
}

#[tokio::test]
async fn the_server_describes_itself_without_a_session() {
    let server = TestServer::new();
    let ask = Stateless::post(&stateless_request(1, "server/discover", &json!({})));
    let answer = send(&server.process.http, &ask).await;
    assert_eq!((answer.status, answer.header("Mcp-Session-Id")), (200, None));
    let message = answer.json();
    let result = &message["result"];
    let versions: Vec<_> = SESSIONS.into_iter().chain([STATELESS]).collect();
    assert_eq!(result["supportedVersions"], json!(versions));
    let capabilities = &result["capabilities"];
    assert_eq!(capabilities["resources"], json!({ "subscribe": true, "listChanged": true }));
    assert_eq!(
        capabilities["extensions"]["io.modelcontextprotocol/skills"],
        json!({ "directoryRead": true })
    );
    assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "skills");
}

#[tokio::test]
async fn results_have_a_type_and_a_cache_lifetime() {
    for (server, scope) in [
        (TestServer::new(), "public"),
        (TestServer::with_args(&["--token", "s3cret-of-16-bytes"]), "private"),
    ] {
        let headers = if scope == "private" {
            vec![("authorization", "Bearer s3cret-of-16-bytes")]
        } else {
            vec![]
        };
        let peer = skills_testkit::Peer::connect_with(&server.process.url, &headers).await.unwrap();
        register(&skills_testkit::Worker::from_peer(peer), "brain", "# Brain\n").await;
        for (method, params, keeps) in [
            ("server/discover", json!({}), true),
            ("resources/list", json!({}), true),
            ("resources/templates/list", json!({}), true),
            ("resources/read", json!({ "uri": "iii://brain" }), true),
            ("prompts/list", json!({}), true),
            ("tools/list", json!({}), true),
            ("skills/list", json!({}), true),
            ("skills/get", json!({ "uri": "skill://brain/SKILL.md" }), true),
            ("tools/call", json!({ "name": "list_skills" }), false),
            (
                "completion/complete",
                json!({ "ref": { "type": "ref/resource", "uri": "iii://{id}" },
                    "argument": { "name": "id", "value": "" } }),
                false,
            ),
        ] {
            let ask = Stateless::post(&stateless_request(1, method, &params))
                .header("Authorization", "Bearer s3cret-of-16-bytes");
            let answer = send(&server.process.http, &ask).await;
            assert_eq!(answer.status, 200, "{method}");
            let result = answer.json()["result"].take();
            assert_eq!(result["resultType"], "complete", "{method}");
            if keeps {
                assert!(result["ttlMs"].is_u64(), "{method}");
                assert_eq!(result["cacheScope"], scope, "{method}");
            }
        }
    }
}

#[tokio::test]
async fn required_headers_must_match_the_body() {
    let server = TestServer::new();
    let list = stateless_request(1, "resources/list", &json!({}));
    let read = stateless_request(1, "resources/read", &json!({ "uri": "iii://skills" }));
    let version = |request: Request| request.header("MCP-Protocol-Version", STATELESS);
    let header = |request: Request, name: &str, value: &str| request.header(name, value);
    for (what, ask) in [
        ("no method", version(post(&list))),
        ("another method", header(version(post(&list)), "Mcp-Method", "tools/list")),
        ("no version", header(post(&list), "Mcp-Method", "resources/list")),
        (
            "another version",
            header(post(&list), "Mcp-Method", "resources/list")
                .header("MCP-Protocol-Version", "2025-11-25"),
        ),
        ("no name", header(version(post(&read)), "Mcp-Method", "resources/read")),
        (
            "another name",
            header(version(post(&read)), "Mcp-Method", "resources/read")
                .header("Mcp-Name", "iii://other"),
        ),
    ] {
        assert_eq!(refusal(&send(&server.process.http, &ask).await), (400, -32020), "{what}");
    }
    assert_eq!(send(&server.process.http, &Stateless::post(&read)).await.status, 200);
}

#[tokio::test]
async fn required_request_metadata_is_checked() {
    let server = TestServer::new();
    let bare = request(1, "resources/list", &json!({}));
    let ask = Stateless::post(&bare);
    assert_eq!(refusal(&send(&server.process.http, &ask).await), (400, -32602));
    let mut other = stateless_request(1, "resources/list", &json!({}));
    other["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("1999-01-01");
    let ask = post(&other)
        .header("MCP-Protocol-Version", "1999-01-01")
        .header("Mcp-Method", "resources/list");
    let answer = send(&server.process.http, &ask).await;
    assert_eq!(refusal(&answer), (400, -32022));
    let data = answer.json()["error"]["data"].take();
    assert_eq!(data["requested"], "1999-01-01");
    assert!(data["supported"].as_array().unwrap().contains(&json!(STATELESS)), "{data}");
}

#[tokio::test]
async fn methods_removed_from_the_revision_are_not_found() {
    let server = TestServer::new();
    for (method, params) in [
        ("ping", json!({})),
        ("resources/subscribe", json!({ "uri": "iii://a" })),
        ("resources/unsubscribe", json!({ "uri": "iii://a" })),
        ("logging/setLevel", json!({ "level": "error" })),
        ("no/such", json!({})),
        ("skills/nothing", json!({})),
    ] {
        let ask = Stateless::post(&stateless_request(1, method, &params));
        let answer = send(&server.process.http, &ask).await;
        assert_eq!(refusal(&answer), (404, -32601), "{method}");
    }
    for method in ["GET", "DELETE"] {
        let ask = Request::new(method, "/mcp")
            .header("Accept", "text/event-stream")
            .header("MCP-Protocol-Version", STATELESS);
        assert_eq!(send(&server.process.http, &ask).await.status, 405, "{method}");
    }
}

#[tokio::test]
async fn no_state_is_kept_between_requests() {
    let server = TestServer::new();
    register(&server.worker().await, "brain", "# Brain\n").await;
    let (mut one, mut other) = (stateless(&server), stateless(&server));
    let lists: [Value; 2] =
        [one.ok("resources/list", json!({})).await, other.ok("resources/list", json!({})).await];
    assert_eq!(lists[0], lists[1]);
    assert_eq!(lists[0]["resources"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn wrong_parameters_are_invalid_params_without_a_session() {
    let server = TestServer::new();
    for (method, params) in [
        ("resources/read", json!({})),
        ("resources/read", json!({ "uri": 7 })),
        ("prompts/get", json!({})),
        ("tools/call", json!({})),
        ("subscriptions/listen", json!({ "notifications": 7 })),
    ] {
        let ask = Stateless::post(&stateless_request(1, method, &params))
            .header("Mcp-Name", "iii://skills");
        let answer = send(&server.process.http, &ask).await;
        assert_eq!(answer.json()["error"]["code"], -32602, "{method} {params}: {answer:?}");
    }
}
