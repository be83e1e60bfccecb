//! Queries that found nothing, for administrators.

use serde_json::{Value, json};
use skills_testkit::{program, run};

use super::{fill, search};
use crate::support::{
    BINARY, TestServer,
    admin::{ADMIN_KEY, INTERNAL_SECRET},
    wait::eventually,
};

fn misses(server: &TestServer) -> Value {
    server.ask(Some(ADMIN_KEY), "GET", "/v1/admin/search-misses", &Value::Null).json()["data"]
        .clone()
}

#[tokio::test]
async fn queries_without_a_result_are_counted() {
    let server = TestServer::with_admin();
    let worker = server.worker().await;
    fill(&worker).await;
    let (ann, _) = server.create_key("ann");
    for query in ["Submarine  maintenance", "submarine maintenance", "pdf", ""] {
        search(&worker, query).await;
    }
    worker.ok("skills::search", json!({ "query": "submarine maintenance", "key": ann })).await;
    eventually("the queries are logged", async || misses(&server)[0]["count"] == 3).await;
    let logged = misses(&server);
    assert_eq!(logged.as_array().unwrap().len(), 1, "{logged}");
    assert_eq!(logged[0]["query"], "submarine maintenance");
    assert_eq!(logged[0]["callers"], 2);
    assert!(!logged.to_string().contains("ann"));
    let data = server.data_dir();
    let arguments =
        ["--data-dir", data.to_str().unwrap(), "doctor", "search", "--misses", "--json"];
    let ran = run(program(BINARY).args(arguments));
    let shown: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{ran:?}"));
    assert_eq!(shown["misses"], logged);
    for key in [None, Some(INTERNAL_SECRET), Some(ann.as_str())] {
        let refused = server.ask(key, "GET", "/v1/admin/search-misses", &Value::Null);
        assert!([401, 403].contains(&refused.status), "{}", refused.json());
    }
}

#[tokio::test]
async fn the_log_can_be_turned_off() {
    let server = TestServer::with_config("search: {log: false}\n");
    let worker = server.worker().await;
    fill(&worker).await;
    search(&worker, "submarine").await;
    let data = server.data_dir();
    let server = server.restart();
    let arguments = ["--data-dir", data.to_str().unwrap(), "doctor", "search", "--misses"];
    let ran = run(program(BINARY).args(arguments));
    assert_eq!(ran.stdout, "No query of the last 30 days found nothing.\n", "{ran:?}");
    drop(server);
}

#[tokio::test]
async fn synonyms_can_be_configured() {
    let server = TestServer::with_config("search: {synonyms: [[frobnicate, deploy]]}\n");
    let worker = server.worker().await;
    fill(&worker).await;
    let page = search(&worker, "frobnicate").await;
    assert_eq!(super::result_ids(&page), ["deploy-web"]);
}
