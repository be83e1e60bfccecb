//! Over HTTP: the gateway and the discovery of skills.

use serde_json::{Value, json};
use skills_testkit::Response;

use super::{ABSENT, EXISTING, IsolationFixture, TEXT, normalized, other_callers, with_name};

use crate::support::TestServer;

/// The answer to ann depends on whether she has the entry.
const TELLS_ANN: bool = true;
const TELLS_NOBODY: bool = false;

/// Returns status, headers and body without parts that differ between requests.
fn visible_parts(answer: &Response, word: &str) -> String {
    // Clocks and counters change between requests.
    let lasting = |(name, value): &(String, String)| match name.as_str() {
        "date" | "x-ratelimit-reset" | "x-ratelimit-remaining" => name.clone(),
        _ => format!("{name}: {value}"),
    };
    let headers: Vec<_> = answer.headers().iter().map(lasting).collect();
    let body = String::from_utf8_lossy(&answer.body);
    format!("{} {headers:?} {}", answer.status, normalized(&body, word))
}

fn ask(
    server: &TestServer,
    key: Option<&str>,
    (method, target, body): &Asked<'_>,
    word: &str,
) -> Response {
    server.ask(key, method, &target.replace('@', word), &with_name(word, body))
}

type Asked<'a> = (&'a str, &'a str, Value);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_users_entries_look_absent_over_http() {
    let fixture = IsolationFixture::new().await;
    let nothing = || Value::Null;
    // Removals come last, because ann needs the entries before.
    let requests: Vec<(Asked<'_>, bool)> = vec![
        (("GET", "/v1/skills/@_plan", nothing()), TELLS_ANN),
        (("GET", "/v1/skills/@-note", nothing()), TELLS_ANN),
        (("HEAD", "/v1/skills/@-note", nothing()), TELLS_ANN),
        (("GET", "/v1/skills/@_plan?tier=private", nothing()), TELLS_ANN),
        (("GET", "/v1/skills/@_plan?explain=1", nothing()), TELLS_ANN),
        (("GET", "/v1/skills/@_plan%401", nothing()), TELLS_ANN),
        (("GET", "/v1/skills/@_plan/versions", nothing()), TELLS_ANN),
        (("GET", "/v1/skills/@_plan/versions?tier=private", nothing()), TELLS_ANN),
        (("GET", "/v1/skills/@_plan/diff?from=1&to=1", nothing()), TELLS_ANN),
        (("PUT", "/v1/skills/@_plan/labels/a", json!({ "version": 1 })), TELLS_ANN),
        (("DELETE", "/v1/skills/@_plan/labels/a?tier=private", nothing()), TELLS_ANN),
        (
            ("PUT", "/v1/skills/@_plan/labels/a?tier=private&uid=ann", json!({ "version": 1 })),
            TELLS_NOBODY,
        ),
        (("POST", "/v1/skills/@_plan/rollback", json!({ "to": 1 })), TELLS_ANN),
        (("GET", "/v1/search?q=@", nothing()), TELLS_ANN),
        (("GET", "/v1/search?q=@-n&tier=private", nothing()), TELLS_ANN),
        (("POST", "/v1/execute/@_plan", json!({ "payload": {} })), TELLS_ANN),
        (("POST", "/v1/execute/@-note", json!({ "payload": {} })), TELLS_ANN),
        (("POST", "/v1/execute", json!({ "skill_name": "@_plan" })), TELLS_ANN),
        (("POST", "/v1/execute", json!({ "skill": "@_plan", "user_uid": "ann" })), TELLS_ANN),
        (("GET", "/.well-known/agent-skills/@-note/SKILL.md", nothing()), TELLS_ANN),
        (("GET", "/.well-known/skills/@-note/SKILL.md", nothing()), TELLS_ANN),
        (("PUT", "/v1/secrets/@_token/grants/market_plan", nothing()), TELLS_ANN),
        (("DELETE", "/v1/secrets/@_token/grants/market_plan", nothing()), TELLS_NOBODY),
        (("DELETE", "/v1/secrets/@_token", nothing()), TELLS_ANN),
        (("DELETE", "/v1/secrets/plan_key?skill=@_plan", nothing()), TELLS_ANN),
        (("DELETE", "/v1/admin/skills/private/@_plan?uid=ann", nothing()), TELLS_NOBODY),
        (
            (
                "POST",
                "/v1/admin/sync_skill",
                json!({ "user_uid": "ann", "skill_name": "@_plan", "status": "private", "manifest": {} }),
            ),
            TELLS_NOBODY,
        ),
        (("POST", "/v1/skills/@_plan/versions/1/yank", json!({ "reason": "r" })), TELLS_ANN),
        // Own entries beside those of others with the same name.
        (("PUT", "/v1/secrets/@_token", json!({ "value": "bobs" })), TELLS_NOBODY),
    ];
    let before = fixture.entries_of_ann();
    for (who, key) in other_callers(&fixture.bob) {
        for (request, _) in &requests {
            let hers = visible_parts(&ask(&fixture.server, key, request, EXISTING), EXISTING);
            let nobodys = visible_parts(&ask(&fixture.server, key, request, ABSENT), ABSENT);
            assert_eq!(hers, nobodys, "{who} {request:?}");
            assert!(
                !hers.contains(TEXT) && !hers.contains("the-plan"),
                "{who} {request:?}: {hers}"
            );
        }
    }
    assert_eq!(fixture.entries_of_ann(), before, "nothing of hers was changed");
    for (request, tells) in &requests {
        let hers =
            visible_parts(&ask(&fixture.server, Some(&fixture.ann), request, EXISTING), EXISTING);
        let nobodys =
            visible_parts(&ask(&fixture.server, Some(&fixture.ann), request, ABSENT), ABSENT);
        assert_eq!(hers != nobodys, *tells, "{request:?}: {hers}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_contain_nothing_of_other_users() {
    let fixture = IsolationFixture::new().await;
    for target in [
        "/v1/skills",
        "/v1/skills?layers=all",
        "/v1/skills?tier=private",
        "/v1/skills/schema",
        "/v1/secrets",
        "/v1/available-skills",
        "/.well-known/agent-skills/index.json",
        "/.well-known/skills/index.json",
    ] {
        let get = |key| {
            let answer = fixture.server.ask(key, "GET", target, &Value::Null);
            String::from_utf8_lossy(&answer.body).into_owned()
        };
        for (who, key) in other_callers(&fixture.bob) {
            let output = get(key);
            for word in [EXISTING, "plan_key", TEXT, "the-plan-of-ann"] {
                assert!(!output.contains(word), "{who} {target}: {output}");
            }
        }
        assert!(get(Some(&fixture.ann)).contains(EXISTING), "{target} would show it to ann");
    }
    // The private copy of ann shadows the official one for her alone.
    for (who, key) in other_callers(&fixture.bob) {
        let shown =
            fixture.server.ask(key, "GET", "/v1/skills/shared_plan?explain=1", &Value::Null);
        assert_eq!(shown.json()["source"], "official", "{who}");
        assert!(!shown.json().to_string().contains(TEXT), "{who}");
        let answer = &shown.json()["explain"];
        assert_eq!(
            (&answer["answer"]["tier"], &answer["shadows"]),
            (&json!("official"), &json!([]))
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_private_entry_shadows_nothing_of_other_users() {
    let fixture = IsolationFixture::new().await;
    let get = |key: &str, id: &str| {
        let shown = fixture.server.ask(Some(key), "GET", &format!("/v1/skills/{id}"), &Value::Null);
        shown.json()["spec"]["description"].as_str().unwrap_or_default().to_owned()
    };
    fixture.server.add_tool("bob", "private", "shared_plan");
    fixture.server.add_tool("bob", "private", "hidden_plan");
    for id in ["shared_plan", "hidden_plan"] {
        assert_eq!(get(&fixture.ann, id), TEXT, "{id}");
        assert_eq!(get(&fixture.bob, id), "What only bob knows.", "{id}");
    }
    let target = "/v1/admin/skills/private/hidden_plan?uid=bob";
    fixture.server.administer("DELETE", target, &Value::Null);
    assert_eq!(get(&fixture.ann, "hidden_plan"), TEXT);
}
