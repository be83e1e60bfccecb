//! `completion/complete`.

use serde_json::{Value, json};

use crate::{
    mcp::many,
    support::{
        TestServer,
        mcp_clients::{Client, every_kind, session},
        register,
    },
};

async fn complete(client: &mut Client, reference: &Value, name: &str, typed: &str) -> Value {
    let params = json!({ "ref": reference, "argument": { "name": name, "value": typed } });
    client.ok("completion/complete", params).await["completion"].take()
}

fn template(uri: &str) -> Value {
    json!({ "type": "ref/resource", "uri": uri })
}

#[tokio::test]
async fn template_ids_are_completed() {
    let server = TestServer::new();
    let worker = server.worker().await;
    for id in ["brain", "brain-two", "bridge", "zebra"] {
        register(&worker, id, "# X\n").await;
    }
    for (kind, mut client) in every_kind(&server).await {
        for uri in ["iii://{id}", "iii://{id}/{function_id}"] {
            for (typed, values) in [
                ("br", json!(["brain", "brain-two", "bridge"])),
                ("brain", json!(["brain", "brain-two"])),
                ("zebra", json!(["zebra"])),
                // No id begins with it, and a search finds their titles.
                ("x", json!(["brain", "brain-two", "bridge", "zebra"])),
                ("qqq", json!([])),
            ] {
                let completion = complete(&mut client, &template(uri), "id", typed).await;
                assert_eq!(completion["values"], values, "{kind} {uri} {typed}");
                assert_eq!(completion["hasMore"], false, "{kind}");
            }
        }
    }
}

#[tokio::test]
async fn at_most_a_hundred_values_are_returned() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let skill = |number: usize| json!({ "id": format!("s{number}"), "skill": "# X\n" });
    many(&worker, "skills::register", (0..101).map(skill)).await;
    let mut client = session(&server).await;
    let completion = complete(&mut client, &template("iii://{id}"), "id", "").await;
    assert_eq!(completion["values"].as_array().unwrap().len(), 100);
    assert_eq!(completion["hasMore"], true);
}

#[tokio::test]
async fn functions_of_the_chosen_skill_are_completed() {
    let server = TestServer::new();
    let body = "# Brain\n\niii://brain/brain::notes iii://brain/brain::facts iii://other/o::p\n";
    register(&server.worker().await, "brain", body).await;
    for (kind, mut client) in every_kind(&server).await {
        for (context, typed, values) in [
            (
                json!({ "arguments": { "id": "brain" } }),
                "",
                json!(["brain::facts", "brain::notes"]),
            ),
            (json!({ "arguments": { "id": "brain" } }), "brain::n", json!(["brain::notes"])),
            (json!({ "arguments": { "id": "nobody" } }), "", json!([])),
            (json!({}), "", json!([])),
        ] {
            let params = json!({
                "ref": template("iii://{id}/{function_id}"),
                "argument": { "name": "function_id", "value": typed },
                "context": context,
            });
            let answer = client.ok("completion/complete", params).await;
            assert_eq!(answer["completion"]["values"], values, "{kind} {context}");
        }
    }
}

#[tokio::test]
async fn prompt_arguments_are_completed() {
    let server = TestServer::new();
    let worker = server.worker().await;
    register(&worker, "brain", "# Brain\n").await;
    let arguments = json!([
        { "name": "skill", "required": true },
        { "name": "length", "description": "One of short|medium|long." },
        { "name": "free" },
    ]);
    let definition = json!({
        "name": "p", "description": "d", "arguments": arguments, "function_id": "a::b",
    });
    worker.ok("prompts::register", definition).await;
    let prompt = json!({ "type": "ref/prompt", "name": "p" });
    for (kind, mut client) in every_kind(&server).await {
        for (name, typed, values) in [
            ("skill", "br", json!(["brain"])),
            ("length", "", json!(["short", "medium", "long"])),
            ("length", "m", json!(["medium"])),
            ("free", "x", json!([])),
        ] {
            let completion = complete(&mut client, &prompt, name, typed).await;
            assert_eq!(completion["values"], values, "{kind} {name} {typed}");
        }
    }
}

#[tokio::test]
async fn unknown_references_cannot_be_completed() {
    let server = TestServer::new();
    let definition = json!({ "name": "p", "description": "d", "function_id": "a::b" });
    server.worker().await.ok("prompts::register", definition).await;
    let prompt = |name: &str| json!({ "type": "ref/prompt", "name": name });
    for (kind, mut client) in every_kind(&server).await {
        for (reference, name) in [
            (prompt("nobody"), "x"),
            (prompt("p"), "x"),
            (template("iii://{other}"), "id"),
            (template("iii://{id}"), "function_id"),
            (template("iii://{id}/{function_id}"), "x"),
            (json!({ "type": "ref/other", "name": "p" }), "x"),
        ] {
            let params = json!({ "ref": reference, "argument": { "name": name, "value": "" } });
            let refused = client.fails("completion/complete", params).await;
            assert_eq!(refused.code, -32602, "{kind} {reference} {name}: {refused:?}");
        }
    }
}
