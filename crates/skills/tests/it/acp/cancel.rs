//! Cancelled turns.

use serde_json::json;

use crate::support::{TestServer, acp_client::Client, register};

#[tokio::test]
async fn cancelling_does_not_wait_for_the_handler() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let (called, mut calls) = tokio::sync::mpsc::unbounded_channel();
    let silent = move |_| {
        let _ = called.send(());
        None
    };
    worker.serve("t::slow", silent).await;
    let prompt = json!({ "name": "slow", "description": "d", "function_id": "t::slow" });
    worker.ok("prompts::register", prompt).await;
    let (mut client, session) = Client::session(&server).await;
    client.command("slow").await;

    let turn = client.say(&session, "/slow").await;
    calls.recv().await.unwrap();
    // A queued turn is cancelled too.
    let queued = client.say(&session, "/slow").await;
    client.notify("session/cancel", json!({ "sessionId": session })).await;
    for id in [turn, queued] {
        assert_eq!(client.hear(id).await.stopped, "cancelled");
    }

    // Cancels by the id of the request.
    let turn = client.say(&session, "/slow").await;
    calls.recv().await.unwrap();
    client.notify("$/cancel_request", json!({ "requestId": turn })).await;
    assert_eq!(client.hear(turn).await.stopped, "cancelled");

    client.notify("session/cancel", json!({ "sessionId": session })).await;
    client.notify("session/cancel", json!({ "sessionId": "nobody" })).await;
    assert!(client.turn(&session, "hello").await.contains("/slow"));
}

#[tokio::test]
async fn cancelling_stops_a_stream_midway() {
    let server = TestServer::new();
    let body = format!("# Long\n\n{}", "A line of text.\n".repeat(16_000));
    register(&server.worker().await, "long", &body).await;
    let (mut client, session) = Client::session(&server).await;
    client.command("long").await;

    // The text does not fit into the pipe, so the stream blocks until it is read.
    let turn = client.say(&session, "/long").await;
    client.update("agent_message_chunk", |_| true).await;
    client.notify("session/cancel", json!({ "sessionId": session })).await;
    // Once the process has read all this, it has read the cancellation before it.
    client.send_line(&"\n".repeat(512 << 10)).await;
    let stopped = client.hear(turn).await;
    assert_eq!(stopped.stopped, "cancelled");
    assert!(stopped.text.len() < body.len() / 2, "{} bytes were sent", stopped.text.len());

    assert_eq!(client.turn(&session, "/long").await, body);
}
