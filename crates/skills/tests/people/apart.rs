//! What one user learns of another: nothing. Each request is made twice, once for something that somebody else has
//! and once for something that nobody has, and the answers must be the same.

use serde_json::{Value, json};
use skills_testkit::Worker;

use crate::{
    clients::{Client, Session},
    site::Site,
};

/// What ann has, and what nobody has; of one length, so that not even that differs.
const HERS: &str = "secret_plan";
const NOBODYS: &str = "absent_plan";

/// Bob, and nobody in particular.
fn strangers(bob: &str) -> [(&'static str, Option<&str>); 2] {
    [("bob", Some(bob)), ("anonymous", None)]
}

/// An answer without what differs from one request to the next.
fn same(answer: &str, id: &str) -> String {
    let mut said = answer.replace(id, "THE_PLAN");
    // Ids of requests are random.
    if let Some(at) = said.find("\"request_id\":\"") {
        said.replace_range(at..(at + 50).min(said.len()), "");
    }
    said
}

struct Town {
    site: Site,
    ann: String,
    bob: String,
}

/// Ann has a private skill of her own, one that shadows an official one, and secrets.
fn town() -> Town {
    let site = Site::new();
    let ((ann, _), (bob, _)) = (site.key("ann"), site.key("bob"));
    site.tool("ann", "private", HERS);
    site.tool("ann", "private", "shared_plan");
    site.tool("ann", "official", "shared_plan");
    let set =
        site.ask(Some(&ann), "PUT", "/v1/secrets/GLOBAL", &json!({"value": "the-plan-of-ann"}));
    assert_eq!(set.status, 200);
    Town { site, ann, bob }
}

#[test]
fn over_http() {
    let town = town();
    let requests: &[(&str, &str, Value)] = &[
        ("GET", "/v1/skills/@", Value::Null),
        ("GET", "/v1/skills/@?tier=private", Value::Null),
        ("GET", "/v1/skills/@?explain=1", Value::Null),
        ("POST", "/v1/execute/@", json!({"payload": {}})),
        ("POST", "/v1/execute", json!({"skill_name": "@"})),
        ("POST", "/v1/execute", json!({"skill_name": "@", "user_uid": "ann"})),
        ("PUT", "/v1/secrets/GLOBAL/grants/@", Value::Null),
        ("DELETE", "/v1/secrets/GLOBAL/grants/@", Value::Null),
        ("DELETE", "/v1/secrets/GLOBAL", Value::Null),
        ("DELETE", "/v1/secrets/PLAN_KEY?skill=@", Value::Null),
        ("DELETE", "/v1/admin/skills/private/@?uid=ann", Value::Null),
        ("POST", "/v1/admin/sync_skill", json!({"user_uid": "ann", "skill_name": "@"})),
        ("GET", "/.well-known/agent-skills/@/SKILL.md", Value::Null),
        ("GET", "/skills/@", Value::Null),
    ];
    for (who, key) in strangers(&town.bob) {
        for (method, target, body) in requests {
            let ask = |id: &str| {
                let body = body.to_string().replace('@', id).parse().unwrap();
                let answer = town.site.ask(key, method, &target.replace('@', id), &body);
                (answer.status, same(&String::from_utf8_lossy(&answer.body), id))
            };
            let (hers, nobodys) = (ask(HERS), ask(NOBODYS));
            assert_eq!(hers, nobodys, "{who} {method} {target}");
            assert!(hers.0 >= 400 || method == &"DELETE", "{who} {method} {target}: {hers:?}");
            assert!(!hers.1.contains("only ann knows"), "{who} {method} {target}: {hers:?}");
        }
        for target in [
            "/v1/skills",
            "/v1/skills?layers=all",
            "/v1/skills?tier=private",
            "/v1/skills/schema",
            "/v1/secrets",
            "/v1/openapi.json",
        ] {
            let answer = town.site.ask(key, "GET", target, &Value::Null);
            let said = String::from_utf8_lossy(&answer.body);
            for word in [HERS, "PLAN_KEY", "GLOBAL", "the-plan-of-ann"] {
                assert!(!said.contains(word), "{who} {target}: {said}");
            }
        }
        // What ann put in front of the official one is in front for her alone.
        let shown =
            town.site.ask(key, "GET", "/v1/skills/shared_plan?explain=1", &Value::Null).json();
        assert_eq!(shown["source"], "official", "{who}");
        assert!(!shown.to_string().contains("private") || key.is_some(), "{who}: {shown}");
    }
    let mine = town.site.ask(Some(&town.ann), "GET", &format!("/v1/skills/{HERS}"), &Value::Null);
    assert_eq!(mine.json()["source"], "private");
}

#[test]
fn what_somebody_stores_for_themselves_shadows_nothing_of_others() {
    let town = town();
    town.site.tool("bob", "private", "shared_plan");
    town.site.tool("bob", "private", HERS);
    for (key, expected) in
        [(&town.ann, "What only ann knows."), (&town.bob, "What only bob knows.")]
    {
        for id in ["shared_plan", HERS] {
            let shown = town.site.ask(Some(key), "GET", &format!("/v1/skills/{id}"), &Value::Null);
            assert_eq!(shown.json()["spec"]["description"], expected, "{id}");
        }
    }
    town.site.administer(
        "DELETE",
        &format!("/v1/admin/skills/private/{HERS}?uid=bob"),
        &Value::Null,
    );
    let shown = town.site.ask(Some(&town.ann), "GET", &format!("/v1/skills/{HERS}"), &Value::Null);
    assert_eq!(shown.json()["spec"]["description"], "What only ann knows.");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_mcp() {
    let town = town();
    let open = async |key: Option<&str>| {
        Client::Session(Session::open_as(&town.site.server.http, "2025-11-25", key).await)
    };
    for (who, key) in strangers(&town.bob) {
        let mut client = open(key).await;
        let requests: &[(&str, Value)] = &[
            ("resources/read", json!({"uri": "iii://@"})),
            ("resources/read", json!({"uri": "skill://@/SKILL.md"})),
            ("resources/read", json!({"uri": "skill://private/@/SKILL.md"})),
            ("tools/call", json!({"name": "@", "arguments": {}})),
            ("tools/call", json!({"name": "read_skill", "arguments": {"id": "@"}})),
            ("tools/call", json!({"name": "search_skills", "arguments": {"query": "@"}})),
        ];
        for (method, params) in requests {
            let mut answers = vec![];
            for id in [HERS, NOBODYS] {
                let params = params.to_string().replace('@', id).parse().unwrap();
                let mut answer = client.ask(method, params).await;
                answer["id"] = Value::Null;
                answers.push(same(&answer.to_string(), id));
            }
            assert_eq!(answers[0], answers[1], "{who} {method} {params}");
            assert!(!answers[0].contains("only ann knows"), "{who} {method} {params}");
        }
        let tools = client.tools().await;
        assert!(!tools.iter().any(|name| name.contains(HERS)), "{who}: {tools:?}");
        assert!(tools.iter().any(|name| name.contains("shared_plan")), "{who}: {tools:?}");
        for listing in ["resources/list", "tools/list", "skills/list"] {
            let said = client.ask(listing, json!({})).await.to_string();
            assert!(!said.contains(HERS), "{who} {listing}: {said}");
        }
    }
    let tools = open(Some(&town.ann)).await.tools().await;
    assert!(tools.iter().any(|name| name.contains(HERS)), "{tools:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_the_bus() {
    let town = town();
    let worker = Worker::connect(&town.site.server.url).await;
    for (who, key) in strangers(&town.bob) {
        let requests: &[(&str, Value)] = &[
            ("skills::resolve", json!({"id": "@", "explain": true})),
            ("skills::resources-read", json!({"uri": "iii://@"})),
            ("skills::resources-read", json!({"uri": "skill://private/@/SKILL.md"})),
            ("skills::execute", json!({"id": "@", "arguments": {}})),
            ("skills::unregister", json!({"id": "@", "tier": "private"})),
            ("skills::unregister", json!({"id": "@"})),
        ];
        for (function, data) in requests {
            let mut answers = vec![];
            for id in [HERS, NOBODYS] {
                let mut data: Value = data.to_string().replace('@', id).parse().unwrap();
                data["key"] = json!(key);
                let answer = worker.call(function, data).await;
                answers.push(same(&format!("{answer:?}"), id));
            }
            assert_eq!(answers[0], answers[1], "{who} {function} {data}");
            assert!(!answers[0].contains("only ann knows"), "{who} {function} {data}");
        }
        for function in ["skills::list", "skills::resources-list"] {
            let said = worker.ok(function, json!({ "key": key })).await.to_string();
            assert!(!said.contains(HERS), "{who} {function}: {said}");
        }
    }
    let mine = worker.ok("skills::resolve", json!({"id": HERS, "key": town.ann})).await;
    assert_eq!(mine["tier"], "private", "{mine}");
}
