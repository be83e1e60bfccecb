//! Rate limits of keys.

use std::{
    thread,
    time::{SystemTime, UNIX_EPOCH},
};

use serde_json::{Value, json};
use skills_core::Layer;
use skills_vault::now;

use crate::{
    gateway::{
        fixture::{GatewaySetup, outcome, tool, weather},
        tools::{VERSION, over_http},
    },
    support::{
        mcp_clients::{Client, Pipe},
        store::open_vault,
    },
};

const LIMIT: usize = 5;
const CALLS: usize = 24;

fn minute() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() / 60
}

#[tokio::test]
async fn exactly_the_limit_of_parallel_calls_passes() {
    let setup = GatewaySetup::new();
    let origin = setup.upstream.origin.clone();
    setup.tool(&Layer::Official, "plain", &tool("plain", &origin, json!({}))).await;
    // Several keys, in case a minute ends meanwhile.
    let keys: Vec<String> = (0..5).map(|number| setup.key(&format!("user{number}"))).collect();
    let gateway = setup.serve_with(&format!("limits: {{FREE: {LIMIT}}}"), None);
    for key in &keys {
        let began = minute();
        let answers: Vec<_> = thread::scope(|scope| {
            let call = || gateway.execute(Some(key), "plain", json!({}));
            let calls: Vec<_> = (0..CALLS).map(|_| scope.spawn(call)).collect();
            calls.into_iter().map(|call| call.join().unwrap()).collect()
        });
        let listed = gateway.get(Some(key), "/v1/skills");
        if minute() != began {
            continue;
        }
        let passed = answers.iter().filter(|answer| answer.status == 200).count();
        assert_eq!(passed, LIMIT);
        let refused = answers.iter().find(|answer| answer.status != 200).unwrap();
        assert_eq!(outcome(refused), (429, "rate_limited".to_owned()));
        let body = refused.json();
        assert_eq!(body["error"], "Too Many Requests");
        assert_eq!(body["message"], "Rate limit exceeded. Your tier limit is 5 RPM.");
        let header = |name: &str| refused.header(name).unwrap();
        assert_eq!(
            (header("X-RateLimit-Limit"), header("X-RateLimit-Remaining")),
            ("5".into(), "0".into())
        );
        assert_eq!(header("X-RateLimit-Reset"), ((began + 1) * 60).to_string());
        assert!((1..=60).contains(&header("Retry-After").parse::<u64>().unwrap()));
        // Reads do not count; they report the remaining calls.
        assert_eq!(listed.status, 200);
        assert_eq!(listed.header("X-RateLimit-Remaining").as_deref(), Some("0"));
        return;
    }
    panic!("every try went over the end of a minute");
}

#[tokio::test]
async fn every_answer_has_rate_limit_headers_even_without_a_route() {
    let setup = GatewaySetup::new();
    let ann = setup.key("ann");
    let gateway = setup.serve();
    let large = json!({"text": "x".repeat(5 << 20)});
    for key in [Some(&*ann), None] {
        let answer = gateway.execute(key, "plain", large.clone());
        assert_eq!(outcome(&answer), (413, "body_too_large".to_owned()), "{key:?}");
        assert_eq!(answer.header("X-RateLimit-Remaining").as_deref(), Some("30"), "{key:?}");
    }
    let answer = gateway.get(Some("us-unknown"), "/v1/skills");
    assert_eq!(outcome(&answer), (401, "unknown_key".to_owned()));
    assert_eq!(answer.header("X-RateLimit-Limit"), None);
}

