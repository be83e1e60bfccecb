//! Tokens, cookies and origins.

use serde_json::{Value, json};
use skills_testkit::{
    Request,
    mdp::{Client, ok, registration},
};

use crate::{ask, client, get, paths, post, support::Home, ws};

const PAGE: &str = "http://localhost:5173";

async fn refused_with(home: &Home, headers: &[(&'static str, &str)]) -> Option<u16> {
    Client::connect_with(&ws(home), headers).await.err()
}

fn with_token(token: &str) -> Value {
    let mut message = registration("tab", paths());
    message["auth"] = json!({ "token": token });
    message
}

#[tokio::test]
async fn without_a_token_of_its_own_it_needs_that_of_the_server() {
    let home = Home::with(&["--token", "s3cret"]);
    let bearer = ("authorization", "Bearer s3cret");
    assert_eq!(refused_with(&home, &[]).await, Some(401));
    assert_eq!(refused_with(&home, &[("authorization", "Bearer no")]).await, Some(401));
    assert_eq!(refused_with(&home, &[bearer]).await, None);
    for path in ["/mdp/meta", "/mdp/auth", "/mdp/http-loop/connect", "/mdp/http-loop/poll"] {
        assert_eq!(get(&home, path).await.status, 401, "{path}");
    }
    assert_eq!(get(&home, "/skills/tab/a").await.status, 401);
}

#[tokio::test]
async fn with_a_token_of_its_own_clients_need_that_and_readers_that_of_the_server() {
    let home = Home::with(&["--token", "s3cret", "--mdp-token", "drive"]);
    // Whoever connects has to present it, in whichever way.
    for message in [registration("tab", paths()), with_token("s3cret")] {
        let mut nobody = Client::connect(&ws(&home)).await;
        nobody.send(&message).await;
        assert_eq!(nobody.closed().await.0, 1008);
    }
    let posted = post(&home, "/mdp/auth", r#"{"auth":{"token":"drive"}}"#).await;
    let cookie = posted.header("set-cookie").unwrap();
    let cookie = cookie.split(';').next().unwrap();
    for (header, message) in [
        (Some(("authorization", "Bearer drive")), registration("tab", paths())),
        (Some(("cookie", cookie)), registration("tab", paths())),
        (None, with_token("drive")),
    ] {
        let headers: Vec<_> = header.into_iter().collect();
        let mut client = Client::connect_with(&ws(&home), &headers).await.ok().unwrap();
        client.send(&message).await;
        client.is_heard().await;
        let serving = client.serving(|_| ok("here"));
        assert_eq!(get(&home, "/skills/tab/a").await.refusal(), (401, "unauthorized".to_owned()));
        for token in ["Bearer drive", "Bearer s3cret"] {
            let read = Request::get("/skills/tab/a").header("Authorization", token);
            let expected = if token == "Bearer s3cret" { 200 } else { 401 };
            assert_eq!(ask(&home, read).await.unwrap().status, expected, "{token}");
        }
        serving.abort();
    }
    assert_eq!(post(&home, "/mdp/auth", r#"{"auth":{"token":"no"}}"#).await.status, 401);
    assert_eq!(get(&home, "/mdp/meta").await.status, 200);
    // What is no WebSocket is no client, whatever it says of itself.
    for (name, value) in [("Connection", "upgrade"), ("Sec-WebSocket-Key", "x"), ("Cookie", cookie)]
    {
        let request = Request::get("/skills/tab/a").header(name, value);
        assert_eq!(ask(&home, request).await.unwrap().status, 401, "{name}");
    }
    // And where something else is, it is no WebSocket of ours.
    let elsewhere = format!("{}/mcp", ws(&home));
    assert_eq!(Client::connect_with(&elsewhere, &[]).await.err(), Some(401));
}

#[tokio::test]
async fn the_token_comes_from_a_flag_or_a_variable_or_the_file() {
    let needs_token = async |home: &Home| {
        let mut client = Client::connect(&ws(home)).await;
        client.send(&registration("tab", paths())).await;
        client.closed().await.0 == 1008
    };
    let filed = Home::configured("mdp:\n  token: filed\n");
    assert!(needs_token(&filed).await);
    let mut client = Client::connect(&ws(&filed)).await;
    client.send(&with_token("filed")).await;
    client.is_heard().await;
    let dir = tempfile::tempdir().unwrap();
    let mut command =
        skills_testkit::Server::command(crate::support::BINARY, &dir.path().join("data"));
    command.env("SKILLS_MDP_TOKEN", "variable");
    let home = Home::of(skills_testkit::Server::spawn(&mut command), dir);
    assert!(needs_token(&home).await);
}

/// What a client is asked when somebody presents credentials.
async fn asked_with_credentials(home: &Home) -> Value {
    let mut tab = client(home, "tab", paths()).await;
    let read = Request::get("/skills/tab/a")
        .header("Cookie", "session=1")
        .header("X-Mdp-Auth-Team", "blue")
        .header("X-Scope", "all");
    let waiting = ask(home, read);
    let call = tab.asked().await;
    tab.answer(&call, ok("fine")).await;
    assert_eq!(waiting.await.unwrap().status, 200);
    call
}

#[tokio::test]
async fn credentials_are_passed_on_only_where_that_is_set() {
    let call = asked_with_credentials(&Home::new()).await;
    assert_eq!(call["headers"]["x-scope"], "all");
    assert!(call["auth"].is_null() && call["headers"]["cookie"].is_null(), "{call}");
    assert!(call["headers"]["x-mdp-auth-team"].is_null(), "{call}");

    let home = Home::configured("mdp:\n  forward_credentials: true\n");
    let call = asked_with_credentials(&home).await;
    assert_eq!(call["auth"], json!({ "headers": { "x-mdp-auth-team": "blue" } }));
    assert_eq!(call["headers"]["cookie"], "session=1");
}

#[tokio::test]
async fn behind_tls_addresses_and_cookies_are_secure() {
    let home = Home::configured("mdp:\n  behind_tls: true\n");
    let posted = post(&home, "/mdp/auth", r#"{"auth":{"token":"t"}}"#).await;
    assert!(posted.header("set-cookie").unwrap().ends_with("; SameSite=Lax; Secure"));
    let meta = get(&home, "/mdp/meta").await.json();
    assert!(meta["endpoints"]["ws"].as_str().unwrap().starts_with("wss://"), "{meta}");
    assert!(meta["endpoints"]["auth"].as_str().unwrap().starts_with("https://"), "{meta}");
    let _tab = client(&home, "tab", paths()).await;
    let listed = home.worker().await.ok("mdp::list-clients", json!({ "search": "tab" })).await;
    assert_eq!(listed["clients"][0]["connection"]["secure"], true, "{listed}");
}

#[tokio::test]
async fn pages_of_foreign_origins_get_nothing_and_others_may_send_their_cookie() {
    let home = Home::with(&["--mdp-token", "drive", "--allow-origin", "https://app.example"]);
    assert_eq!(refused_with(&home, &[("origin", "https://evil.example")]).await, Some(403));
    assert_eq!(refused_with(&home, &[("origin", "null")]).await, Some(403));
    for origin in [PAGE, "https://app.example"] {
        assert_eq!(refused_with(&home, &[("origin", origin)]).await, None, "{origin}");
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
                let answer = ask(&home, request).await.unwrap();
                let header = |name: &str| answer.header(&format!("Access-Control-Allow-{name}"));
                assert_eq!(header("Origin").as_deref(), Some(origin), "{method} {path}");
                assert_eq!(header("Credentials").as_deref(), Some("true"), "{method} {path}");
            }
        }
        let foreign = Request::get("/skills/tab/a").header("Origin", "https://evil.example");
        assert_eq!(ask(&home, foreign).await.unwrap().status, 403);
    }
}

#[tokio::test]
async fn whom_only_everyone_lets_in_has_no_cookies() {
    let home = Home::with(&["--allow-origin", "*"]);
    let asked = async |origin: &str| {
        let answer = ask(&home, Request::get("/mdp/meta").header("Origin", origin)).await.unwrap();
        let header = |name: &str| answer.header(&format!("Access-Control-Allow-{name}"));
        (header("Origin").unwrap(), header("Credentials"))
    };
    let any = "https://any.example";
    assert_eq!(asked(any).await, (any.to_owned(), None));
    assert_eq!(asked(PAGE).await, (PAGE.to_owned(), Some("true".to_owned())));
    client(&home, "tab", paths()).await.kill();
}
