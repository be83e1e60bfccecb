//! Prompts: listed with their arguments, rendered by a worker's function.

use serde_json::{Value, json};
use skills_testkit::{CallFailure, Worker, next};
use tokio::sync::mpsc::error::TryRecvError;

use crate::{
    mcp::many,
    support::{
        TestServer,
        mcp_clients::{every_kind, session},
    },
};

async fn prompt(worker: &Worker, name: &str, function_id: &str, arguments: Value) {
    let definition = json!({
        "name": name, "description": "Does it.", "arguments": arguments, "function_id": function_id,
    });
    worker.ok("prompts::register", definition).await;
}

#[tokio::test]
async fn a_list_has_names_descriptions_and_arguments() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let arguments = json!([
        { "name": "to", "description": "Recipient", "required": true },
        { "name": "cc" },
    ]);
    prompt(&worker, "send-email", "mail::prompt", arguments).await;
    prompt(&worker, "bare", "a::b", json!([])).await;
    for (kind, mut client) in every_kind(&server).await {
        let prompts = client.ok("prompts/list", json!({})).await["prompts"].take();
        assert_eq!(
            prompts,
            json!([
                { "name": "bare", "description": "Does it." },
                {
                    "name": "send-email", "description": "Does it.",
                    "arguments": [
                        { "name": "to", "description": "Recipient", "required": true },
                        { "name": "cc", "required": false },
                    ],
                },
            ]),
            "{kind}"
        );
    }
}

#[tokio::test]
async fn many_prompts_are_paged() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let prompt = |number: usize| json!({ "name": format!("p{number}"), "description": "d", "function_id": "a::b" });
    many(&worker, "prompts::register", (0..205).map(prompt)).await;
    let mut client = session(&server).await;
    let rows = client.all("prompts/list", "prompts").await;
    let mut names: Vec<_> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names.len(), 205);
    assert!(names.is_sorted());
    names.dedup();
    assert_eq!(names.len(), 205);
}

#[tokio::test]
async fn every_shape_of_output_becomes_messages() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let text = |role: &str, text: &str| json!({ "role": role, "content": { "type": "text", "text": text } });
    let image = json!({
        "role": "user",
        "content": { "type": "image", "data": "AA==", "mimeType": "image/png" },
    });
    let cases = [
        (json!("Grüße"), json!([text("user", "Grüße")])),
        (json!({ "content": "Grüße" }), json!([text("user", "Grüße")])),
        (
            json!({ "messages": [
                { "role": "assistant", "content": "plain" },
                { "role": "user", "content": { "type": "text", "text": "block" } },
                image,
            ] }),
            json!([text("assistant", "plain"), text("user", "block"), image]),
        ),
        (json!({ "messages": [] }), json!([])),
    ];
    for (number, (output, _)) in cases.iter().enumerate() {
        let output = output.clone();
        worker.serve(&format!("p::h{number}"), move |_| Some(Ok(output.clone()))).await;
        prompt(&worker, &format!("p{number}"), &format!("p::h{number}"), json!([])).await;
    }
    for (kind, mut client) in every_kind(&server).await {
        for (number, (output, messages)) in cases.iter().enumerate() {
            let answer = client.ok("prompts/get", json!({ "name": format!("p{number}") })).await;
            assert_eq!(&answer["messages"], messages, "{kind} {output}");
            assert_eq!(answer["description"], "Does it.", "{kind}");
        }
    }
}

#[tokio::test]
async fn the_handler_receives_the_arguments() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let (sender, mut received) = tokio::sync::mpsc::unbounded_channel();
    worker
        .serve("p::handler", move |data| {
            sender.send(data).unwrap();
            Some(Ok(json!("ok")))
        })
        .await;
    prompt(&worker, "p", "p::handler", json!([{ "name": "to", "required": true }])).await;
    for (kind, mut client) in every_kind(&server).await {
        let arguments = json!({ "to": "ann", "more": "x" });
        client.ok("prompts/get", json!({ "name": "p", "arguments": arguments })).await;
        assert_eq!(next(&mut received).await, arguments, "{kind}");
    }
}

#[tokio::test]
async fn missing_arguments_are_named_and_the_handler_is_not_called() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let mut called = worker.collect("p::handler").await;
    let needs = json!([
        { "name": "to", "required": true },
        { "name": "cc" },
        { "name": "subject", "required": true },
    ]);
    prompt(&worker, "p", "p::handler", needs).await;
    worker.serve("p::other", |_| Some(Ok(json!("ok")))).await;
    prompt(&worker, "other", "p::other", json!([])).await;
    for (kind, mut client) in every_kind(&server).await {
        for (arguments, missing) in [
            (json!({}), json!(["to", "subject"])),
            (json!({ "to": "ann" }), json!(["subject"])),
            (json!({ "cc": "bob", "subject": "x" }), json!(["to"])),
        ] {
            let asked = json!({ "name": "p", "arguments": arguments });
            let refused = client.fails("prompts/get", asked).await;
            assert_eq!(refused.code, -32602, "{kind}: {refused:?}");
            assert_eq!(refused.data["missing"], missing, "{kind}");
            for name in missing.as_array().unwrap() {
                assert!(refused.message.contains(name.as_str().unwrap()), "{refused:?}");
            }
        }
        let refused = client.fails("prompts/get", json!({ "name": "p" })).await;
        assert_eq!(refused.data["missing"], json!(["to", "subject"]), "{kind}");
        // A call of the handler would have arrived before this answer.
        client.ok("prompts/get", json!({ "name": "other" })).await;
        assert_eq!(called.try_recv(), Err(TryRecvError::Empty), "{kind}");
    }
}

#[tokio::test]
async fn failures_have_distinct_codes_and_messages() {
    let server = TestServer::new();
    let worker = server.worker().await;
    prompt(&worker, "unserved", "p::nobody", json!([])).await;
    let thrown = CallFailure { code: "E42".into(), message: "no such recipient".into() };
    worker.serve("p::throws", move |_| Some(Err(thrown.clone()))).await;
    prompt(&worker, "throws", "p::throws", json!([])).await;
    let strange = json!({ "messages": [{ "role": "user", "content": { "type": "hologram" } }] });
    worker.serve("p::strange", move |_| Some(Ok(strange.clone()))).await;
    prompt(&worker, "strange", "p::strange", json!([])).await;
    for (kind, mut client) in every_kind(&server).await {
        for (name, code, words) in [
            ("nobody", -32602, "nobody"),
            ("unserved", -32603, "p::nobody is not registered"),
            ("throws", -32603, "no such recipient"),
            ("strange", -32603, "message 0 of strange"),
        ] {
            let refused = client.fails("prompts/get", json!({ "name": name })).await;
            assert_eq!(refused.code, code, "{kind} {name}: {refused:?}");
            assert!(refused.message.contains(words), "{kind} {name}: {refused:?}");
        }
    }
}
