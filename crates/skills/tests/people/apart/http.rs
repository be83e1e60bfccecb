//! Over HTTP: the gateway and the discovery of skills.

use serde_json::{Value, json};
use skills_testkit::Answer;

use super::{HERS, NOBODYS, TEXT, Town, of, same, strangers};
use crate::site::Site;

/// Whether the answer to ann depends on whether she has it.
const TELLS_ANN: bool = true;
const TELLS_NOBODY: bool = false;

/// Status, headers and body, without what differs from one request to the next.
fn seen(answer: &Answer, word: &str) -> String {
    // Clocks and counts go on from one request to the next.
    let lasting = |(name, value): &(String, String)| match name.as_str() {
        "date" | "x-ratelimit-reset" | "x-ratelimit-remaining" => name.clone(),
        _ => format!("{name}: {value}"),
    };
    let headers: Vec<_> = answer.headers().iter().map(lasting).collect();
    let body = String::from_utf8_lossy(&answer.body);
    format!("{} {headers:?} {}", answer.status, same(&body, word))
}

fn ask(site: &Site, key: Option<&str>, (method, target, body): &Asked<'_>, word: &str) -> Answer {
    site.ask(key, method, &target.replace('@', word), &of(word, body))
}

type Asked<'a> = (&'a str, &'a str, Value);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn somebody_elses_is_like_nobodys() {
    let town = Town::new().await;
    let nothing = || Value::Null;
    // What takes something away comes last, for ann to be able to.
    let requests: Vec<(Asked<'_>, bool)> = vec![
        (("GET", "/v1/skills/@_plan", nothing()), TELLS_ANN),
        (("GET", "/v1/skills/@-note", nothing()), TELLS_ANN),
        (("HEAD", "/v1/skills/@-note", nothing()), TELLS_ANN),
        (("GET", "/v1/skills/@_plan?tier=private", nothing()), TELLS_ANN),
        (("GET", "/v1/skills/@_plan?explain=1", nothing()), TELLS_ANN),
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
        // Of one's own, beside whatever others call the same.
        (("PUT", "/v1/secrets/@_token", json!({ "value": "bobs" })), TELLS_NOBODY),
    ];
    let before = town.hers();
    for (who, key) in strangers(&town.bob) {
        for (request, _) in &requests {
            let hers = seen(&ask(&town.site, key, request, HERS), HERS);
            let nobodys = seen(&ask(&town.site, key, request, NOBODYS), NOBODYS);
            assert_eq!(hers, nobodys, "{who} {request:?}");
            assert!(
                !hers.contains(TEXT) && !hers.contains("the-plan"),
                "{who} {request:?}: {hers}"
            );
        }
    }
    assert_eq!(town.hers(), before, "nothing of hers was changed");
    for (request, tells) in &requests {
        let hers = seen(&ask(&town.site, Some(&town.ann), request, HERS), HERS);
        let nobodys = seen(&ask(&town.site, Some(&town.ann), request, NOBODYS), NOBODYS);
        assert_eq!(hers != nobodys, *tells, "{request:?}: {hers}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_show_nothing_of_others() {
    let town = Town::new().await;
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
            let answer = town.site.ask(key, "GET", target, &Value::Null);
            String::from_utf8_lossy(&answer.body).into_owned()
        };
        for (who, key) in strangers(&town.bob) {
            let said = get(key);
            for word in [HERS, "plan_key", TEXT, "the-plan-of-ann"] {
                assert!(!said.contains(word), "{who} {target}: {said}");
            }
        }
        assert!(get(Some(&town.ann)).contains(HERS), "{target} would show it to ann");
    }
    // What ann put in front of the official one is in front for her alone.
    for (who, key) in strangers(&town.bob) {
        let shown = town.site.ask(key, "GET", "/v1/skills/shared_plan?explain=1", &Value::Null);
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
async fn what_somebody_stores_for_themselves_shadows_nothing_of_others() {
    let town = Town::new().await;
    let get = |key: &str, id: &str| {
        let shown = town.site.ask(Some(key), "GET", &format!("/v1/skills/{id}"), &Value::Null);
        shown.json()["spec"]["description"].as_str().unwrap_or_default().to_owned()
    };
    town.site.tool("bob", "private", "shared_plan");
    town.site.tool("bob", "private", "hidden_plan");
    for id in ["shared_plan", "hidden_plan"] {
        assert_eq!(get(&town.ann, id), TEXT, "{id}");
        assert_eq!(get(&town.bob, id), "What only bob knows.", "{id}");
    }
    let target = "/v1/admin/skills/private/hidden_plan?uid=bob";
    town.site.administer("DELETE", target, &Value::Null);
    assert_eq!(get(&town.ann, "hidden_plan"), TEXT);
}
