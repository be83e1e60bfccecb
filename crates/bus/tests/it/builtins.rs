//! The `engine::` functions in the shapes that each SDK generation reads.

use serde_json::{Value, json};
use skills_bus::{Bus as _, FunctionSpec, HubConfig, Json};

use crate::test_hub::*;

#[tokio::test]
async fn workers_register_returns_success_for_any_metadata() {
    let test = TestHub::start().await;
    let mut peer = test.peer().await;
    let answer = peer
        .call("engine::workers::register", json!({"runtime": "rust", "version": "0.25.0"}))
        .await;
    assert_eq!(answer["result"], json!({"success": true}));
    // Metadata of any shape is accepted.
    for data in [json!(null), json!([]), json!({"runtime": 1, "features": 2}), json!("x")] {
        assert_eq!(
            peer.call("engine::workers::register", data.clone()).await["result"],
            json!({"success": true}),
            "{data:?}"
        );
    }
}

#[tokio::test]
async fn functions_are_listed_with_the_fields_of_all_sdk_generations() {
    let test = TestHub::with(HubConfig { name: "skills".into(), ..HubConfig::default() }).await;
    test.hub.register_function(
        FunctionSpec {
            id: "local::f".into(),
            description: "Local.".into(),
            request_format: Some(json!({"title": "In"})),
            response_format: Some(json!({"title": "Out"})),
            metadata: None,
        },
        echo(),
    );
    let mut worker = test.peer().await;
    worker.identify(json!({"name": "my-worker"})).await;
    worker
        .send(json!({"type": "registerfunction", "id": "w::f", "description": "Worker's.", "metadata": {"k": 1},
            "request_format": true}))
        .await;
    let list = worker.call("engine::functions::list", json!({})).await;
    assert_eq!(
        list["result"],
        json!({"functions": [
            {"function_id": "local::f", "description": "Local.", "request_format": {"title": "In"},
             "response_format": {"title": "Out"}, "metadata": null, "namespace": "default", "worker_name": "skills"},
            {"function_id": "w::f", "description": "Worker's.", "request_format": null, "response_format": null,
             "metadata": {"k": 1}, "namespace": "default", "worker_name": "my-worker"},
        ]})
    );
    let ids = |answer: &Value| -> Vec<String> {
        let rows = answer["result"]["functions"].as_array().unwrap();
        rows.iter().map(|row| row["function_id"].as_str().unwrap().to_owned()).collect()
    };
    let only = |data: Value| json!({"type": "x", "data": data});
    for (filter, expected) in [
        (json!({"prefix": "w::"}), vec!["w::f"]),
        (json!({"search": "LOCAL"}), vec!["local::f"]),
        (json!({"worker": "my-worker"}), vec!["w::f"]),
        (json!({"prefix": "zzz"}), vec![]),
    ] {
        let answer = worker.call("engine::functions::list", filter.clone()).await;
        assert_eq!(ids(&answer), expected, "{}", only(filter));
    }
    let all = worker.call("engine::functions::list", json!({"include_internal": true})).await;
    assert!(ids(&all).contains(&"engine::workers::list".to_owned()));

    let info = worker.call("engine::functions::info", json!({"function_id": "local::f"})).await;
    assert_eq!(
        info["result"],
        json!({"function_id": "local::f", "namespace": "default", "worker_name": "skills", "description": "Local.",
            "request_schema": {"title": "In"}, "response_schema": {"title": "Out"}, "metadata": null,
            "registered_triggers": []})
    );
    let several =
        worker.call("engine::functions::info", json!({"function_ids": ["w::f", "no::such"]})).await;
    assert_eq!(several["result"]["functions"].as_array().unwrap().len(), 1);
    assert_eq!(
        worker.call_error("engine::functions::info", json!({"function_id": "no::such"})).await,
        "function_not_found"
    );
    assert_eq!(
        worker.call_error("engine::functions::info", json!({})).await,
        "deserialization_error"
    );
    let own = test.hub.call("engine::functions::list", Json::null(), DEADLINE).await.unwrap();
    assert!(own.as_str().contains("local::f"));
}

