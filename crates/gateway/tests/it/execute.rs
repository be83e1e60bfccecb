//! Tool calls to an upstream that the test controls.

use std::time::Duration;

use serde_json::json;
use skills_core::Layer;
use skills_upstream::Settings;

use crate::{skills::tool, test_gateway::TestGateway};

/// The upstream accepts connections and never answers.
#[tokio::test]
async fn an_upstream_that_does_not_answer_is_a_timeout() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", silent.local_addr().unwrap());
    let timeout = Duration::from_millis(100);
    let allow = vec![origin.parse().unwrap()];
    let gateway = TestGateway::calling(Settings { timeout, allow, ..Settings::default() });
    let ann = gateway.user("ann");
    let text = json!({"id": "slow", "config": {"endpoint": origin}}).to_string();
    let put = gateway.registry.register_tool("test", &Layer::Market, "slow", tool("slow", &text));
    put.await.unwrap();
    let (status, answer) = gateway.ask(&ann, "POST", "/v1/execute/slow", &json!({})).await;
    assert_eq!((status.as_u16(), &answer["code"]), (504, &json!("upstream_timed_out")), "{answer}");
    assert!(answer["error"].as_str().unwrap().contains("100 ms"), "{answer}");
}

#[tokio::test]
async fn an_oversized_execute_body_gets_413() {
    let gateway = TestGateway::open();
    let ann = gateway.user("ann");
    for (uri, payload) in [
        ("/v1/execute", json!({"text": "x".repeat(2 << 20)})),
        ("/v1/execute/none", json!({"text": "x".repeat(2 << 20)})),
    ] {
        let body = json!({"skill": "none", "payload": payload});
        let (status, answer) = gateway.ask(&ann, "POST", uri, &body).await;
        assert_eq!((status.as_u16(), &answer["code"]), (413, &json!("body_too_large")), "{answer}");
    }
}
