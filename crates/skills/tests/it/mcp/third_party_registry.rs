//! A third-party registry: a worker that serves the contract and nothing else, on a bare bus.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};
use skills_testkit::{CallFailure, Worker};

use crate::support::{
    engine::{EngineOptions, TestEngine},
    mcp_clients::{Client, Pipe},
    wait::eventually,
};

type Bodies = Arc<Mutex<BTreeMap<String, String>>>;

/// Third-party registry without error codes and titles, and with another timestamp format.
struct ThirdPartyRegistry {
    worker: Worker,
    bodies: Bodies,
}

fn error(message: &str) -> CallFailure {
    CallFailure { code: "invocation_failed".into(), message: message.into() }
}

fn text(data: &Value, key: &str) -> String {
    data[key].as_str().unwrap_or_default().to_owned()
}

impl ThirdPartyRegistry {
    async fn on(engine: &TestEngine) -> Self {
        let worker = engine.worker().await;
        let bodies = Bodies::default();
        for kind in ["skills::on-change", "prompts::on-change"] {
            worker.send(&json!({ "type": "registertriggertype", "id": kind, "description": "d" }));
        }
        let moment = "2026-05-04 12:00";
        let all = Arc::clone(&bodies);
        worker
            .serve("skills::list", move |_| {
                let all = all.lock().unwrap();
                let row = |(id, body): (&String, &String)| json!({ "id": id, "bytes": body.len(), "registered_at": moment });
                Some(Ok(json!({ "skills": all.iter().map(row).collect::<Vec<_>>() })))
            })
            .await;
        let all = Arc::clone(&bodies);
        worker
            .serve("skills::resources-list", move |_| {
                let all = all.lock().unwrap();
                let row = |id: &String| json!({ "uri": format!("iii://{id}"), "name": id, "mimeType": "text/markdown" });
                Some(Ok(json!({ "resources": all.keys().map(row).collect::<Vec<_>>() })))
            })
            .await;
        let all = Arc::clone(&bodies);
        worker
            .serve("skills::resources-read", move |data| {
                let uri = text(&data, "uri");
                let found = all.lock().unwrap().get(uri.trim_start_matches("iii://")).cloned();
                Some(match found {
                    Some(text) => Ok(json!({ "contents": [
                        { "uri": uri, "mimeType": "text/markdown", "text": text },
                    ] })),
                    None => Err(error("Skill not found")),
                })
            })
            .await;
        worker
            .serve("prompts::list", move |_| {
                Some(Ok(json!({ "prompts": [
                    { "name": "p", "function_id": "p::h", "arguments": 1, "registered_at": moment },
                ] })))
            })
            .await;
        worker
            .serve("prompts::mcp-list", |_| {
                Some(Ok(json!({ "prompts": [{
                    "name": "p", "description": "Does it.",
                    "arguments": [{ "name": "to", "required": true }],
                }] })))
            })
            .await;
        worker
            .serve("prompts::mcp-get", |data| {
                let message = json!({
                    "role": "user",
                    "content": { "type": "text", "text": format!("to {}", data["arguments"]["to"]) },
                });
                Some(Ok(json!({ "description": "Does it.", "messages": [message] })))
            })
            .await;
        // The remaining functions of the contract, which reading does not need.
        for unused in [
            "skills::register",
            "skills::unregister",
            "skills::resources-templates",
            "prompts::register",
            "prompts::unregister",
        ] {
            worker.serve(unused, |_| Some(Err(error("not in this test")))).await;
        }
        Self { worker, bodies }
    }

    /// Waits for a subscription to skill changes and returns its function.
    async fn subscriber(&mut self) -> String {
        loop {
            let frame = self.worker.frame("registertrigger").await;
            if frame["trigger_type"] == "skills::on-change" {
                return text(&frame, "function_id");
            }
        }
    }

    fn put(&self, id: &str, body: &str) {
        self.bodies.lock().unwrap().insert(id.to_owned(), body.to_owned());
    }

    fn notify(&self, subscriber: &str, id: &str) {
        self.worker.send(&json!({
            "type": "invokefunction", "function_id": subscriber, "action": { "type": "void" },
            "data": { "op": "register", "id": id },
        }));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn content_and_changes_of_a_third_party_registry_are_served() {
    let engine =
        TestEngine::with_options(EngineOptions { stateless: true, ..EngineOptions::default() })
            .await;
    let mut make = ThirdPartyRegistry::on(&engine).await;
    make.put("brain", "# Brain\n");
    let pipe = Pipe::session(&["--url", &engine.url()], "2025-06-18").await;
    let mut client = Client::Pipe(pipe);
    let list = client.ok("resources/list", json!({})).await;
    let rows = list["resources"].as_array().unwrap();
    assert_eq!((rows.len(), &rows[1]["uri"]), (2, &json!("iii://brain")));
    assert_eq!(rows[1]["size"], "# Brain\n".len());
    assert_eq!(rows[1]["title"], "brain", "without a title it is the id");
    assert_eq!(client.read("iii://brain").await, "# Brain\n");
    let refused = client.fails("resources/read", json!({ "uri": "iii://nobody" })).await;
    assert_eq!(refused.code, -32002, "{refused:?}");

    let skills = client.ok("skills/list", json!({})).await;
    let file = &skills["skills"][0]["resources"][0];
    let read = client.read("skill://brain/SKILL.md").await;
    assert_eq!(file["size"], read.len(), "{skills}");

    let prompts = client.ok("prompts/list", json!({})).await;
    assert_eq!(prompts["prompts"][0]["arguments"][0]["name"], "to");
    let refused = client.fails("prompts/get", json!({ "name": "p" })).await;
    assert_eq!((refused.code, &refused.data["missing"]), (-32602, &json!(["to"])));
    let got = client.ok("prompts/get", json!({ "name": "p", "arguments": { "to": "ann" } })).await;
    assert_eq!(got["messages"][0]["content"]["text"], "to \"ann\"");

    client.ok("resources/subscribe", json!({ "uri": "iii://new" })).await;
    let subscriber = make.subscriber().await;
    make.put("new", "# New\n");
    make.notify(&subscriber, "new");
    let Client::Pipe(mut pipe) = client else { panic!() };
    // The reconnection notifies too, perhaps only now.
    loop {
        let received = pipe.message().await;
        if received["method"] != "notifications/resources/updated" {
            continue;
        }
        assert_eq!(received["params"]["uri"], "iii://new");
        let list = pipe.ask("resources/list", &json!({})).await;
        if list["result"]["resources"].as_array().unwrap().len() == 3 {
            break;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_third_party_registry_may_start_after_the_bus() {
    let engine =
        TestEngine::with_options(EngineOptions { stateless: true, ..EngineOptions::default() })
            .await;
    let mut client = Client::Pipe(Pipe::session(&["--url", &engine.url()], "2025-06-18").await);
    let refused = client.fails("resources/list", json!({})).await;
    assert_eq!(refused.code, -32603, "{refused:?}");
    assert_eq!(refused.data["code"], "function_not_found", "{refused:?}");
    assert_eq!(client.tools().await.len(), 3, "what needs no registry is there");
    let mut make = ThirdPartyRegistry::on(&engine).await;
    // Reads may have happened already, so notify again.
    let subscriber = make.subscriber().await;
    make.put("brain", "# Brain\n");
    make.notify(&subscriber, "brain");
    eventually("what it has", async || {
        let list = client.ok("resources/list", json!({})).await;
        list["resources"][1]["uri"] == "iii://brain"
    })
    .await;
}
