//! A key from its beginning to its end.

use serde_json::{Value, json};

use crate::site::Site;

#[test]
fn a_key_works_from_its_making_to_its_revocation_and_not_a_request_longer() {
    let site = Site::new();
    let (key, id) = site.key("ann");
    let verify = || {
        let answer = site.ask(Some(&key), "GET", "/v1/auth/verify", &Value::Null);
        (answer.status, answer.json())
    };
    let good = json!({"success": true, "valid": true, "credits": 0, "tier": "FREE"});
    assert_eq!(verify(), (200, good));
    site.administer(
        "POST",
        "/v1/admin/sync_cache",
        &json!({"uid": "ann", "tier": "SCALE", "credits": 2.5}),
    );
    let better = json!({"success": true, "valid": true, "credits": 2.5, "tier": "SCALE"});
    assert_eq!(verify(), (200, better));
    site.administer("DELETE", &format!("/v1/admin/keys/{id}"), &Value::Null);
    let (status, said) = verify();
    assert_eq!((status, &said["code"]), (401, &json!("unknown_key")), "{said}");
    assert_eq!(said["error"], "Unauthorized: Key not found or inactive");
}

#[test]
fn the_limits_of_a_key_are_on_every_answer_to_it() {
    let site = Site::new();
    let (key, _) = site.key("ann");
    for target in ["/v1/auth/verify", "/v1/skills", "/v1/secrets", "/v1/skills/none", "/v1/nowhere"]
    {
        let answer = site.ask(Some(&key), "GET", target, &Value::Null);
        assert_eq!(answer.header("x-ratelimit-limit").as_deref(), Some("30"), "{target}");
        assert_eq!(answer.header("x-ratelimit-remaining").as_deref(), Some("30"), "{target}");
        assert!(answer.header("x-ratelimit-reset").is_some(), "{target}");
    }
}
