//! Invalid input gets the error of the protocol and affects no other client.

use serde_json::{Value, json};
use skills_testkit::Request;

use crate::support::{
    TestServer,
    mcp_clients::{
        Client, Pipe, STATELESS, Session, Stateless, request, send, session, stateless,
        stateless_request,
    },
    register,
};

/// Builds a request with an arbitrary body.
fn raw(body: impl Into<Vec<u8>>) -> Request {
    Request::new("POST", "/mcp")
        .header("Content-Type", "application/json")
        .header("Accept", "application/json, text/event-stream")
        .body(body)
}

/// Builds the request with and without a session.
fn both(session: &Session, body: &[u8]) -> [Request; 2] {
    [
        session.within(raw(body)),
        raw(body).header("MCP-Protocol-Version", STATELESS).header("Mcp-Method", "ping"),
    ]
}

async fn still_serves(server: &TestServer) {
    assert!(stateless(server).read("iii://skills").await.starts_with("# Skills"));
    assert!(session(server).await.read("iii://skills").await.starts_with("# Skills"));
}

#[tokio::test]
async fn invalid_bodies_get_a_parse_error() {
    let server = TestServer::new();
    let session = Session::open(&server.process.http, "2025-06-18").await;
    let ping = request(1, "ping", &json!({}));
    for (body, code) in [
        (json!([ping]).to_string(), -32600),
        (json!([ping, ping]).to_string(), -32600),
        ("[]".to_owned(), -32600),
        ("{}".to_owned(), -32600),
        ("7".to_owned(), -32600),
        ("\"text\"".to_owned(), -32600),
        ("null".to_owned(), -32600),
        ("{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}".to_owned(), -32600),
        ("{\"id\":1,\"method\":\"ping\"}".to_owned(), -32600),
        (String::new(), -32700),
        ("nonsense".to_owned(), -32700),
        ("{\"jsonrpc\":\"2.0\",".to_owned(), -32700),
        ("[".repeat(90_000), -32700),
    ] {
        for request in both(&session, body.as_bytes()) {
            let answer = send(&server.process.http, &request).await;
            let error = answer.json();
            let outcome = (answer.status, error["error"]["code"].as_i64());
            assert_eq!(outcome, (400, Some(code)), "{:.60}: {answer:?}", body);
            assert_eq!(
                (&error["jsonrpc"], &error["id"]),
                (&json!("2.0"), &Value::Null),
                "{body:?}"
            );
        }
    }
    for request in both(&session, b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}") {
        let answer = send(&server.process.http, &request).await;
        assert_eq!(answer.status, 400, "{answer:?}");
    }
    assert_eq!(session.ping().await, 200);
    still_serves(&server).await;
}

#[tokio::test]
async fn unsupported_content_types_are_refused() {
    let server = TestServer::new();
    let session = Session::open(&server.process.http, "2025-06-18").await;
    let ping = request(1, "ping", &json!({})).to_string();
    let typed = |content: &str, accept: &str| {
        let request = Request::new("POST", "/mcp");
        let request =
            if content.is_empty() { request } else { request.header("Content-Type", content) };
        let request = if accept.is_empty() { request } else { request.header("Accept", accept) };
        session.within(request.body(ping.clone()))
    };
    let both = "application/json, text/event-stream";
    for (content, accept, status) in [
        ("text/plain", both, 415),
        ("", both, 415),
        ("application/x-www-form-urlencoded", both, 415),
        ("multipart/form-data; boundary=x", both, 415),
        ("application/json", "text/html", 406),
        ("application/json; charset=utf-8", both, 200),
    ] {
        let answer = send(&server.process.http, &typed(content, accept)).await;
        assert_eq!(answer.status, status, "{content:?} {accept:?}");
    }
    let get = session.within(Request::get("/mcp").header("Accept", "application/json"));
    assert_eq!(send(&server.process.http, &get).await.status, 406);
    let put = session.within(Request::new("PUT", "/mcp").body(ping));
    assert_eq!(send(&server.process.http, &put).await.status, 405);
}

