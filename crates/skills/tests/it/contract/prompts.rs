//! `prompts::*`: registering, listing, and rendering through a handler.

use serde_json::{Value, json};
use skills_testkit::{CallFailure, Worker, next};

use crate::support::{TestServer, is_timestamp, keys};

/// Registers a prompt with a handler.
async fn prompt(worker: &Worker, name: &str, function_id: &str) {
    let data = json!({ "name": name, "description": "Does it.", "function_id": function_id });
    worker.ok("prompts::register", data).await;
}

async fn get(worker: &Worker, name: &str) -> Result<Value, CallFailure> {
    worker.call("prompts::mcp-get", json!({ "name": name, "arguments": {} })).await
}

#[tokio::test]
async fn registering_listing_and_removing_prompts_have_exact_shapes() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let answer = worker
        .ok(
            "prompts::register",
            json!({
                "name": "send-email", "description": "Compose and send an email",
                "arguments": [
                    { "name": "to", "description": "Recipient", "required": true },
                    { "name": "cc" },
                    { "name": "bcc", "description": null, "required": false },
                ],
                "function_id": " mail::prompt ",
            }),
        )
        .await;
    assert_eq!(keys(&answer), ["name", "registered_at"]);
    assert!(is_timestamp(&answer["registered_at"]), "{answer}");
    prompt(&worker, "a", "a::b").await;

    let list = worker.ok("prompts::list", json!({})).await;
    let rows = list["prompts"].as_array().unwrap();
    assert_eq!(keys(&rows[0]), ["arguments", "function_id", "name", "registered_at"]);
    assert_eq!(
        rows[1],
        json!({
            "name": "send-email", "function_id": "mail::prompt", "arguments": 3,
            "registered_at": answer["registered_at"],
        })
    );
    assert_eq!(
        worker.ok("prompts::mcp-list", json!({})).await,
        json!({ "prompts": [
            { "name": "a", "description": "Does it.", "arguments": [] },
            {
                "name": "send-email", "description": "Compose and send an email",
                "arguments": [
                    { "name": "to", "description": "Recipient", "required": true },
                    { "name": "cc", "required": false },
                    { "name": "bcc", "required": false },
                ],
            },
        ] })
    );
    let removed = worker.ok("prompts::unregister", json!({ "name": "send-email" })).await;
    assert_eq!(removed, json!({ "name": "send-email", "removed": true }));
    let list = worker.ok("prompts::list", json!({})).await;
    assert_eq!(list["prompts"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn registering_a_prompt_again_replaces_it_with_a_later_timestamp() {
    let server = TestServer::new();
    let worker = server.worker().await;
    prompt(&worker, "p", "a::one").await;
    let before = worker.ok("prompts::list", json!({})).await["prompts"][0].clone();
    prompt(&worker, "p", "a::two").await;
    let after = worker.ok("prompts::list", json!({})).await["prompts"][0].clone();
    assert_eq!(after["function_id"], "a::two");
    assert!(before["registered_at"].as_str() < after["registered_at"].as_str());
}

#[tokio::test]
async fn a_skill_and_a_prompt_of_one_name_are_independent() {
    let server = TestServer::new();
    let worker = server.worker().await;
    worker.ok("skills::register", json!({ "id": "same", "skill": "x" })).await;
    prompt(&worker, "same", "a::b").await;
    worker.ok("skills::unregister", json!({ "id": "same" })).await;
    let list = worker.ok("prompts::list", json!({})).await;
    assert_eq!(list["prompts"][0]["name"], "same");
}

#[tokio::test]
async fn the_handler_gets_the_arguments_and_an_empty_object_for_none() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let mut received = {
        let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
        worker
            .serve("p::handler", move |data| {
                sender.send(data).unwrap();
                Some(Ok(json!("ok")))
            })
            .await;
        receiver
    };
    prompt(&worker, "p", "p::handler").await;
    let caller = server.worker().await;
    for (input, arguments) in [
        (json!({ "name": "p" }), json!({})),
        (json!({ "name": "p", "arguments": null }), json!({})),
        (json!({ "name": "p", "arguments": {} }), json!({})),
        (
            json!({ "name": "p", "arguments": { "to": "ann", "n": [1, null] } }),
            json!({ "to": "ann", "n": [1, null] }),
        ),
    ] {
        caller.ok("prompts::mcp-get", input.clone()).await;
        assert_eq!(next(&mut received).await, arguments, "{input}");
    }
}

#[tokio::test]
async fn three_shapes_of_output_become_messages() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let turns = json!([
        { "role": "assistant", "content": { "type": "text", "text": "Hello" }, "x": 1 },
        { "role": "user", "content": { "type": "image", "data": "", "mimeType": "image/png" } },
    ]);
    let text = json!([{ "role": "user", "content": { "type": "text", "text": "Grüße\n" } }]);
    for (number, (output, description, messages)) in [
        (json!("Grüße\n"), "Does it.", &text),
        (json!({ "content": "Grüße\n", "more": true }), "Does it.", &text),
        (json!({ "messages": turns }), "Does it.", &turns),
        (json!({ "messages": turns, "description": "Own." }), "Own.", &turns),
        (json!({ "messages": [] }), "Does it.", &json!([])),
    ]
    .into_iter()
    .enumerate()
    {
        let function_id = format!("p::h{number}");
        worker.serve(&function_id, move |_| Some(Ok(output.clone()))).await;
        prompt(&worker, "p", &function_id).await;
        let rendered = get(&worker, "p").await.unwrap();
        assert_eq!(rendered, json!({ "description": description, "messages": messages }));
    }
}

