//! Whose secrets go where, and that nobody gets to see them.

use serde_json::json;
use skills_core::Layer;

use crate::house::{Plan, outcome, private, tool};

const VALUE: &str = "sk-very-secret-value";

#[tokio::test]
async fn secrets_go_to_the_upstream_and_nowhere_else() {
    let plan = Plan::new();
    let endpoint = plan.upstream.origin.clone();
    let manifest = |id: &str| tool(id, &endpoint, json!({ "X-Key": "{{SECRETS.TOKEN}}" }));
    plan.tool(&private("ann"), "mine", &manifest("mine")).await;
    plan.tool(&Layer::Official, "curated", &manifest("curated")).await;
    for id in ["granted", "greedy"] {
        plan.tool(&Layer::Market, id, &manifest(id)).await;
    }
    let dead = tool("dead", &format!("{endpoint}/broken?k={{{{SECRETS.TOKEN}}}}"), json!({}));
    plan.tool(&Layer::Official, "dead", &dead).await;
    let (ann, bob) = (plan.key("ann"), plan.key("bob"));
    plan.secret("ann", None, "TOKEN", VALUE);
    plan.secret("ann", Some("mine"), "TOKEN", "sk-of-the-skill");
    plan.grant("ann", "granted", "TOKEN");
    let house = plan.serve();
    let mut answers = vec![];
    for (key, id, expected, sent) in [
        (&ann, "mine", (200, ""), Some("sk-of-the-skill")),
        (&ann, "curated", (200, ""), Some(VALUE)),
        (&ann, "granted", (200, ""), Some(VALUE)),
        (&ann, "greedy", (422, "missing_secrets"), None),
        (&bob, "curated", (422, "missing_secrets"), None),
    ] {
        let before = house.upstream.asked().len();
        let answer = house.execute(Some(key), id, json!({}));
        let (status, code) = outcome(&answer);
        assert_eq!((status, code.as_str()), expected, "{id}");
        let asked = house.upstream.asked();
        let new: Vec<_> = asked[before..].iter().map(|asked| &asked.headers).collect();
        match sent {
            Some(value) => assert!(new[0].contains(&format!("x-key: {value}\n")), "{new:?}"),
            None => assert!(new.is_empty()),
        }
        answers.push(String::from_utf8(answer.body).unwrap());
    }
    let refused = house.execute(Some(&ann), "greedy", json!({})).json();
    assert_eq!(refused["details"], json!([{"name": "TOKEN", "reason": "not_granted"}]));
    assert_eq!(outcome(&house.execute(Some(&ann), "dead", json!({}))).0, 502);
    assert!(house.upstream.asked().last().unwrap().target.contains(VALUE));
    for (key, id, missing) in [
        (&ann, "greedy", json!([{"name": "TOKEN", "reason": "not_granted"}])),
        (&ann, "granted", json!([])),
        (&bob, "curated", json!([{"name": "TOKEN", "reason": "not_set"}])),
    ] {
        let answer = house.get(Some(key), &format!("/v1/skills/{id}"));
        let body = answer.json();
        assert_eq!(body["secrets"]["required"], json!(["TOKEN"]), "{body}");
        assert_eq!(body["secrets"]["missing"], missing);
        answers.push(String::from_utf8(answer.body).unwrap());
    }
    let (_, _, log) = house.server.stop();
    answers.push(log);
    for said in answers {
        assert!(!said.contains(VALUE) && !said.contains("sk-of-the-skill"), "{said}");
        assert!(!said.contains(&ann) && !said.contains(&bob));
    }
}

#[tokio::test]
async fn without_a_master_key_that_is_said_and_all_else_works() {
    let plan = Plan::new();
    let endpoint = plan.upstream.origin.clone();
    let manifest = tool("needy", &endpoint, json!({ "X-Key": "{{SECRETS.TOKEN}}" }));
    plan.tool(&Layer::Official, "needy", &manifest).await;
    plan.tool(&Layer::Official, "plain", &tool("plain", &endpoint, json!({}))).await;
    let ann = plan.key("ann");
    plan.secret("ann", None, "TOKEN", VALUE);
    let house = plan.serve_with("", None);
    let answer = house.execute(Some(&ann), "needy", json!({}));
    assert_eq!(outcome(&answer), (503, "no_master_key".to_owned()));
    assert_eq!(outcome(&house.execute(Some(&ann), "plain", json!({}))).0, 200);
}
