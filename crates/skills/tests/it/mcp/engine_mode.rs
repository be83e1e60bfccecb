//! MCP over HTTP in attached mode.

use serde_json::json;
use skills_testkit::Request;

use crate::support::{
    attached::AttachedWorker,
    engine::TestEngine,
    free_address,
    mcp_clients::{Client, Session, Stateless, send},
    register,
    wait::eventually,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mcp_is_served_in_attached_mode() {
    let engine = TestEngine::start().await;
    let address = free_address().to_string();
    let _attached = AttachedWorker::with_config(&engine, &format!("http: {address}")).await;
    let worker = engine.worker().await;
    let brain = "# Brain\n\nSee iii://brain/brain::notes.\n";
    register(&worker, "brain", brain).await;
    worker.serve("brain::notes", |_| Some(Ok(json!("# Notes\n")))).await;
    let session = Session::open(&address, "2025-06-18").await;
    let mut events = session.events().await;
    for mut client in [Client::Session(session), Client::Stateless(Stateless::new(&address))] {
        assert_eq!(client.read("iii://brain").await, brain);
        assert_eq!(client.read("iii://brain/brain::notes").await, "# Notes\n");
        let list = client.ok("resources/list", json!({})).await;
        assert_eq!(list["resources"].as_array().unwrap().len(), 2);
    }
    register(&worker, "other", "# Other\n").await;
    while events.message().await["method"] != "notifications/resources/list_changed" {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn initialize_works_before_the_engine_is_reachable() {
    let mut engine = TestEngine::start().await;
    engine.stop().await;
    let address = free_address().to_string();
    let _attached = AttachedWorker::spawn(&engine.url(), &format!("http: {address}"));
    eventually("HTTP answers", async || tokio::net::TcpStream::connect(&address).await.is_ok())
        .await;
    let mut client = Client::Session(Session::open(&address, "2025-06-18").await);
    assert_eq!(client.ok("ping", json!({})).await, json!({}));
    let evil = Request::new("POST", "/mcp").header("Origin", "https://evil.example");
    assert_eq!(send(&address, &evil).await.status, 403);
    engine.run().await;
    // A request waits for the registry and is answered when it is ready.
    let list = client.ok("resources/list", json!({})).await;
    assert_eq!(list["resources"].as_array().unwrap().len(), 1);
}
