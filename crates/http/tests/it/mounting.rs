//! Surfaces mounted on the listener.

use skills_testkit::Request;

use crate::test_server::TestServer;

#[tokio::test]
async fn an_unsupported_method_gets_405() {
    let server = TestServer::new().await;
    for path in ["/who", "/healthz"] {
        let answer = server.answer(Request::new("POST", path)).await;
        assert_eq!(answer.refusal(), (405, "method_not_allowed".to_owned()), "{path}");
        assert_eq!(answer.header("Allow").as_deref(), Some("GET,HEAD"), "{path}");
    }
}

#[tokio::test]
async fn a_nested_surface_keeps_its_own_fallback() {
    let server = TestServer::new().await;
    let answer = server.answer(Request::get("/nested/anything")).await;
    assert_eq!((answer.status, answer.body.as_slice()), (418, b"mine".as_slice()));
    assert_eq!(answer.header("Vary").as_deref(), Some("origin"), "but it is guarded");
    let page = Request::get("/nested/anything").header("Origin", "https://evil.example");
    assert_eq!(server.answer(page).await.refusal().1, "origin_not_allowed");
    let outside = server.answer(Request::get("/nowhere")).await;
    assert_eq!(outside.refusal(), (404, "not_found".to_owned()));
}

#[tokio::test]
async fn a_surface_sees_the_kind_of_credential_but_not_its_value() {
    let server = TestServer::new().await;
    assert_eq!(server.answer(Request::get("/who")).await.body, b"Credential(none)");
    let who = Request::get("/who").header("Authorization", "Bearer abc");
    assert_eq!(server.answer(who).await.body, b"Credential(_)");
}

#[tokio::test]
async fn a_surface_sees_the_caller_and_an_unknown_key_is_refused() {
    let server = TestServer::new().await;
    let asks = async |path: &str, credential: &str| {
        let request = Request::get(path).header("Authorization", credential);
        server.answer(request).await
    };
    assert_eq!(server.answer(Request::get("/caller")).await.body, b"");
    assert_eq!(asks("/caller", "Bearer something-else").await.body, b"");
    for credential in ["Bearer us-ann", "bearer us-ann", "us-ann"] {
        let body = asks("/caller", credential).await.body;
        assert!(body.starts_with(b"key:"), "{credential}");
    }
    assert_eq!(asks("/caller", "Bearer us-admin").await.body, b"admin:ADMIN_KEY");
    for path in ["/caller", "/who", "/nested/x", "/nowhere"] {
        let answer = asks(path, "Bearer us-bob").await;
        assert_eq!(answer.refusal(), (401, "unknown_key".to_owned()), "{path}");
        assert_eq!(answer.header("WWW-Authenticate").as_deref(), Some("Bearer"), "{path}");
    }
    let two = Request::get("/caller")
        .header("Authorization", "Bearer us-ann")
        .header("Authorization", "Bearer x");
    assert_eq!(server.answer(two).await.refusal().0, 401);
    assert_eq!(asks("/healthz", "Bearer us-bob").await.status, 200, "health is nobody's secret");
}
