//! Functions on the bus while the shared store cannot be reached.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use skills_bus::{CallError, FunctionCall, Json};
use skills_core::{Coded as _, Layer};
use skills_registry::{Registry, RegistryConfig};
use skills_store::SharedMemoryStore;

use crate::contract::{RecordingBus, serve};

/// Functions that read the registry, with their inputs.
fn reads() -> Vec<(&'static str, Value)> {
    vec![
        ("skills::list", json!({})),
        ("skills::resources-list", json!({})),
        ("skills::resources-read", json!({ "uri": "iii://a" })),
        ("skills::resources-read", json!({ "uri": "iii://skills" })),
        ("prompts::list", json!({})),
        ("prompts::mcp-list", json!({})),
        ("skills::available", json!({})),
        ("skills::catalog", json!({})),
        ("skills::files", json!({ "id": "a" })),
        ("skills::resolve", json!({ "id": "a" })),
        ("skills::search", json!({ "query": "a" })),
        ("skills::history", json!({ "id": "a" })),
        ("skills::log", json!({})),
        ("collections::list", json!({})),
    ]
}

/// Functions that call something, or that read what is not there.
fn calls() -> Vec<(&'static str, Value)> {
    vec![
        ("skills::execute", json!({ "id": "a", "arguments": {} })),
        ("prompts::mcp-get", json!({ "name": "p" })),
        ("skills::diff", json!({ "id": "a", "from": "1", "to": "1" })),
        ("collections::get", json!({ "name": "c" })),
    ]
}

async fn call(bus: &RecordingBus, function_id: &str, input: &Value) -> Result<Json, CallError> {
    let function = bus.function(function_id);
    function.call(FunctionCall::local(Json::from(input))).await
}

#[tokio::test]
async fn a_server_without_its_store_says_so() {
    let store = Arc::new(SharedMemoryStore::default());
    let registry = Registry::open(Arc::clone(&store) as _, None, RegistryConfig::default());
    let registry = registry.unwrap();
    let bus = serve(&registry);
    let degraded = async || -> Value {
        let answer = call(&bus, "skills::capabilities", &json!({})).await.unwrap();
        let answer: Value = answer.parse().unwrap();
        answer["degraded"].clone()
    };
    assert_eq!(degraded().await, json!(null));
    let mut health = registry.store_health();
    store.set_down(true);
    let lost = health.wait_for(|health| health.age().is_some());
    tokio::time::timeout(Duration::from_secs(60), lost).await.unwrap().unwrap();
    assert_eq!(degraded().await["reason"], "it is gone");
    assert!(degraded().await["catalog_age"].is_u64());
}

#[tokio::test]
async fn every_read_is_refused_when_the_catalog_is_too_old() {
    let store = Arc::new(SharedMemoryStore::default());
    let config = RegistryConfig { max_stale: Some(Duration::ZERO), ..RegistryConfig::default() };
    let registry = Registry::open(Arc::clone(&store) as _, None, config).unwrap();
    registry.register_skill("t", &Layer::Official, "a", "# A".into()).await.unwrap();
    let bus = serve(&registry);
    for (function_id, input) in reads() {
        let answered = call(&bus, function_id, &input).await;
        assert!(answered.is_ok(), "{function_id}: {answered:?}");
    }

    let mut health = registry.store_health();
    store.set_down(true);
    let lost = health.wait_for(|health| health.age().is_some());
    tokio::time::timeout(Duration::from_secs(60), lost).await.unwrap().unwrap();
    for (function_id, input) in reads().into_iter().chain(calls()) {
        let error = call(&bus, function_id, &input).await.unwrap_err();
        assert_eq!(error.code_text(), "store_unavailable", "{function_id}: {error}");
    }
}
