//! Who is let in to administer: those who present a secret that is set, and never those who present nothing.

use serde_json::{Value, json};

use crate::site::{ADMIN_KEY, INTERNAL, Site};

/// Every route of administrators, whether INTERNAL_API_SECRET opens it too, and what it answers when it is open.
fn doors() -> Vec<(&'static str, &'static str, Value, bool, u16)> {
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
fn without_a_secret_in_the_environment_nobody_is_let_in() {
    for variables in [
        vec![],
        vec![("ADMIN_KEY", ""), ("INTERNAL_API_SECRET", "")],
        vec![("ADMIN_KEY", "   "), ("INTERNAL_API_SECRET", "undefined")],
    ] {
        let site = Site::with(&variables);
        for (method, target, body, _, _) in doors() {
            for presented in [None, Some(""), Some("undefined"), Some("null"), Some(ADMIN_KEY)] {
                let answer = site.ask(presented, method, target, &body);
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
fn a_secret_opens_its_own_doors_and_no_others() {
    let site = Site::new();
    let (key, _) = site.key("ann");
    for (method, target, body, is_for_insiders, open) in doors() {
        let insiders = if is_for_insiders { open } else { 403 };
        let nearly = &ADMIN_KEY[..ADMIN_KEY.len() - 1];
        for (presented, expected) in [
            (None, 401),
            (Some(nearly), 401),
            (Some("us-made-up"), 401),
            (Some(key.as_str()), 403),
            (Some(INTERNAL), insiders),
            (Some(ADMIN_KEY), open),
        ] {
            let answer = site.ask(presented, method, target, &body);
            let said = answer.json();
            assert_eq!(answer.status, expected, "{method} {target} {presented:?}: {said}");
            assert_eq!(said["success"], expected < 300);
            if presented == Some("us-made-up") {
                assert_eq!(said["code"], "unknown_key");
                assert_eq!(said["error"], "Unauthorized: Key not found or inactive");
            }
        }
    }
    // What was done is written down, with who did it, and without a secret.
    let log = site.administer("GET", "/v1/admin/log?limit=1000", &Value::Null).to_string();
    for words in
        ["admin:ADMIN_KEY", "admin:INTERNAL_API_SECRET", "key.create", "skill.put", "skill.remove"]
    {
        assert!(log.contains(words), "{words} is not in {log}");
    }
    for secret in [ADMIN_KEY, INTERNAL, key.as_str()] {
        assert!(!log.contains(secret));
    }
    let (_, _, said) = site.server.stop();
    for secret in [ADMIN_KEY, INTERNAL, key.as_str()] {
        assert!(!said.contains(secret), "a secret is in the server's log");
    }
}

#[test]
fn bodies_that_are_none_are_refused() {
    use skills_testkit::Request;
    let site = Site::new();
    let ask = |content_type: Option<&str>, body: &[u8]| {
        let mut request = Request::new("POST", "/v1/admin/sync_skill");
        request = request.header("Authorization", &format!("Bearer {ADMIN_KEY}"));
        if let Some(content_type) = content_type {
            request = request.header("Content-Type", content_type);
        }
        let answer = request.body(body).send(&site.server.http);
        let said = answer.json();
        assert_eq!(said["success"], false, "{said}");
        (answer.status, said["code"].as_str().unwrap().to_owned())
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
