//! Access checks, ownership of sessions, and standard output.

use std::fs::File;

use serde_json::json;
use skills_testkit::{Request, ServerProcess};

use crate::support::{
    BINARY, TestServer,
    mcp_clients::{
        Client, Pipe, Session, Stateless, every_kind, initialize, post, send, stateless_request,
    },
    register,
};

#[tokio::test]
async fn foreign_origins_and_hosts_are_refused_for_every_method() {
    let server = TestServer::new();
    let session = Session::open(&server.process.http, "2025-06-18").await;
    let requests = [
        post(&initialize("2025-06-18")),
        session.post(&json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" })),
        session.within(Request::get("/mcp").header("Accept", "text/event-stream")),
        session.within(Request::new("DELETE", "/mcp")),
        Stateless::post(&stateless_request(1, "server/discover", &json!({}))),
    ];
    for request in requests {
        for (name, value) in [
            ("Origin", "https://evil.example"),
            ("Origin", "null"),
            ("Host", "evil.example"),
            ("Host", "evil.example:80"),
        ] {
            let answer = send(&server.process.http, &request.clone().header(name, value)).await;
            assert_eq!(answer.status, 403, "{name}: {value} {request:?}");
            assert_eq!(answer.header("Mcp-Session-Id"), None, "{name}");
        }
    }
    assert_eq!(session.ping().await, 200, "nobody has ended it");
    let page = post(&initialize("2025-06-18")).header("Origin", "http://localhost:6274");
    let answer = send(&server.process.http, &page).await;
    assert_eq!(answer.status, 200, "a page of this machine may ask");
    let exposed = answer.header("Access-Control-Expose-Headers").unwrap();
    assert!(exposed.contains("Mcp-Session-Id"), "{exposed}");
}

#[tokio::test]
async fn a_configured_token_is_required() {
    let server = TestServer::with_args(&["--token", "s3cret-of-16-bytes"]);
    let session =
        Session::open_as(&server.process.http, "2025-06-18", Some("s3cret-of-16-bytes")).await;
    assert_eq!(session.ping().await, 200);
    for request in [
        post(&initialize("2025-06-18")),
        post(&json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }))
            .header("Mcp-Session-Id", &session.id),
        Request::get("/mcp")
            .header("Accept", "text/event-stream")
            .header("Mcp-Session-Id", &session.id),
        Request::new("DELETE", "/mcp").header("Mcp-Session-Id", &session.id),
        Stateless::post(&stateless_request(1, "server/discover", &json!({}))),
    ] {
        assert_eq!(send(&server.process.http, &request).await.status, 401, "{request:?}");
        let wrong = request.header("Authorization", "Bearer guess");
        assert_eq!(send(&server.process.http, &wrong).await.status, 401);
    }
    assert_eq!(session.ping().await, 200);
}

#[tokio::test]
async fn a_session_belongs_to_the_token_that_opened_it() {
    let server = TestServer::new();
    let session = Session::open_as(&server.process.http, "2025-06-18", Some("one")).await;
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    for request in [
        post(&ping),
        Request::get("/mcp").header("Accept", "text/event-stream"),
        Request::new("DELETE", "/mcp"),
    ] {
        let stolen = request.header("Mcp-Session-Id", &session.id);
        assert_eq!(send(&server.process.http, &stolen).await.status, 404);
        let stolen = stolen.header("Authorization", "Bearer two");
        assert_eq!(send(&server.process.http, &stolen).await.status, 404);
    }
    assert_eq!(session.ping().await, 200);
}

/// Exercises all methods, also with invalid input.
async fn exercise(client: &mut Client) {
    for (method, params) in [
        ("resources/list", json!({})),
        ("resources/read", json!({ "uri": "iii://brain" })),
        ("resources/read", json!({ "uri": "iii://brain/brain::nobody" })),
        ("resources/read", json!({ "uri": "nonsense" })),
        ("prompts/get", json!({ "name": "nobody" })),
        ("tools/call", json!({ "name": "list_skills" })),
        ("tools/list", json!({})),
        ("skills/list", json!({})),
        ("no/such", json!({})),
    ] {
        client.ask(method, params).await;
    }
}

#[tokio::test]
async fn standard_output_carries_only_messages() {
    let server = TestServer::new();
    register(&server.worker().await, "brain", "# Brain\n").await;
    let directory = server.dir().join("other");
    let places =
        [vec!["--url", &server.process.url], vec!["--data-dir", directory.to_str().unwrap()]];
    for (number, place) in places.iter().enumerate() {
        let log = server.dir().join(format!("log{number}"));
        let mut command = Pipe::command(place);
        command.env("RUST_LOG", "trace").stderr(File::create(&log).unwrap());
        let mut pipe = Pipe::spawn(command);
        pipe.begin("2025-06-18").await;
        let mut client = Client::Pipe(pipe);
        // The client checks each line it reads.
        exercise(&mut client).await;
        let Client::Pipe(mut pipe) = client else { panic!() };
        pipe.write("nonsense").await;
        pipe.hang_up();
        let (code, _) = pipe.ended().await;
        assert_eq!(code, Some(0));
        let logged = std::fs::read_to_string(log).unwrap();
        assert!(logged.contains("TRACE") || logged.contains("DEBUG"), "{logged}");
    }
}

#[tokio::test]
async fn a_server_prints_nothing_on_standard_output() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = ServerProcess::command(BINARY, &dir.path().join("data"));
    let server =
        TestServer::from_parts(ServerProcess::spawn(command.env("RUST_LOG", "trace")), dir);
    for (_, mut client) in every_kind(&server).await {
        exercise(&mut client).await;
    }
    assert_eq!(server.process.stdout.contents(), "");
    assert!(server.process.stderr.contents().contains("DEBUG"));
}
