//! Tokens, cookies and origins.

use serde_json::{Value, json};
use skills_testkit::{
    Request,
    mdp::{Client, ok, registration},
};

use crate::{
    mdp::{ask, client, get, paths, post, ws},
    support::TestServer,
};

const PAGE: &str = "http://localhost:5173";

async fn refused_with(server: &TestServer, headers: &[(&'static str, &str)]) -> Option<u16> {
    Client::connect_with(&ws(server), headers).await.err()
}

fn with_token(token: &str) -> Value {
    let mut message = registration("tab", paths());
    message["auth"] = json!({ "token": token });
    message
}

#[tokio::test]
async fn without_an_mdp_token_the_server_token_is_required() {
    let server = TestServer::with_args(&["--token", "s3cret-of-16-bytes"]);
    let bearer = ("authorization", "Bearer s3cret-of-16-bytes");
    assert_eq!(refused_with(&server, &[]).await, Some(401));
    assert_eq!(refused_with(&server, &[("authorization", "Bearer no")]).await, Some(401));
    assert_eq!(refused_with(&server, &[bearer]).await, None);
    for path in ["/mdp/meta", "/mdp/auth", "/mdp/http-loop/connect", "/mdp/http-loop/poll"] {
        assert_eq!(get(&server, path).await.status, 401, "{path}");
    }
    assert_eq!(get(&server, "/skills/tab/a").await.status, 401);
}

#[tokio::test]
async fn with_an_mdp_token_clients_need_it_and_readers_the_server_token() {
    let server = TestServer::with_args(&[
        "--token",
        "s3cret-of-16-bytes",
        "--mdp-token",
        "drive-of-16-bytes",
    ]);
    // Every client must present the token, in handshake or message.
    for message in [registration("tab", paths()), with_token("s3cret-of-16-bytes")] {
        let mut nobody = Client::connect(&ws(&server)).await;
        nobody.send(&message).await;
        assert_eq!(nobody.wait_for_close().await.0, 1008);
    }
    let posted = post(&server, "/mdp/auth", r#"{"auth":{"token":"drive-of-16-bytes"}}"#).await;
    let cookie = posted.header("set-cookie").unwrap();
    let cookie = cookie.split(';').next().unwrap();
    for (header, message) in [
        (Some(("authorization", "Bearer drive-of-16-bytes")), registration("tab", paths())),
        (Some(("cookie", cookie)), registration("tab", paths())),
        (None, with_token("drive-of-16-bytes")),
    ] {
        let headers: Vec<_> = header.into_iter().collect();
        let mut client = Client::connect_with(&ws(&server), &headers).await.ok().unwrap();
        client.send(&message).await;
        client.wait_until_processed().await;
        let serving = client.serve_calls(|_| ok("here"));
        assert_eq!(
            get(&server, "/skills/tab/a").await.refusal(),
            (401, "unauthorized".to_owned()),
            "{header:?}"
        );
        for token in ["Bearer drive-of-16-bytes", "Bearer s3cret-of-16-bytes"] {
            let read = Request::get("/skills/tab/a").header("Authorization", token);
            let expected = if token == "Bearer s3cret-of-16-bytes" { 200 } else { 401 };
            assert_eq!(ask(&server, read).await.unwrap().status, expected, "{token}");
        }
        serving.abort();
    }
    assert_eq!(post(&server, "/mdp/auth", r#"{"auth":{"token":"no"}}"#).await.status, 401);
    assert_eq!(get(&server, "/mdp/meta").await.status, 200);
    // A request that is no WebSocket gets no client rights by its headers.
    for (name, value) in [("Connection", "upgrade"), ("Sec-WebSocket-Key", "x"), ("Cookie", cookie)]
    {
        let request = Request::get("/skills/tab/a").header(name, value);
        assert_eq!(ask(&server, request).await.unwrap().status, 401, "{name}");
    }
    // Routes of other surfaces accept no WebSocket clients.
    let elsewhere = format!("{}/mcp", ws(&server));
    assert_eq!(Client::connect_with(&elsewhere, &[]).await.err(), Some(401));
}

#[tokio::test]
async fn the_mdp_token_may_be_set_by_flag_variable_or_file() {
    let needs_token = async |server: &TestServer| {
        let mut client = Client::connect(&ws(server)).await;
        client.send(&registration("tab", paths())).await;
        client.wait_for_close().await.0 == 1008
    };
    let filed = TestServer::with_config("mdp:\n  token: filed-of-16-bytes\n");
    assert!(needs_token(&filed).await);
    let mut client = Client::connect(&ws(&filed)).await;
    client.send(&with_token("filed-of-16-bytes")).await;
    client.wait_until_processed().await;
    let dir = tempfile::tempdir().unwrap();
    let mut command =
        skills_testkit::ServerProcess::command(crate::support::BINARY, &dir.path().join("data"));
    command.env("SKILLS_MDP_TOKEN", "variable-of-16-bytes");
    let server = TestServer::from_parts(skills_testkit::ServerProcess::spawn(&mut command), dir);
    assert!(needs_token(&server).await);
}

/// Returns the call a client receives for a request with credentials.
async fn call_with_credentials(server: &TestServer) -> Value {
    let mut tab = client(server, "tab", paths()).await;
    let read = Request::get("/skills/tab/a")
        .header("Cookie", "session=1")
        .header("X-Mdp-Auth-Team", "blue")
        .header("X-Scope", "all");
    let waiting = ask(server, read);
    let call = tab.next_call().await;
    tab.answer(&call, ok("fine")).await;
    assert_eq!(waiting.await.unwrap().status, 200);
    call
}

#[tokio::test]
async fn credentials_are_forwarded_only_if_configured() {
    let call = call_with_credentials(&TestServer::new()).await;
    assert_eq!(call["headers"]["x-scope"], "all");
    assert!(call["auth"].is_null() && call["headers"]["cookie"].is_null(), "{call}");
    assert!(call["headers"]["x-mdp-auth-team"].is_null(), "{call}");

    let server = TestServer::with_config("mdp:\n  forward_credentials: true\n");
    let call = call_with_credentials(&server).await;
    assert_eq!(call["auth"], json!({ "headers": { "x-mdp-auth-team": "blue" } }));
    assert_eq!(call["headers"]["cookie"], "session=1");
}

#[tokio::test]
async fn behind_tls_addresses_and_cookies_are_secure() {
    let server = TestServer::with_config("mdp:\n  behind_tls: true\n");
    let posted = post(&server, "/mdp/auth", r#"{"auth":{"token":"t"}}"#).await;
    assert!(posted.header("set-cookie").unwrap().ends_with("; SameSite=Lax; Secure"));
    let meta = get(&server, "/mdp/meta").await.json();
    assert!(meta["endpoints"]["ws"].as_str().unwrap().starts_with("wss://"), "{meta}");
    assert!(meta["endpoints"]["auth"].as_str().unwrap().starts_with("https://"), "{meta}");
    let _tab = client(&server, "tab", paths()).await;
    let listed = server.worker().await.ok("mdp::list-clients", json!({ "search": "tab" })).await;
    assert_eq!(listed["clients"][0]["connection"]["secure"], true, "{listed}");
}

#[tokio::test]
async fn foreign_origins_are_refused_and_allowed_ones_may_send_cookies() {
    let server = TestServer::with_args(&[
        "--mdp-token",
        "drive-of-16-bytes",
        "--allow-origin",
        "https://app.example",
    ]);
    assert_eq!(refused_with(&server, &[("origin", "https://evil.example")]).await, Some(403));
    assert_eq!(refused_with(&server, &[("origin", "null")]).await, Some(403));
    for origin in [PAGE, "https://app.example"] {
        assert_eq!(refused_with(&server, &[("origin", origin)]).await, None, "{origin}");
        for (method, path) in [
            ("GET", "/mdp/meta"),
            ("POST", "/mdp/auth"),
            ("POST", "/mdp/http-loop/connect"),
            ("GET", "/mdp/http-loop/poll"),
            ("GET", "/skills/tab/a"),
        ] {
            let preflight = Request::new("OPTIONS", path)
                .header("Origin", origin)
                .header("Access-Control-Request-Method", method)
                .header("Access-Control-Request-Headers", "x-mdp-session-id");
            for request in [Request::new(method, path).header("Origin", origin), preflight] {
                let answer = ask(&server, request).await.unwrap();
                let header = |name: &str| answer.header(&format!("Access-Control-Allow-{name}"));
                assert_eq!(header("Origin").as_deref(), Some(origin), "{method} {path}");
                assert_eq!(header("Credentials").as_deref(), Some("true"), "{method} {path}");
            }
        }
        let foreign = Request::get("/skills/tab/a").header("Origin", "https://evil.example");
        assert_eq!(ask(&server, foreign).await.unwrap().status, 403, "{origin:?}");
    }
}

#[tokio::test]
async fn origins_allowed_by_a_wildcard_have_no_cookies() {
    let server = TestServer::with_args(&["--allow-origin", "*"]);
    let asked = async |origin: &str| {
        let request = Request::get("/v1/available-skills").header("Origin", origin);
        let answer = ask(&server, request).await.unwrap();
        let header = |name: &str| answer.header(&format!("Access-Control-Allow-{name}"));
        (header("Origin").unwrap(), header("Credentials"))
    };
    let any = "https://any.example";
    assert_eq!(asked(any).await, (any.to_owned(), None));
    assert_eq!(asked(PAGE).await, (PAGE.to_owned(), Some("true".to_owned())));
    client(&server, "tab", paths()).await.kill();
    // Clients are refused too.
    assert_eq!(refused_with(&server, &[("origin", any)]).await, Some(403));
    let meta = Request::get("/mdp/meta").header("Origin", any);
    assert_eq!(ask(&server, meta).await.unwrap().status, 403);
}
