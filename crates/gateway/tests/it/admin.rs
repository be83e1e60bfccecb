//! Admin routes: skills, users, keys and access.

use axum::http::StatusCode;
use serde_json::{Value, json};
use skills_core::{Caller, caller::AdminName};

use crate::test_gateway::TestGateway;

const WEATHER: &str = include_str!("weather.json");
pub(crate) const HASH: &str = "1ac7f2dbf6a3aa2b8c4c0ff95325882101df62151e861cf94f2a8ef01187e1d0";
const OTHER_HASH: &str = "15d6354290b017ae135247fb8d7a1c1e133738bca02c02e38fc0c5c1046d2206";

pub(crate) fn admin() -> Caller {
    Caller::Admin(AdminName::AdminKey)
}

pub(crate) fn internal() -> Caller {
    Caller::Admin(AdminName::InternalApiSecret)
}

fn weather() -> Value {
    serde_json::from_str(WEATHER).unwrap()
}

pub(crate) fn sync(status: &str) -> Value {
    json!({
        "user_uid": "ann", "skill_name": "uniskill_weather", "status": status, "manifest": weather(),
    })
}

#[tokio::test]
async fn each_admin_route_accepts_only_its_own_credentials() {
    let gateway = TestGateway::open();
    let ann = gateway.user("ann");
    let callers = [Caller::Anonymous, ann, internal(), admin()];
    for (method, uri, body, expected) in [
        ("POST", "/v1/admin/sync_skill", sync("market"), [401, 403, 200, 200]),
        ("POST", "/v1/admin/refresh-tools", Value::Null, [401, 403, 200, 200]),
        ("POST", "/v1/admin/sync_cache", json!({"uid": "ann"}), [401, 403, 403, 200]),
        ("POST", "/v1/admin/provision", json!({"uid": "x", "hash": HASH}), [401, 403, 403, 201]),
        ("POST", "/v1/admin/keys", json!({"user_uid": "ann"}), [401, 403, 403, 201]),
        ("GET", "/v1/admin/keys", Value::Null, [401, 403, 403, 200]),
        ("DELETE", "/v1/admin/keys/1ac7f2db", Value::Null, [401, 403, 403, 200]),
        ("DELETE", "/v1/admin/skills/market/uniskill_weather", Value::Null, [401, 403, 403, 200]),
        ("GET", "/v1/admin/log", Value::Null, [401, 403, 403, 200]),
    ] {
        for (caller, expected) in callers.iter().zip(expected) {
            let (status, answer) = gateway.ask(caller, method, uri, &body).await;
            assert_eq!(status.as_u16(), expected, "{method} {uri} as {caller:?}: {answer}");
            if expected > 400 {
                assert_eq!(answer["code"], "admin_needed", "{method:?}");
                assert_eq!(answer["error"], "Unauthorized Admin Access", "{method:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_skill_is_stored_in_the_tier_of_its_status() {
    let gateway = TestGateway::open();
    let ann = gateway.user("ann");
    for (status, tier) in [
        ("private", "private"),
        ("PRIVATE", "private"),
        ("official", "official"),
        ("public", "market"),
        ("community", "market"),
        ("market", "market"),
    ] {
        let (code, answer) =
            gateway.ask(&admin(), "POST", "/v1/admin/sync_skill", &sync(status)).await;
        assert_eq!(code, StatusCode::OK, "{answer}");
        assert_eq!(answer["skill_name"], "uniskill_weather", "{status}");
        assert_eq!(
            (&answer["status"], &answer["tier"]),
            (&json!(status), &json!(tier)),
            "{status}"
        );
        assert!(answer["_uniskill"]["request_id"].is_string(), "{status}");
        let uri = format!("/v1/skills/weather?tier={tier}");
        assert_eq!(gateway.get(&ann, &uri).await.0, StatusCode::OK, "{status}");
    }
    let (_, log) = gateway.get(&admin(), "/v1/admin/log").await;
    let last = log["data"].as_array().unwrap().last().unwrap();
    assert_eq!((&last["actor"], &last["action"]), (&json!("admin:ADMIN_KEY"), &json!("skill.put")));
    assert_eq!(last["subject"], "market/uniskill_weather");
}

#[tokio::test]
async fn publishing_reports_shadowing_and_can_move_a_skill() {
    let gateway = TestGateway::open();
    let ann = gateway.user("ann");
    let post = |body: Value| gateway.ask_owned(admin(), "POST", "/v1/admin/sync_skill", body);
    post(sync("private")).await;
    let (_, answer) = post(sync("public")).await;
    let own = json!({"tier": "private", "id": "uniskill_weather"});
    assert_eq!((&answer["shadowed_by"], &answer["moved"]), (&json!([own]), &json!(false)));
    let mut moving = sync("public");
    moving["move"] = json!(true);
    let (_, answer) = post(moving).await;
    assert_eq!((answer.get("shadowed_by"), &answer["moved"]), (None, &json!(true)));
    let (_, shown) = gateway.get(&ann, "/v1/skills/weather").await;
    assert_eq!(shown["source"], "market");
}

#[tokio::test]
async fn an_invalid_manifest_is_refused_with_all_reasons_as_object_or_text() {
    let gateway = TestGateway::open();
    let put = |name: &str, manifest: Value| {
        let body = json!({
            "user_uid": "ann", "skill_name": name, "status": "market", "manifest": manifest,
        });
        gateway.ask_owned(internal(), "POST", "/v1/admin/sync_skill", body)
    };
    let legacy = "# Echo\n## Description\nSays it again\n## Implementation\n```yaml\ntype: api\n\
                  endpoint: https://echo.example/\n```\n";
    for (name, manifest) in [
        ("uniskill_weather", json!(WEATHER)),
        ("uniskill_weather", weather()),
        ("echo", json!(legacy)),
    ] {
        let (status, answer) = put(name, manifest).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
    }
    let (status, answer) = put("other", weather()).await;
    assert_eq!((status.as_u16(), &answer["code"]), (422, &json!("invalid_manifest")), "{answer}");
    let details = answer["details"].as_array().unwrap();
    assert!(
        details.iter().any(|it| it["pointer"] == "/id" && it["severity"] == "error"),
        "{answer}"
    );
    for manifest in [json!(null), json!(7), json!([]), json!(""), json!("  ")] {
        let (status, answer) = put("other", manifest).await;
        assert_eq!((status.as_u16(), &answer["code"]), (422, &json!("invalid_body")), "{answer}");
    }
    assert_eq!(gateway.get(&Caller::Anonymous, "/v1/skills/other").await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn invalid_input_is_reported_and_changes_nothing() {
    let gateway = TestGateway::open();
    let without = |field: &str| {
        let mut body = sync("market");
        body.as_object_mut().unwrap().remove(field);
        body
    };
    let with = |field: &str, value: Value| {
        let mut body = sync("market");
        body[field] = value;
        body
    };
    let mut nobodys = sync("private");
    nobodys["user_uid"] = json!("00000000-0000-0000-0000-000000000000");
    for (uri, body, code) in [
        ("sync_skill", without("user_uid"), "invalid_body"),
        ("sync_skill", without("skill_name"), "invalid_body"),
        ("sync_skill", without("status"), "invalid_body"),
        ("sync_skill", without("manifest"), "invalid_body"),
        ("sync_skill", with("status", json!("draft")), "invalid_body"),
        ("sync_skill", with("status", json!(1)), "invalid_body"),
        ("sync_skill", with("skill_name", json!("a:b")), "invalid_body"),
        ("sync_skill", with("skill_name", json!("")), "invalid_body"),
        ("sync_skill", with("user_uid", json!("a b")), "invalid_body"),
        ("sync_skill", nobodys, "invalid_input"),
        ("sync_skill", with("secrets", json!({"a b": "x"})), "invalid_body"),
        ("sync_skill", with("secrets", json!({"A": 1})), "invalid_body"),
        ("sync_skill", with("secrets", json!({"A": ""})), "invalid_input"),
        ("sync_cache", json!({}), "missing_field"),
        ("sync_cache", json!({"uid": "ann", "type": "other"}), "invalid_body"),
        ("sync_cache", json!({"uid": "ann", "type": "skill_update"}), "missing_field"),
        ("sync_cache", json!({"uid": "ann", "type": "secrets_sync"}), "missing_field"),
        ("sync_cache", json!({"uid": "ann", "tier": "GOLD"}), "invalid_body"),
        ("sync_cache", json!({"uid": "ann", "key_hash": "abc"}), "invalid_body"),
        ("provision", json!({"uid": "ann"}), "missing_field"),
        ("provision", json!({"hash": HASH}), "missing_field"),
        ("keys", json!({}), "invalid_body"),
        ("keys", json!({"user_uid": "ann", "ttl_seconds": 0}), "invalid_body"),
        ("keys", json!({"user_uid": "ann", "label": "a\nb"}), "invalid_input"),
    ] {
        let (status, answer) =
            gateway.ask(&admin(), "POST", &format!("/v1/admin/{uri}"), &body).await;
        assert_eq!(
            (status.as_u16(), &answer["code"]),
            (422, &json!(code)),
            "{uri} {body}: {answer}"
        );
        assert_eq!(answer["success"], false, "{uri}");
    }
    let (_, log) = gateway.get(&admin(), "/v1/admin/log").await;
    assert_eq!(log["data"], json!([]));
    for (method, uri, status, code) in [
        ("DELETE", "/v1/admin/skills/gold/x", 400, "invalid_path"),
        ("DELETE", "/v1/admin/skills/market/A", 400, "invalid_path"),
        ("DELETE", "/v1/admin/skills/market/x", 404, "not_found"),
        ("DELETE", "/v1/admin/skills/market/x?uid=ann", 400, "invalid_query"),
        ("DELETE", "/v1/admin/skills/private/x", 400, "invalid_query"),
        ("DELETE", "/v1/admin/keys/abc", 422, "bad_key_id"),
        ("DELETE", "/v1/admin/keys/abcdefgh", 422, "bad_key_id"),
        ("DELETE", "/v1/admin/keys/00000000", 404, "no_such_key"),
        ("GET", "/v1/admin/log?cursor=x", 400, "invalid_cursor"),
        ("GET", "/v1/admin/log?cursor=1.99999999999999999999", 400, "invalid_cursor"),
        ("GET", "/v1/admin/keys?cursor=x", 400, "invalid_cursor"),
        ("GET", "/v1/admin/keys?uid=a:b", 400, "invalid_query"),
        ("PATCH", "/v1/admin/keys", 405, "method_not_allowed"),
        ("GET", "/v1/admin/nothing", 404, "not_found"),
    ] {
        let (found, answer) = gateway.ask(&admin(), method, uri, &Value::Null).await;
        assert_eq!((found.as_u16(), &answer["code"]), (status, &json!(code)), "{uri}: {answer}");
    }
}

#[tokio::test]
async fn absent_profile_fields_keep_their_values() {
    let gateway = TestGateway::open();
    let ann = gateway.user("ann");
    let sync = |body: Value| gateway.ask_owned(admin(), "POST", "/v1/admin/sync_cache", body);
    let (status, answer) =
        sync(json!({"user_uid": "ann", "credits": 7.5, "username": "Ann", "key_hash": HASH})).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    assert_eq!((&answer["user_uid"], &answer["type"]), (&json!("ann"), &json!("profile_sync")));
    sync(json!({"uid": "ann", "new_tier": "pro"})).await;
    let (_, verified) = gateway.get(&ann, "/v1/auth/verify").await;
    assert_eq!(verified, json!({"success": true, "valid": true, "credits": 7.5, "tier": "PRO"}));
    let owner = "ann".parse().unwrap();
    assert_eq!(gateway.vault.profile(&owner).unwrap().unwrap().username, "Ann");
    // After rotation only the new key is valid.
    sync(json!({"uid": "ann", "key_hash": OTHER_HASH, "old_key_hash": HASH})).await;
    let find =
        |hash: &str| gateway.vault.find_key_by_hash(&hash.parse().unwrap(), skills_vault::now());
    assert!(find(HASH).unwrap().is_none() && find(OTHER_HASH).unwrap().is_some());
    // A key of another user is neither taken nor revoked.
    for field in ["key_hash", "old_key_hash"] {
        let (status, answer) = sync(json!({"uid": "bob", field: OTHER_HASH})).await;
        assert_eq!((status.as_u16(), &answer["code"]), (409, &json!("key_taken")), "{answer}");
    }
    assert!(find(OTHER_HASH).unwrap().is_some());
}

#[tokio::test]
async fn provisioning_creates_a_user_with_a_key() {
    let gateway = TestGateway::open();
    let body = json!({"hash": HASH, "uid": "bob"});
    let (status, answer) = gateway.ask(&admin(), "POST", "/v1/admin/provision", &body).await;
    assert_eq!(status, StatusCode::CREATED);
    assert_eq!((&answer["user_uid"], &answer["key_hash"]), (&json!("bob"), &json!(HASH)));
    assert_eq!((&answer["initial_credits"], &answer["tier"]), (&json!(50.0), &json!("FREE")));
    assert!(gateway.vault.find_key("us-test-key-1", skills_vault::now()).unwrap().is_some());
}

#[tokio::test]
async fn a_sync_message_may_carry_one_skill_or_all_secrets() {
    let gateway = TestGateway::open();
    let ann = gateway.user("ann");
    let sync = |body: Value| gateway.ask_owned(admin(), "POST", "/v1/admin/sync_cache", body);
    let (_, answer) = sync(json!({
        "uid": "ann", "type": "skill_update", "skill_name": "uniskill_weather", "status": "private",
        "manifest": weather(), "secrets": [{"key": "TOKEN", "value": "v"}],
    }))
    .await;
    assert_eq!(answer["type"], "skill_update", "{answer}");
    assert_eq!(gateway.get(&ann, "/v1/skills/weather").await.1["source"], "private");
    sync(json!({"uid": "ann", "type": "secrets_sync", "secrets": {"A": "1", "B": "2"}})).await;
    sync(json!({"uid": "ann", "type": "secrets_sync", "secrets": {"B": "3"}})).await;
    let (_, list) = gateway.get(&ann, "/v1/secrets").await;
    let names: Vec<_> = list["data"].as_array().unwrap().iter().map(|row| &row["name"]).collect();
    assert_eq!(names, ["B", "TOKEN"]);
    assert_eq!(list["data"][1]["skill"], "uniskill_weather");
}

#[tokio::test]
async fn keys_are_shown_once_listed_in_pages_and_revoked_at_once() {
    let gateway = TestGateway::open();
    let mut made = vec![];
    for label in ["one", "two", "three"] {
        let body = json!({"user_uid": "ann", "tier": "pro", "label": label, "ttl_seconds": 60});
        let (status, answer) = gateway.ask(&admin(), "POST", "/v1/admin/keys", &body).await;
        assert_eq!(status, StatusCode::CREATED, "{answer}");
        assert_eq!((&answer["tier"], &answer["live"]), (&json!("PRO"), &json!(true)), "{label}");
        let key = answer["key"].as_str().unwrap().to_owned();
        assert!(gateway.vault.find_key(&key, skills_vault::now()).unwrap().is_some(), "{label}");
        made.push((key, answer["key_id"].as_str().unwrap().to_owned()));
    }
    let (_, first) = gateway.get(&admin(), "/v1/admin/keys?uid=ann&limit=2").await;
    let cursor = first["next_cursor"].as_str().unwrap();
    let (_, rest) = gateway.get(&admin(), &format!("/v1/admin/keys?cursor={cursor}&limit=2")).await;
    assert_eq!(
        (first["data"].as_array().unwrap().len(), &rest["data"][0]["label"]),
        (2, &json!("three"))
    );
    assert!(rest.get("next_cursor").is_none());
    for (key, _) in &made {
        assert!(!first.to_string().contains(key.as_str()));
    }
    let uri = format!("/v1/admin/keys/{}", made[0].1);
    for revoked in [true, false] {
        let (_, answer) = gateway.ask(&admin(), "DELETE", &uri, &Value::Null).await;
        assert_eq!(answer["revoked"], revoked, "{revoked:?}");
    }
    assert!(gateway.vault.find_key(&made[0].0, skills_vault::now()).unwrap().is_none());
}

#[tokio::test]
async fn the_audit_log_continues_after_its_cursor() {
    let gateway = TestGateway::open();
    gateway.ask(&admin(), "POST", "/v1/admin/keys", &json!({"user_uid": "ann"})).await;
    gateway.ask(&internal(), "POST", "/v1/admin/sync_skill", &sync("official")).await;
    gateway.ask(&internal(), "POST", "/v1/admin/refresh-tools", &Value::Null).await;
    let delete = "/v1/admin/skills/official/uniskill_weather";
    gateway.ask(&admin(), "DELETE", delete, &Value::Null).await;
    let (mut seen, mut cursor) = (vec![], String::new());
    loop {
        let (_, page) = gateway.get(&admin(), &format!("/v1/admin/log?limit=1{cursor}")).await;
        let Some(done) = page["data"].get(0) else { break };
        seen.push(format!("{} {}", done["actor"], done["action"]).replace('"', ""));
        cursor = format!("&cursor={}", page["next_cursor"].as_str().unwrap());
    }
    assert_eq!(
        seen,
        [
            "admin:ADMIN_KEY key.create",
            "admin:INTERNAL_API_SECRET skill.put",
            "admin:INTERNAL_API_SECRET tools.refresh",
            "admin:ADMIN_KEY skill.remove",
        ]
    );
}
