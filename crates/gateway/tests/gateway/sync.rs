//! What administrators send is stored as a whole, or not at all.

use serde_json::{Value, json};
use skills_core::Caller;

use crate::{
    admin::{HASH, admin, internal, sync},
    house::House,
};

/// What is kept of ann, and of what was done.
async fn kept(house: &House, ann: &Caller) -> (Value, Value, Value) {
    let (_, secrets) = house.get(ann, "/v1/secrets").await;
    let (_, skills) = house.get(ann, "/v1/skills").await;
    let (_, log) = house.get(&admin(), "/v1/admin/log").await;
    (secrets["data"].clone(), skills["data"].clone(), log["data"].clone())
}

#[tokio::test]
async fn of_a_skill_that_is_refused_no_secret_stays() {
    let house = House::open();
    let ann = house.user("ann");
    let before = kept(&house, &ann).await;
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
        let (status, answer) = house.ask(&internal(), "POST", "/v1/admin/sync_skill", &body).await;
        assert_eq!(status.as_u16(), 422, "{answer}");
        for kind in ["skill_update", "skill_activation"] {
            body["type"] = json!(kind);
            body["credits"] = json!(9);
            let (status, answer) = house.ask(&admin(), "POST", "/v1/admin/sync_cache", &body).await;
            assert_eq!(status.as_u16(), 422, "{answer}");
        }
        assert_eq!(kept(&house, &ann).await, before);
    }
}

#[tokio::test]
async fn a_message_is_taken_over_as_a_whole_or_not_at_all() {
    let house = House::open();
    let (ann, bob) = (house.user("ann"), house.user("bob"));
    let adopt = json!({"uid": "bob", "key_hash": HASH});
    assert_eq!(house.ask(&admin(), "POST", "/v1/admin/sync_cache", &adopt).await.0, 200);
    let before = kept(&house, &ann).await;
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
            let (found, answer) = house.ask(&admin(), "POST", "/v1/admin/sync_cache", &body).await;
            assert_eq!(found.as_u16(), status, "{field} {kind}: {answer}");
            assert_eq!(kept(&house, &ann).await, before, "{field} {kind}");
        }
    }
    let (_, verified) = house.get(&bob, "/v1/auth/verify").await;
    assert_eq!(verified["valid"], true);
}

#[tokio::test]
async fn who_is_nobody_has_no_private_skills() {
    let house = House::open();
    let mut body = sync("private");
    body["user_uid"] = json!("00000000-0000-0000-0000-000000000000");
    let (status, answer) = house.ask(&admin(), "POST", "/v1/admin/sync_skill", &body).await;
    assert_eq!(status.as_u16(), 422, "{answer}");
    assert_eq!(kept(&house, &house.user("ann")).await.1, json!([]));
}

#[tokio::test]
async fn what_shadows_may_have_the_prefix() {
    let house = House::open();
    house.ask(&admin(), "POST", "/v1/admin/sync_skill", &sync("private")).await;
    house.ask(&admin(), "POST", "/v1/admin/sync_skill", &sync("official")).await;
    let mut body = sync("Public");
    body["skill_name"] = json!("weather");
    body["manifest"]["id"] = json!("weather");
    let (_, answer) = house.ask(&admin(), "POST", "/v1/admin/sync_skill", &body).await;
    assert_eq!((&answer["status"], &answer["tier"]), (&json!("Public"), &json!("market")));
    let shadows = json!([
        {"tier": "private", "id": "uniskill_weather"},
        {"tier": "official", "id": "uniskill_weather"},
    ]);
    assert_eq!(answer["shadowed_by"], shadows, "{answer}");
    // Within a tier the exact name comes first.
    body["status"] = json!("official");
    let (_, answer) = house.ask(&admin(), "POST", "/v1/admin/sync_skill", &body).await;
    assert_eq!(answer["shadowed_by"], json!([shadows[0]]), "{answer}");
}

#[tokio::test]
async fn what_is_wrong_is_said_also_of_what_is_not_taken_over() {
    let house = House::open();
    for (value, expected) in [("", 422), ("v", 200)] {
        let body = json!({"uid": "ann", "secrets": [{"key": "TOKEN", "value": value}]});
        let (status, answer) = house.ask(&admin(), "POST", "/v1/admin/sync_cache", &body).await;
        assert_eq!(status.as_u16(), expected, "{answer}");
    }
    let ann = house.user("ann");
    assert_eq!(house.get(&ann, "/v1/secrets").await.1["data"], json!([]), "of a profile alone");
}
