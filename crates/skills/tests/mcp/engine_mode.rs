//! Attached to an engine, with HTTP.

use serde_json::json;
use skills_testkit::Request;

use crate::{
    attached::{Attached, eventually},
    clients::{Client, Session, Stateless, send},
    engine::Engine,
    free_address,
    support::register,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mcp_is_served_there_too() {
    let engine = Engine::start().await;
    let address = free_address().to_string();
    let _attached = Attached::configured(&engine, &format!("http: {address}")).await;
    let worker = engine.worker().await;
    register(&worker, "brain", "# Brain\n").await;
    worker.serve("brain::notes", |_| Some(Ok(json!("# Notes\n")))).await;
    let session = Session::open(&address, "2025-06-18").await;
    let mut events = session.events().await;
    for mut client in [Client::Session(session), Client::Stateless(Stateless::new(&address))] {
        assert_eq!(client.read("iii://brain").await, "# Brain\n");
        assert_eq!(client.read("iii://brain/brain::notes").await, "# Notes\n");
        let list = client.ok("resources/list", json!({})).await;
        assert_eq!(list["resources"].as_array().unwrap().len(), 2);
    }
    register(&worker, "other", "# Other\n").await;
    while events.message().await["method"] != "notifications/resources/list_changed" {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_greets_before_there_is_an_engine() {
    let mut engine = Engine::start().await;
    engine.stop().await;
    let address = free_address().to_string();
    let _attached = Attached::spawn(&engine.url(), &format!("http: {address}"));
    eventually("HTTP answers", async || tokio::net::TcpStream::connect(&address).await.is_ok())
        .await;
    let mut client = Client::Session(Session::open(&address, "2025-06-18").await);
    assert_eq!(client.ok("ping", json!({})).await, json!({}));
    let evil = Request::new("POST", "/mcp").header("Origin", "https://evil.example");
    assert_eq!(send(&address, &evil).await.status, 403);
    engine.run().await;
    // Whoever asks waits for the registry, and is answered when it is there.
    let list = client.ok("resources/list", json!({})).await;
    assert_eq!(list["resources"].as_array().unwrap().len(), 1);
}
