//! Token, cookie and metadata.

use serde_json::{Value, json};
use skills_mdp::Config;
use skills_testkit::{
    Request,
    mdp::{Client, registration},
};

use crate::test_host::TestHost;

async fn guarded() -> TestHost {
    TestHost::with(Config { token: Some("s3cret".into()), ..Config::default() }, None).await
}

fn with_auth(id: &str, auth: Value) -> Value {
    let mut message = registration(id, json!([]));
    message["auth"] = auth;
    message
}

#[tokio::test]
async fn registration_without_the_token_is_refused() {
    let host = guarded().await;
    for headers in [
        &[][..],
        &[("authorization", "Bearer wrong")],
        &[("authorization", "s3cret")][..0],
        &[("cookie", "mdp_auth=eyJ0b2tlbiI6InMzY3JldCJ9")],
    ] {
        let mut client = Client::connect_with(&host.ws(), headers).await.ok().unwrap();
        client.send(&registration("c", json!([]))).await;
        let (code, reason) = client.wait_for_close().await;
        assert!(code == 1008 && reason.contains("needs the token"), "{code} {reason}");
    }
    let mut client = host.connect().await;
    client.send(&with_auth("c", json!({"token": "wrong"}))).await;
    assert_eq!(client.wait_for_close().await.0, 1008);
    assert!(host.ids().is_empty());
}

