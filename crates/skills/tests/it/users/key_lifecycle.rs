//! Life cycle of a key.

use serde_json::{Value, json};

use crate::support::TestServer;

#[test]
fn a_key_works_from_creation_until_revocation() {
    let server = TestServer::with_admin();
    let (key, id) = server.create_key("ann");
    let verify = || {
        let answer = server.ask(Some(&key), "GET", "/v1/auth/verify", &Value::Null);
        (answer.status, answer.json())
    };
    let good = json!({"success": true, "valid": true, "credits": 0, "tier": "FREE"});
    assert_eq!(verify(), (200, good));
    server.administer(
        "POST",
        "/v1/admin/sync_cache",
        &json!({"uid": "ann", "tier": "SCALE", "credits": 2.5}),
    );
    let better = json!({"success": true, "valid": true, "credits": 2.5, "tier": "SCALE"});
    assert_eq!(verify(), (200, better));
    server.administer("DELETE", &format!("/v1/admin/keys/{id}"), &Value::Null);
    let (status, output) = verify();
    assert_eq!((status, &output["code"]), (401, &json!("unknown_key")), "{output}");
    assert_eq!(output["error"], "Unauthorized: Key not found or inactive");
}

#[test]
fn every_answer_to_a_key_has_its_rate_limit_headers() {
    let server = TestServer::with_admin();
    let (key, _) = server.create_key("ann");
    for target in ["/v1/auth/verify", "/v1/skills", "/v1/secrets", "/v1/skills/none", "/v1/nowhere"]
    {
        let answer = server.ask(Some(&key), "GET", target, &Value::Null);
        assert_eq!(answer.header("x-ratelimit-limit").as_deref(), Some("30"), "{target}");
        assert_eq!(answer.header("x-ratelimit-remaining").as_deref(), Some("30"), "{target}");
        assert!(answer.header("x-ratelimit-reset").is_some(), "{target}");
    }
}