#[tokio::test]
async fn notifications_and_responses_are_accepted_without_an_answer() {
    let server = TestServer::new();
    let session = Session::open(&server.process.http, "2025-06-18").await;
    for message in [
        json!({ "jsonrpc": "2.0", "id": 99, "result": {} }),
        json!({ "jsonrpc": "2.0", "id": "x", "error": { "code": 1, "message": "m" } }),
        json!({ "jsonrpc": "2.0", "method": "notifications/nothing" }),
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 5 } }),
    ] {
        let answer = send(&server.process.http, &session.post(&message)).await;
        assert_eq!(answer.status, 202, "{message}");
    }
    assert_eq!(session.ping().await, 200);
}

#[tokio::test]
async fn a_body_of_ten_megabytes_is_refused() {
    let server = TestServer::new();
    let session = Session::open(&server.process.http, "2025-06-18").await;
    for request in both(&session, &vec![b' '; 10 << 20]) {
        assert_eq!(send(&server.process.http, &request).await.status, 413);
    }
    let large = json!({ "uri": "x".repeat(10 << 20) });
    let request = session.post(&request(1, "resources/read", &large));
    assert_eq!(send(&server.process.http, &request).await.status, 413);
    assert_eq!(session.ping().await, 200);
    still_serves(&server).await;
}

#[tokio::test]
async fn a_uri_of_a_hundred_kilobytes_is_refused() {
    let server = TestServer::new();
    register(&server.worker().await, "brain", "# Brain\n").await;
    let long = "a".repeat(100 << 10);
    let uris = [
        format!("iii://{long}"),
        format!("iii://brain/{long}::{long}"),
        format!("skill://{long}/SKILL.md"),
        long.clone(),
    ];
    let pipe = Pipe::session(&["--url", &server.process.url], "2025-06-18").await;
    for mut client in [session(&server).await, Client::Pipe(pipe)] {
        for uri in &uris {
            for method in ["resources/read", "skills/get", "resources/directory/read"] {
                let refused = client.fails(method, json!({ "uri": uri })).await;
                assert!([-32602, -32002].contains(&refused.code), "{method} {:.20}", uri);
                let length = refused.message.len() + refused.data.to_string().len();
                assert!(length < 4_000, "{method} {:.20}: the error is {length} bytes long", uri);
            }
            let refused = client.fails("resources/subscribe", json!({ "uri": uri })).await;
            assert_eq!(refused.code, -32602, "{:.20}", uri);
        }
        assert_eq!(client.read("iii://brain").await, "# Brain\n");
    }
    // Without a session the URI is in a header too, which is refused first.
    let read = Stateless::post(&stateless_request(1, "resources/read", &json!({ "uri": uris[0] })));
    assert_eq!(send(&server.process.http, &read).await.status, 431);
    still_serves(&server).await;
}

#[tokio::test]
async fn invalid_lines_get_a_parse_error() {
    let server = TestServer::new();
    register(&server.worker().await, "brain", "# Brain\n").await;
    let mut pipe = Pipe::session(&["--url", &server.process.url], "2025-06-18").await;
    let ping = request(5, "ping", &json!({}));
    for line in ["nonsense", "", "{}", "[]", "7", &json!([ping]).to_string(), "\u{7f}\u{1}"] {
        pipe.write(line).await;
    }
    pipe.write(&"[".repeat(100_000)).await;
    let mut client = Client::Pipe(pipe);
    assert_eq!(client.read("iii://brain").await, "# Brain\n", "it goes on");
    let large = json!({ "uri": "x".repeat(10 << 20) });
    let refused = client.fails("resources/read", large).await;
    assert!(refused.code == -32602 && refused.message.len() < 4_000, "{}", refused.code);
    assert_eq!(client.read("iii://brain").await, "# Brain\n");
}
