//! Live clients on the HTTP port of an attached worker.

use serde_json::json;
use skills_testkit::mdp::{Client, ok, skill};

use crate::{
    attach::settings::status,
    support::{
        attached::AttachedWorker, engine::TestEngine, free_address, ids, read, read_error,
        register, wait::eventually,
    },
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reading_stored_skills_times_out_without_an_engine() {
    let mut engine = TestEngine::start().await;
    engine.stop().await;
    let address = free_address();
    let config = format!("http: {address}\nmdp: {{ timeouts: {{ answer_ms: 5000 }} }}\n");
    let _attached = AttachedWorker::spawn(&engine.url(), &config);
    eventually("HTTP answers", async || status(address, "/healthz") == Some(200)).await;
    assert_eq!(status(address, "/skills/registry/a"), Some(504));
    engine.run().await;
    eventually("it is ready", async || status(address, "/readyz") == Some(200)).await;
    assert_eq!(status(address, "/skills/registry/a"), Some(404));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn live_clients_of_an_attached_worker_are_visible_on_the_engine() {
    let engine = TestEngine::start().await;
    let address = free_address();
    let _attached = AttachedWorker::with_config(&engine, &format!("http: {address}")).await;
    let worker = engine.worker().await;
    let url = format!("ws://{address}");
    let paths = json!([skill("/a/skill.md"), { "type": "prompt", "path": "/p/prompt.md" }]);
    let client = Client::connect_registered(&url, "desk", paths).await;
    let serving = client.serve_calls(|call| ok(format!("at {}", call["path"])));
    eventually("the skill is listed", async || ids(&worker).await == ["desk/a/skill.md"]).await;
    assert_eq!(read(&worker, "iii://desk/a/skill.md").await, r#"at "/a/skill.md""#);
    let asked = json!({ "clientId": "desk", "method": "GET", "path": "/a/skill.md" });
    assert_eq!(worker.ok("mdp::call-path", asked).await["ok"], true);
    let rendered = worker.ok("prompts::mcp-get", json!({ "name": "desk-p" })).await;
    assert_eq!(rendered["messages"][0]["content"]["text"], r#"at "/p/prompt.md""#);
    // Stored entries of the engine win here too.
    register(&worker, "desk", "# Stored\n").await;
    assert_eq!(read(&worker, "iii://desk").await, "# Stored\n");
    assert_eq!(status(address, "/skills/registry/desk"), Some(200));

    serving.abort();
    eventually("it is gone", async || ids(&worker).await == ["desk"]).await;
    assert_eq!(read_error(&worker, "iii://desk/a/skill.md").await.code, "not_found");
}