#[tokio::test]
async fn any_other_output_is_an_error_that_lists_the_shapes() {
    let server = TestServer::new();
    let worker = server.worker().await;
    for (number, output) in [
        json!(null),
        json!(7),
        json!(true),
        json!(["x"]),
        json!({}),
        json!({ "content": 7 }),
        json!({ "messages": "x" }),
        json!({ "text": "x" }),
    ]
    .into_iter()
    .enumerate()
    {
        let function_id = format!("p::h{number}");
        let shown = output.to_string();
        worker.serve(&function_id, move |_| Some(Ok(output.clone()))).await;
        prompt(&worker, "p", &function_id).await;
        let failure = get(&worker, "p").await.expect_err(&shown);
        assert_eq!(failure.code, "handler_output", "{shown}");
        assert!(failure.message.contains("unsupported shape"), "{}", failure.message);
        assert!(failure.message.contains(&function_id), "{}", failure.message);
    }
}

#[tokio::test]
async fn a_failed_handler_is_named_with_the_reason() {
    let server = TestServer::with_config("state_timeout_ms: 3000\n");
    let worker = server.worker().await;
    prompt(&worker, "p", "p::nobody").await;
    let failure = get(&worker, "p").await.expect_err("not registered");
    assert_eq!(failure.code, "handler_not_registered");
    assert!(failure.message.contains("p::nobody is not registered"), "{}", failure.message);

    let thrown = CallFailure { code: "E42".into(), message: "no such recipient".into() };
    worker.serve("p::throws", move |_| Some(Err(thrown.clone()))).await;
    prompt(&worker, "p", "p::throws").await;
    let failure = get(&worker, "p").await.expect_err("throws");
    assert_eq!(failure.code, "handler_failed");
    for words in ["p::throws failed", "no such recipient", "E42"] {
        assert!(failure.message.contains(words), "{}", failure.message);
    }

    worker.serve("p::slow", |_| None).await;
    prompt(&worker, "p", "p::slow").await;
    let failure = get(&worker, "p").await.expect_err("slow");
    assert_eq!(failure.code, "handler_timeout");
    assert!(failure.message.contains("p::slow timed out after 3000 ms"), "{}", failure.message);
}
