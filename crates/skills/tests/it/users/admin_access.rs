//! Access to admin routes: only with a configured secret.

use serde_json::{Value, json};

use crate::support::{
    TestServer,
    admin::{ADMIN_KEY, INTERNAL_SECRET},
};

/// Admin routes: method, path, body, whether `INTERNAL_API_SECRET` opens them too, and the status when open.
fn admin_routes() -> Vec<(&'static str, &'static str, Value, bool, u16)> {
    let manifest = json!({
        "id": "echo", "meta": {"name": "Echo", "description": "Says it again."},
        "config": {"endpoint": "https://echo.example/", "method": "GET"},
    });
    let skill = json!({
        "user_uid": "ann", "skill_name": "echo", "status": "official", "manifest": manifest,
    });
    let hash = "1ac7f2dbf6a3aa2b8c4c0ff95325882101df62151e861cf94f2a8ef01187e1d0";
    vec![
        ("POST", "/v1/admin/sync_skill", skill, true, 200),
        ("POST", "/v1/admin/refresh-tools", Value::Null, true, 200),
        ("POST", "/v1/admin/sync_cache", json!({"uid": "ann", "tier": "PRO"}), false, 200),
        ("POST", "/v1/admin/provision", json!({"uid": "bob", "hash": hash}), false, 201),
        ("POST", "/v1/admin/keys", json!({"user_uid": "ann"}), false, 201),
        ("GET", "/v1/admin/keys", Value::Null, false, 200),
        ("DELETE", "/v1/admin/keys/1ac7f2db", Value::Null, false, 200),
        ("DELETE", "/v1/admin/skills/official/echo", Value::Null, false, 200),
        ("GET", "/v1/admin/log", Value::Null, false, 200),
    ]
}

#[test]
fn without_configured_admin_secrets_admin_routes_are_closed() {
    for variables in
        [vec![], vec![("ADMIN_KEY", ""), ("INTERNAL_API_SECRET", "")], vec![("ADMIN_KEY", "   ")]]
    {
        let server = TestServer::with_env(&variables);
        for (method, target, body, _, _) in admin_routes() {
            for presented in [None, Some(""), Some("undefined"), Some("null"), Some(ADMIN_KEY)] {
                let answer = server.ask(presented, method, target, &body);
                let code = answer.json()["code"].clone();
                assert_eq!(
                    (answer.status, code),
                    (401, json!("admin_needed")),
                    "{target} {presented:?}"
                );
            }
        }
    }
}

#[test]
fn each_admin_secret_opens_only_its_own_routes() {
    let server = TestServer::with_admin();
    let (key, _) = server.create_key("ann");
    for (method, target, body, is_for_insiders, open) in admin_routes() {
        let insiders = if is_for_insiders { open } else { 403 };
        let nearly = &ADMIN_KEY[..ADMIN_KEY.len() - 1];
        for (presented, expected) in [
            (None, 401),
            (Some(nearly), 401),
            (Some("us-made-up"), 401),
            (Some(key.as_str()), 403),
            (Some(INTERNAL_SECRET), insiders),
            (Some(ADMIN_KEY), open),
        ] {
            let answer = server.ask(presented, method, target, &body);
            let output = answer.json();
            assert_eq!(answer.status, expected, "{method} {target} {presented:?}: {output}");
            assert_eq!(output["success"], expected < 300, "{presented:?}");
            if presented == Some("us-made-up") {
                assert_eq!(output["code"], "unknown_key", "{presented:?}");
                assert_eq!(
                    output["error"], "Unauthorized: Key not found or inactive",
                    "{presented:?}"
                );
            }
        }
    }
    // The audit log has all actions with their actor and without secrets.
    let log = server.administer("GET", "/v1/admin/log?limit=1000", &Value::Null).to_string();
    for words in
        ["admin:ADMIN_KEY", "admin:INTERNAL_API_SECRET", "key.create", "skill.put", "skill.remove"]
    {
        assert!(log.contains(words), "{words} is not in {log}");
    }
    for secret in [ADMIN_KEY, INTERNAL_SECRET, key.as_str()] {
        assert!(!log.contains(secret), "{secret:?}");
    }
    let (_, _, output) = server.process.stop();
    for secret in [ADMIN_KEY, INTERNAL_SECRET, key.as_str()] {
        assert!(!output.contains(secret), "a secret is in the server's log");
    }
}

#[test]
fn invalid_bodies_are_refused() {
    use skills_testkit::Request;
    let server = TestServer::with_admin();
    let ask = |content_type: Option<&str>, body: &[u8]| {
        let mut request = Request::new("POST", "/v1/admin/sync_skill");
        request = request.header("Authorization", &format!("Bearer {ADMIN_KEY}"));
        if let Some(content_type) = content_type {
            request = request.header("Content-Type", content_type);
        }
        let answer = request.body(body).send(&server.process.http);
        let output = answer.json();
        assert_eq!(output["success"], false, "{output}");
        (answer.status, output["code"].as_str().unwrap().to_owned())
    };
    let json = Some("application/json");
    assert_eq!(ask(json, b"{"), (400, "invalid_json".to_owned()));
    assert_eq!(ask(json, b""), (400, "invalid_json".to_owned()));
    assert_eq!(ask(json, b"[]"), (422, "invalid_body".to_owned()));
    assert_eq!(ask(json, b"\xff\xfe"), (400, "invalid_json".to_owned()));
    assert_eq!(ask(None, b"{}"), (415, "unsupported_media_type".to_owned()));
    assert_eq!(ask(Some("text/plain"), b"{}"), (415, "unsupported_media_type".to_owned()));
    assert_eq!(ask(json, &vec![b' '; 5 << 20]), (413, "body_too_large".to_owned()));
}
