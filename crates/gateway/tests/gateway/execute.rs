//! Calling tools, with a server that a test controls behind them.

use std::time::Duration;

use serde_json::json;
use skills_core::Layer;
use skills_upstream::Settings;

use crate::{house::House, skills::tool};

/// Somebody who takes connections and says nothing.
#[tokio::test]
async fn an_upstream_that_does_not_answer_is_a_timeout() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", silent.local_addr().unwrap());
    let timeout = Duration::from_millis(100);
    let allow = vec![origin.parse().unwrap()];
    let house = House::calling(Settings { timeout, allow, ..Settings::default() });
    let ann = house.user("ann");
    let text = json!({"id": "slow", "config": {"endpoint": origin}}).to_string();
    let put = house.registry.register_tool_in("test", &Layer::Market, "slow", tool("slow", &text));
    put.await.unwrap();
    let (status, answer) = house.ask(&ann, "POST", "/v1/execute/slow", &json!({})).await;
    assert_eq!((status.as_u16(), &answer["code"]), (504, &json!("upstream_timed_out")), "{answer}");
    assert!(answer["error"].as_str().unwrap().contains("100 ms"), "{answer}");
}

#[tokio::test]
async fn a_body_that_nobody_can_be_sent_is_not_read() {
    let house = House::open();
    let ann = house.user("ann");
    for (uri, payload) in [
        ("/v1/execute", json!({"text": "x".repeat(2 << 20)})),
        ("/v1/execute/none", json!({"text": "x".repeat(2 << 20)})),
        ("/v1/execute/none", json!({"list": vec![0; 100_000]})),
    ] {
        let body = json!({"skill": "none", "payload": payload});
        let (status, answer) = house.ask(&ann, "POST", uri, &body).await;
        assert_eq!((status.as_u16(), &answer["code"]), (413, &json!("body_too_large")), "{answer}");
    }
}
