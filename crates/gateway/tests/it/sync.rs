//! Sync messages of administrators are applied completely or not at all.

use std::sync::{Arc, atomic::Ordering};

use serde_json::{Value, json};
use skills_core::Caller;
use skills_store::Store;

use crate::{
    admin::{HASH, admin, internal, sync},
    panicking_store::PanickingStore,
    test_gateway::TestGateway,
};

/// Returns the stored skills, secrets and log entries of ann.
async fn stored_data(gateway: &TestGateway, ann: &Caller) -> (Value, Value, Value) {
    let (_, secrets) = gateway.get(ann, "/v1/secrets").await;
    let (_, skills) = gateway.get(ann, "/v1/skills").await;
    let (_, log) = gateway.get(&admin(), "/v1/admin/log").await;
    (secrets["data"].clone(), skills["data"].clone(), log["data"].clone())
}

#[tokio::test]
async fn secrets_of_a_refused_skill_are_not_stored() {
    let gateway = TestGateway::open();
    let ann = gateway.user("ann");
    let before = stored_data(&gateway, &ann).await;
    let properties: serde_json::Map<String, Value> = (0..3000)
        .map(|number| {
            (format!("p{number}"), json!({"type": "string", "description": "x".repeat(40)}))
        })
        .collect();
    let mut large = sync("market");
    large["manifest"]["meta"]["parameters"] = json!({"type": "object", "properties": properties});
    let mut named = sync("market");
    named["skill_name"] = json!("private");
    named["manifest"]["id"] = json!("private");
    for mut body in [large, named] {
        body["secrets"] = json!({"TOKEN": "v"});
        let (status, answer) =
            gateway.ask(&internal(), "POST", "/v1/admin/sync_skill", &body).await;
        assert_eq!(status.as_u16(), 422, "{answer}");
        for kind in ["skill_update", "skill_activation"] {
            body["type"] = json!(kind);
            body["credits"] = json!(9);
            let (status, answer) =
                gateway.ask(&admin(), "POST", "/v1/admin/sync_cache", &body).await;
            assert_eq!(status.as_u16(), 422, "{answer}");
        }
        assert_eq!(stored_data(&gateway, &ann).await, before);
    }
}

#[tokio::test]
async fn a_sync_message_is_applied_completely_or_not_at_all() {
    let gateway = TestGateway::open();
    let (ann, bob) = (gateway.user("ann"), gateway.user("bob"));
    let adopt = json!({"uid": "bob", "key_hash": HASH});
    assert_eq!(gateway.ask(&admin(), "POST", "/v1/admin/sync_cache", &adopt).await.0, 200);
    let before = stored_data(&gateway, &ann).await;
    let mut body = sync("private");
    body["secrets"] = json!({"TOKEN": "v"});
    body["credits"] = json!(9);
    for (field, value, status) in [
        ("key_hash", json!(HASH), 409),
        ("old_key_hash", json!(HASH), 409),
        ("username", json!("x".repeat(300)), 422),
    ] {
        for kind in ["skill_update", "secrets_sync"] {
            let mut body = body.clone();
            body["type"] = json!(kind);
            body[field] = value.clone();
            let (found, answer) =
                gateway.ask(&admin(), "POST", "/v1/admin/sync_cache", &body).await;
            assert_eq!(found.as_u16(), status, "{field} {kind}: {answer}");
            assert_eq!(stored_data(&gateway, &ann).await, before, "{field} {kind}");
        }
    }
    let (_, verified) = gateway.get(&bob, "/v1/auth/verify").await;
    assert_eq!(verified["valid"], true);
}

#[tokio::test]
async fn a_skill_is_restored_when_the_outcome_of_the_store_is_unknown() {
    let store = Arc::new(PanickingStore::default());
    let gateway = TestGateway::on(Arc::clone(&store) as Arc<dyn Store>);
    let ann = gateway.user("ann");
    let before = stored_data(&gateway, &ann).await;
    let mut body = sync("private");
    body["secrets"] = json!({"TOKEN": "v"});
    store.panics.store(true, Ordering::SeqCst);
    let (status, answer) = gateway.ask(&admin(), "POST", "/v1/admin/sync_skill", &body).await;
    assert_eq!((status.as_u16(), &answer["code"]), (500, &json!("outcome_unknown")), "{answer}");
    let (secrets, skills, _) = stored_data(&gateway, &ann).await;
    assert_eq!((secrets, skills), (before.0, before.1), "neither the skill nor its secret");
    let (status, answer) = gateway.ask(&admin(), "POST", "/v1/admin/sync_skill", &body).await;
    assert_eq!(status.as_u16(), 200, "{answer}");
}

#[tokio::test]
async fn anonymous_callers_have_no_private_skills() {
    let gateway = TestGateway::open();
    let mut body = sync("private");
    body["user_uid"] = json!("00000000-0000-0000-0000-000000000000");
    let (status, answer) = gateway.ask(&admin(), "POST", "/v1/admin/sync_skill", &body).await;
    assert_eq!(status.as_u16(), 422, "{answer}");
    assert_eq!(stored_data(&gateway, &gateway.user("ann")).await.1, json!([]));
}

#[tokio::test]
async fn a_shadowing_skill_may_have_the_prefix() {
    let gateway = TestGateway::open();
    gateway.ask(&admin(), "POST", "/v1/admin/sync_skill", &sync("private")).await;
    gateway.ask(&admin(), "POST", "/v1/admin/sync_skill", &sync("official")).await;
    let mut body = sync("Public");
    body["skill_name"] = json!("weather");
    body["manifest"]["id"] = json!("weather");
    let (_, answer) = gateway.ask(&admin(), "POST", "/v1/admin/sync_skill", &body).await;
    assert_eq!((&answer["status"], &answer["tier"]), (&json!("Public"), &json!("market")));
    let shadows = json!([
        {"tier": "private", "id": "uniskill_weather"},
        {"tier": "official", "id": "uniskill_weather"},
    ]);
    assert_eq!(answer["shadowed_by"], shadows, "{answer}");
    // Within a tier the exact name wins.
    body["status"] = json!("official");
    let (_, answer) = gateway.ask(&admin(), "POST", "/v1/admin/sync_skill", &body).await;
    assert_eq!(answer["shadowed_by"], json!([shadows[0]]), "{answer}");
}

#[tokio::test]
async fn invalid_unused_parts_of_a_message_are_reported() {
    let gateway = TestGateway::open();
    for (value, expected) in [("", 422), ("v", 200)] {
        let body = json!({"uid": "ann", "secrets": [{"key": "TOKEN", "value": value}]});
        let (status, answer) = gateway.ask(&admin(), "POST", "/v1/admin/sync_cache", &body).await;
        assert_eq!(status.as_u16(), expected, "{answer}");
    }
    let ann = gateway.user("ann");
    assert_eq!(gateway.get(&ann, "/v1/secrets").await.1["data"], json!([]), "of a profile alone");
}