#[tokio::test]
async fn workers_are_listed_with_their_registered_metadata() {
    let test = TestHub::start().await;
    let mut peer = test.peer().await;
    peer.identify(json!({"name": "n", "runtime": "python", "version": "0.11.3", "os": "linux", "pid": 5, "isolation": null}))
        .await;
    peer.send(json!({"type": "registerfunction", "id": "p::b"})).await;
    peer.send(json!({"type": "registerfunction", "id": "p::a"})).await;
    let answer = peer.call("engine::workers::list", json!({})).await;
    let row = &answer["result"]["workers"][0];
    assert_eq!(row["id"], peer.id.as_str());
    assert_eq!(row["name"], "n");
    assert_eq!(row["runtime"], "python");
    assert_eq!(row["version"], "0.11.3");
    assert_eq!(row["os"], "linux");
    assert_eq!(row["ip_address"], "127.0.0.1");
    assert_eq!(row["status"], "connected");
    assert_eq!(row["function_count"], 2);
    assert_eq!(row["functions"], json!(["p::a", "p::b"]));
    assert_eq!(row["active_invocations"], 0);
    assert_eq!(row["isolation"], Value::Null);
    assert!(row["connected_at_ms"].as_u64().unwrap() > 1_600_000_000_000);
    assert!(
        answer["result"]["timestamp"].as_u64().unwrap() >= row["connected_at_ms"].as_u64().unwrap()
    );
}

#[tokio::test]
async fn triggers_and_their_types_are_listed_for_each_generation() {
    let test = TestHub::start().await;
    let mut provider = test.sdk("rust", "0.11.3").await;
    provider
        .send(json!({"type": "registertriggertype", "id": "my::type", "description": "Mine.",
            "trigger_request_format": {"title": "Config"}}))
        .await;
    provider
        .send(json!({"type": "registertrigger", "id": "t1", "trigger_type": "my::type", "function_id": "a::f",
            "config": {"c": 1}, "metadata": {"m": 1}}))
        .await;
    provider.expect("registertrigger").await;

    let old = provider.call("engine::triggers::list", json!({"include_internal": false})).await;
    let rows = old["result"]["triggers"].as_array().unwrap().clone();
    assert_eq!(rows.len(), 1);
    for (key, value) in [
        ("id", json!("t1")),
        ("trigger_type", json!("my::type")),
        ("function_id", json!("a::f")),
        ("config", json!({"c": 1})),
        ("metadata", json!({"m": 1})),
    ] {
        assert_eq!(rows[0][key], value, "{key}");
    }
    let mut modern = test.sdk("rust", "0.25.0").await;
    let new = modern.call("engine::triggers::list", json!({})).await;
    let rows = new["result"]["triggers"].as_array().unwrap().clone();
    assert_eq!(rows.len(), 1);
    assert_eq!(
        (rows[0]["id"].as_str(), rows[0]["description"].as_str()),
        (Some("my::type"), Some("Mine."))
    );
    assert_eq!(rows[0]["worker_name"], "test");

    let types = provider.call("engine::trigger-types::list", json!({})).await;
    assert_eq!(types["result"]["trigger_types"][0]["id"], "my::type");
    assert_eq!(
        types["result"]["trigger_types"][0]["trigger_request_format"],
        json!({"title": "Config"})
    );
    let all = provider.call("engine::trigger-types::list", json!({"include_internal": true})).await;
    assert_eq!(all["result"]["trigger_types"].as_array().unwrap().len(), 2);
    let bound = provider.call("engine::registered-triggers::list", json!({})).await;
    assert_eq!(bound["result"]["registered_triggers"][0]["status"], "active");
    assert_eq!(bound["result"]["registered_triggers"][0]["config"], json!({"c": 1}));
}

#[tokio::test]
async fn unsupported_engine_functions_return_an_error() {
    let test = TestHub::start().await;
    let mut peer = test.peer().await;
    let answer = peer.call("engine::channels::create", json!({"buffer_size": null})).await;
    assert_eq!(answer["error"]["code"], "function_not_found");
    assert!(answer["error"]["message"].as_str().unwrap().contains("channels"));
    assert_eq!(peer.call_error("engine::no-such", json!({})).await, "function_not_found");
    for id in ["engine::log::info", "engine::log::error", "engine::baggage::get"] {
        let answer = peer.call(id, json!({"message": "hello", "data": {}})).await;
        assert_eq!(answer.get("result"), Some(&Value::Null), "{id}");
    }
}