#[tokio::test]
async fn the_token_is_accepted_in_handshake_message_or_cookie() {
    let host = guarded().await;
    let bearer = [("authorization", "Bearer s3cret")];
    let mut by_header = Client::connect_with(&host.ws(), &bearer).await.ok().unwrap();
    by_header.send(&registration("header", json!([]))).await;
    host.until(|ids| ids == ["header"]).await;

    let mut by_message = host.connect().await;
    by_message.send(&with_auth("message", json!({"token": "s3cret"}))).await;
    host.until(|ids| ids == ["header", "message"]).await;

    let given = host.post("/mdp/auth", r#"{"auth":{"token":"s3cret"}}"#).await;
    assert_eq!(given.status, 204);
    assert_eq!(given.header("cache-control").as_deref(), Some("no-store"));
    let cookie = given.header("set-cookie").unwrap();
    assert!(cookie.ends_with("; Path=/; Max-Age=3600; HttpOnly; SameSite=Lax"), "{cookie}");
    let cookie = cookie.split(';').next().unwrap().to_owned();
    let mut by_cookie =
        Client::connect_with(&host.ws(), &[("cookie", &cookie)]).await.ok().unwrap();
    by_cookie.send(&with_auth("cookie", json!({"token": "x"}))).await;
    host.until(|ids| ids == ["header", "message", "cookie"]).await;

    let sources: Vec<String> = host
        .host
        .client_table()
        .clients()
        .map(|client| client.auth_source.as_str().to_owned())
        .collect();
    assert_eq!(sources, ["transport", "message", "transport+message"]);
    // Cookies of another process and forged cookies.
    let other = guarded().await;
    let mut forged = Client::connect_with(&other.ws(), &[("cookie", &cookie)]).await.ok().unwrap();
    forged.send(&registration("c", json!([]))).await;
    assert_eq!(forged.wait_for_close().await.0, 1008);
}

#[tokio::test]
async fn the_http_loop_requires_the_token() {
    let host = guarded().await;
    let send = async |headers: &[(&str, &str)], message: Value| {
        let connected = host.post("/mdp/http-loop/connect", "").await;
        let session = connected.json()["sessionId"].as_str().unwrap().to_owned();
        let mut request = Request::new("POST", &format!("/mdp/http-loop/send?sessionId={session}"));
        for (name, value) in headers {
            request = request.header(name, value);
        }
        host.ask(request.body(json!({ "message": message }).to_string())).await
    };
    let refused = send(&[], registration("c", json!([]))).await;
    assert_eq!((refused.status, &refused.json()["code"]), (401, &json!("unauthorized")));
    let wrong =
        send(&[("authorization", "Bearer no")], with_auth("c", json!({"token": "no"}))).await;
    assert_eq!(wrong.status, 401);
    assert!(host.ids().is_empty());
    let bearer = [("authorization", "Bearer s3cret")];
    assert_eq!(send(&bearer, registration("a", json!([]))).await.status, 202);
    assert_eq!(send(&[], with_auth("b", json!({"token": "s3cret"}))).await.status, 202);
    assert_eq!(host.ids(), ["a", "b"]);
}

#[tokio::test]
async fn the_cookie_endpoint_requires_a_token_and_sets_a_small_cookie() {
    let host = TestHost::new().await;
    let bad = host.post("/mdp/auth", "{}").await;
    assert_eq!(
        (bad.status, bad.json()),
        (400, json!({"error": "Auth endpoint requires an auth context"}))
    );
    assert_eq!(host.post("/mdp/auth", "").await.status, 400);
    assert_eq!(host.post("/mdp/auth", "{").await.status, 400);
    assert_eq!(host.post("/mdp/auth", r#"{"auth":{"token":null}}"#).await.status, 400);
    let large = json!({"auth": {"token": "x".repeat(5000)}}).to_string();
    let large = host.post("/mdp/auth", &large).await;
    assert_eq!(large.status, 204);
    assert!(large.header("set-cookie").unwrap().len() < 200, "the token is not in it");
    assert_eq!(host.post("/mdp/auth", &"x".repeat(20_000)).await.status, 400);
    let by_header = Request::new("POST", "/mdp/auth").header("authorization", "Bearer t");
    assert_eq!(host.ask(by_header).await.status, 204);
    let cleared = host.ask(Request::new("DELETE", "/mdp/auth")).await;
    assert_eq!(cleared.status, 204);
    assert!(cleared.header("set-cookie").unwrap().starts_with("mdp_auth=; Path=/; Max-Age=0;"));
    assert_eq!(host.get("/mdp/auth").await.status, 404);
    let options = Request::new("OPTIONS", "/mdp/auth").header("Origin", "http://localhost");
    let options = host.ask(options).await;
    assert_eq!(
        options.header("access-control-allow-methods").unwrap(),
        "GET, POST, DELETE, OPTIONS"
    );

    let guarded = guarded().await;
    let wrong = guarded.post("/mdp/auth", r#"{"auth":{"token":"wrong"}}"#).await;
    assert_eq!((wrong.status, wrong.header("set-cookie")), (401, None));
}

#[tokio::test]
async fn the_metadata_endpoint_describes_the_server() {
    let host = TestHost::new().await;
    let address = host.address.to_string();
    for method in ["GET", "POST"] {
        let meta = host.ask(Request::new(method, "/mdp/meta")).await;
        assert_eq!(meta.status, 200, "{method}");
        let meta = meta.json();
        assert_eq!(
            (&meta["protocol"], &meta["protocolVersion"]),
            (&json!("mdp"), &json!("2.0.0")),
            "{method}"
        );
        assert_eq!(meta["serverId"], address, "{method}");
        assert_eq!(meta["endpoints"]["ws"], format!("ws://{address}"), "{method}");
        assert_eq!(
            meta["endpoints"]["httpLoop"],
            format!("http://{address}/mdp/http-loop"),
            "{method}"
        );
        assert_eq!(
            meta["features"],
            json!({"upstreamProxy": false, "clusterControl": false}),
            "{method}"
        );
        for field in
            ["id", "membershipMode", "membershipFingerprint", "role", "leaderId", "leaderUrl"]
        {
            assert!(meta["cluster"][field].is_string(), "{field}");
        }
        assert!(
            meta["cluster"]["term"] == 0 && meta["cluster"]["leaseDurationMs"].is_u64(),
            "{method}"
        );
        assert_ne!(meta["cluster"]["id"], "127.0.0.1:47372", "{method}");
    }
    let odd = host.ask(Request::get("/mdp/meta").header("Host", "a b")).await;
    assert_eq!(odd.status, 400);
}