#[tokio::test]
async fn calls_refused_before_sending_do_not_count() {
    let setup = GatewaySetup::new();
    let origin = setup.upstream.origin.clone();
    for (id, endpoint, headers) in [
        ("plain", origin.clone(), json!({})),
        ("needy", origin.clone(), json!({ "X-Key": "{{SECRETS.TOKEN}}" })),
        ("asking", format!("{origin}/{{{{q}}}}"), json!({})),
        ("open", "http://192.0.2.1/".to_owned(), json!({})),
        ("inner", "https://127.0.0.1/".to_owned(), json!({})),
    ] {
        setup.tool(&Layer::Official, id, &tool(id, &endpoint, headers)).await;
    }
    setup.tool(&Layer::Official, "uniskill_weather", &weather(&origin)).await;
    setup.document("notes").await;
    let (ann, bob) = (setup.key("ann"), setup.key("bob"));
    let gateway = setup.serve();
    for (id, payload, expected) in [
        ("none", json!({}), (404, "not_found")),
        ("notes", json!({}), (422, "not_a_tool")),
        ("weather", json!({}), (422, "invalid_arguments")),
        ("needy", json!({}), (422, "missing_secrets")),
        ("asking", json!({}), (422, "missing_parameters")),
        ("asking", json!({"q": ".."}), (422, "invalid_parameters")),
        ("open", json!({}), (403, "not_https")),
        ("inner", json!({}), (403, "refused_address")),
        ("plain", json!({"x": "y".repeat((1 << 20) - 9)}), (413, "request_too_large")),
    ] {
        let answer = gateway.execute(Some(&ann), id, payload);
        assert_eq!(outcome(&answer), (expected.0, expected.1.to_owned()), "{id}");
        assert_eq!(answer.header("X-RateLimit-Remaining").as_deref(), Some("30"), "{id}");
    }
    assert!(gateway.upstream.received().is_empty());
    // Sent calls count. The second user tries again if a minute ends meanwhile.
    for key in [&ann, &bob] {
        let began = minute();
        let answer = gateway.execute(Some(key), "plain", json!({}));
        if minute() == began {
            assert_eq!(answer.header("X-RateLimit-Remaining").as_deref(), Some("29"));
            return;
        }
    }
    panic!("every try went over the end of a minute");
}

#[tokio::test]
async fn anonymous_callers_share_one_limit() {
    let setup = GatewaySetup::new();
    let origin = setup.upstream.origin.clone();
    setup.tool(&Layer::Official, "plain", &tool("plain", &origin, json!({}))).await;
    let ann = setup.key("ann");
    let gateway = setup.serve_with(&format!("limits: {{FREE: {LIMIT}}}"), None);
    let mut one = over_http(&gateway, None).await;
    let mut other = over_http(&gateway, None).await;
    let mut anns = over_http(&gateway, Some(&ann)).await;
    let worker = gateway.server.worker().await;
    let code = |result: Value| result["structuredContent"]["code"].clone();
    loop {
        let began = minute();
        let mut passed = 0;
        while code(one.call("plain", json!({})).await) != "rate_limited" {
            passed += 1;
            assert!(passed <= LIMIT || minute() != began, "it is counted");
        }
        let others = code(other.call("plain", json!({})).await);
        let on_the_bus = worker.call("skills::execute", json!({ "id": "plain" })).await;
        let with_a_key = anns.call("plain", json!({})).await;
        if minute() != began {
            continue;
        }
        assert_eq!(others, "rate_limited", "whoever else has no key");
        assert_eq!(on_the_bus.unwrap_err().code, "rate_limited");
        assert_ne!(with_a_key["isError"], true, "who has one is not concerned: {with_a_key}");
        return;
    }
}

#[tokio::test]
async fn usage_of_a_local_client_is_kept_in_the_data_directory() {
    let setup = GatewaySetup::new();
    let origin = setup.upstream.origin.clone();
    setup.tool(&Layer::Official, "plain", &tool("plain", &origin, json!({}))).await;
    let ann = setup.key("ann");
    let (dir, _upstream) = setup.close();
    let (data, config) = (dir.path().join("data"), dir.path().join("config.yaml"));
    std::fs::write(&config, format!("execution: {{allow_upstream: ['{origin}']}}")).unwrap();
    let [data_dir, config] = [&data, &config].map(|path| path.to_str().unwrap());
    // A minute may end meanwhile, which resets the limit.
    loop {
        let began = minute();
        let arguments = ["--data-dir", data_dir, "--config", config, "--key", &ann];
        let mut client = Client::Pipe(Pipe::session(&arguments, VERSION).await);
        let result = client.call("plain", json!({})).await;
        assert_ne!(result["isError"], true, "{result}");
        let Client::Pipe(mut pipe) = client else { panic!("it is a pipe") };
        pipe.hang_up();
        assert_eq!(pipe.ended().await.0, Some(0));
        let used = open_vault(&data, None).windows(now()).unwrap();
        if minute() == began {
            assert!(used.iter().any(|window| window.used > 0), "{used:?}");
            return;
        }
    }
}
