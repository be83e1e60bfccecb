//! Turns that are stopped.

use serde_json::json;

use crate::{
    client::Client,
    support::{Home, register},
};

#[tokio::test]
async fn a_handler_that_does_not_answer_is_not_waited_for() {
    let home = Home::new();
    let worker = home.worker().await;
    let (called, mut calls) = tokio::sync::mpsc::unbounded_channel();
    let silent = move |_| {
        let _ = called.send(());
        None
    };
    worker.serve("t::slow", silent).await;
    let prompt = json!({ "name": "slow", "description": "d", "function_id": "t::slow" });
    worker.ok("prompts::register", prompt).await;
    let (mut client, session) = Client::session(&home).await;
    client.command("slow").await;

    let turn = client.say(&session, "/slow").await;
    calls.recv().await.unwrap();
    // One that waits for its turn is stopped too.
    let queued = client.say(&session, "/slow").await;
    client.notify("session/cancel", json!({ "sessionId": session })).await;
    for id in [turn, queued] {
        assert_eq!(client.hear(id).await.stopped, "cancelled");
    }

    // By the id of the request.
    let turn = client.say(&session, "/slow").await;
    calls.recv().await.unwrap();
    client.notify("$/cancel_request", json!({ "requestId": turn })).await;
    assert_eq!(client.hear(turn).await.stopped, "cancelled");

    client.notify("session/cancel", json!({ "sessionId": session })).await;
    client.notify("session/cancel", json!({ "sessionId": "nobody" })).await;
    assert!(client.turn(&session, "hello").await.contains("/slow"));
}

#[tokio::test]
async fn a_stream_stops_half_way() {
    let home = Home::new();
    let body = format!("# Long\n\n{}", "A line of text.\n".repeat(16_000));
    register(&home.worker().await, "long", &body).await;
    let (mut client, session) = Client::session(&home).await;
    client.command("long").await;

    // The text does not fit into the pipe, so the stream waits until it is read.
    let turn = client.say(&session, "/long").await;
    client.update("agent_message_chunk", |_| true).await;
    client.notify("session/cancel", json!({ "sessionId": session })).await;
    // When all this is taken in, so is what came before it.
    client.send_line(&"\n".repeat(512 << 10)).await;
    let stopped = client.hear(turn).await;
    assert_eq!(stopped.stopped, "cancelled");
    assert!(stopped.text.len() < body.len() / 2, "{} bytes were sent", stopped.text.len());

    assert_eq!(client.turn(&session, "/long").await, body);
}
