//! Secrets reach the right upstream and nobody else.

use serde_json::json;
use skills_core::Layer;

use crate::gateway::fixture::{GatewaySetup, outcome, private, tool};

const VALUE: &str = "sk-very-secret-value";

#[tokio::test]
async fn secrets_are_sent_to_the_upstream_only() {
    let setup = GatewaySetup::new();
    let endpoint = setup.upstream.origin.clone();
    let manifest = |id: &str| tool(id, &endpoint, json!({ "X-Key": "{{SECRETS.TOKEN}}" }));
    setup.tool(&private("ann"), "mine", &manifest("mine")).await;
    setup.tool(&Layer::Official, "curated", &manifest("curated")).await;
    for id in ["granted", "greedy"] {
        setup.tool(&Layer::Market, id, &manifest(id)).await;
    }
    let dead = tool("dead", &format!("{endpoint}/broken?k={{{{SECRETS.TOKEN}}}}"), json!({}));
    setup.tool(&Layer::Official, "dead", &dead).await;
    let (ann, bob) = (setup.key("ann"), setup.key("bob"));
    setup.secret("ann", None, "TOKEN", VALUE);
    setup.secret("ann", Some("mine"), "TOKEN", "sk-of-the-skill");
    setup.grant("ann", "granted", "TOKEN");
    let gateway = setup.serve();
    let mut answers = vec![];
    for (key, id, expected, sent) in [
        (&ann, "mine", (200, ""), Some("sk-of-the-skill")),
        (&ann, "curated", (200, ""), Some(VALUE)),
        (&ann, "granted", (200, ""), Some(VALUE)),
        (&ann, "greedy", (422, "missing_secrets"), None),
        (&bob, "curated", (422, "missing_secrets"), None),
    ] {
        let before = gateway.upstream.received().len();
        let answer = gateway.execute(Some(key), id, json!({}));
        let (status, code) = outcome(&answer);
        assert_eq!((status, code.as_str()), expected, "{id}");
        let asked = gateway.upstream.received();
        let new: Vec<_> = asked[before..].iter().map(|asked| &asked.headers).collect();
        match sent {
            Some(value) => assert!(new[0].contains(&format!("x-key: {value}\n")), "{new:?}"),
            None => assert!(new.is_empty(), "{id:?}"),
        }
        answers.push(String::from_utf8(answer.body).unwrap());
    }
    let refused = gateway.execute(Some(&ann), "greedy", json!({})).json();
    assert_eq!(refused["details"], json!([{"name": "TOKEN", "reason": "not_granted"}]));
    assert_eq!(outcome(&gateway.execute(Some(&ann), "dead", json!({}))).0, 502);
    assert!(gateway.upstream.received().last().unwrap().target.contains(VALUE));
    for (key, id, missing) in [
        (&ann, "greedy", json!([{"name": "TOKEN", "reason": "not_granted"}])),
        (&ann, "granted", json!([])),
        (&bob, "curated", json!([{"name": "TOKEN", "reason": "not_set"}])),
    ] {
        let answer = gateway.get(Some(key), &format!("/v1/skills/{id}"));
        let body = answer.json();
        assert_eq!(body["secrets"]["required"], json!(["TOKEN"]), "{body}");
        assert_eq!(body["secrets"]["missing"], missing, "{id:?}");
        answers.push(String::from_utf8(answer.body).unwrap());
    }
    let (_, _, log) = gateway.server.process.stop();
    answers.push(log);
    for output in answers {
        assert!(!output.contains(VALUE) && !output.contains("sk-of-the-skill"), "{output}");
        assert!(!output.contains(&ann) && !output.contains(&bob));
    }
}

#[tokio::test]
async fn without_a_master_key_only_secrets_fail() {
    let setup = GatewaySetup::new();
    let endpoint = setup.upstream.origin.clone();
    let manifest = tool("needy", &endpoint, json!({ "X-Key": "{{SECRETS.TOKEN}}" }));
    setup.tool(&Layer::Official, "needy", &manifest).await;
    setup.tool(&Layer::Official, "plain", &tool("plain", &endpoint, json!({}))).await;
    let ann = setup.key("ann");
    setup.secret("ann", None, "TOKEN", VALUE);
    let gateway = setup.serve_with("", None);
    let answer = gateway.execute(Some(&ann), "needy", json!({}));
    assert_eq!(outcome(&answer), (503, "no_master_key".to_owned()));
    assert_eq!(outcome(&gateway.execute(Some(&ann), "plain", json!({}))).0, 200);
}
