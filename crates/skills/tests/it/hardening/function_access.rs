//! Readers reach only functions that are exposed to them.

use serde_json::{Value, json};
use skills_testkit::{CallFailure, Worker, next};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::support::{
    TestServer,
    mcp_clients::{Client, every_kind, session},
    read, read_error, register,
    wait::eventually,
};

/// Serves a function with metadata and returns a channel of its calls.
async fn serve(worker: &Worker, id: &str, about: Value) -> UnboundedReceiver<Value> {
    let calls = worker.collect(id).await;
    let mut frame = json!({ "type": "registerfunction", "id": id });
    frame.as_object_mut().unwrap().extend(about.as_object().unwrap().clone());
    worker.send(&frame);
    worker.flush().await;
    calls
}

fn exposed() -> Value {
    json!({ "mcp": { "expose": true } })
}

async fn prompt(worker: &Worker, name: &str, function_id: &str) {
    let description = "Renders.";
    let prompt = json!({ "name": name, "description": description, "function_id": function_id });
    worker.ok("prompts::register", prompt).await;
}

async fn refused(client: &mut Client, uri: &str) -> (i64, Value) {
    let refusal = client.fails("resources/read", json!({ "uri": uri })).await;
    (refusal.code, refusal.data)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn private_functions_cannot_be_called_by_readers() {
    for config in ["", "sections: any\n"] {
        let server = TestServer::with_config(config);
        let owner = server.worker().await;
        let about = json!({ "private": true, "metadata": exposed() });
        let mut calls = serve(&owner, "billing::wipe", about).await;
        register(&owner, "any", "# Any\n\nSee iii://any/billing::wipe.\n").await;
        prompt(&owner, "wipe", "billing::wipe").await;
        for (kind, mut client) in every_kind(&server).await {
            let (_, data) = refused(&mut client, "iii://any/billing::wipe").await;
            assert_eq!(data["code"], "private_function", "{kind}: {data}");
            let arguments = json!({ "name": "wipe", "arguments": { "all": "true" } });
            let refusal = client.fails("prompts/get", arguments).await;
            assert_eq!(refusal.data["code"], "private_function", "{kind}: {refusal:?}");
            let tools = client.tools().await;
            assert!(!tools.contains(&"billing__wipe".to_owned()), "{kind}: {tools:?}");
            client.fails("tools/call", json!({ "name": "billing__wipe" })).await;
        }
        let other = server.worker().await;
        for reader in [&other, &owner] {
            let failure = read_error(reader, "iii://any/billing::wipe").await;
            assert_eq!(failure.code, "private_function", "{config:?}");
            let failure = reader.fails("prompts::mcp-get", json!({ "name": "wipe" })).await;
            assert_eq!(failure.code, "private_function", "{config:?}");
        }
        let CallFailure { code, .. } = other.fails("billing::wipe", json!({})).await;
        assert_eq!(code, "FORBIDDEN", "{config}");
        assert!(calls.try_recv().is_err(), "it was called");
        owner.ok("billing::wipe", json!({ "own": true })).await;
        assert_eq!(next(&mut calls).await["own"], true, "its owner calls it");
    }
}

/// Observes `skills::on-change` for a function.
async fn observe(worker: &Worker, id: &str, target: &str) {
    worker.send(&json!({
        "type": "observe", "id": id, "target": { "function_id": target },
        "source": { "function_id": "skills::on-change", "deliver": "input" },
    }));
    worker.flush().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subscriptions_of_other_workers_do_not_reach_private_functions() {
    let server = TestServer::new();
    let owner = server.worker().await;
    let mut calls = serve(&owner, "billing::wipe", json!({ "private": true })).await;
    let attacker = server.worker().await;
    let mut notified = attacker.collect("attacker::notified").await;
    for function in ["billing::wipe", "attacker::notified"] {
        attacker.subscribe("skills::on-change", function, json!({})).await;
        attacker.subscribe("state", function, json!({})).await;
    }
    observe(&attacker, "o1", "billing::wipe").await;
    let payload = json!({ "scope": "s", "key": "k", "value": { "wipe": true } });
    attacker.ok("state::set", payload).await;
    register(&attacker, "a", "# A\n").await;
    for _ in 0..2 {
        next(&mut notified).await;
    }
    assert!(calls.try_recv().is_err(), "it was called");
    owner.subscribe("skills::on-change", "billing::wipe", json!({})).await;
    register(&attacker, "b", "# B\n").await;
    let mut call = next(&mut calls).await;
    // A function has one task for all its subscriptions, which may reach the change of `a` only now.
    if call == json!({ "op": "register", "id": "a" }) {
        call = next(&mut calls).await;
    }
    assert_eq!(call, json!({ "op": "register", "id": "b" }), "its owner's");
    next(&mut notified).await;
    let payload = json!({ "scope": "s", "key": "k", "value": { "wipe": "again" } });
    attacker.ok("state::set", payload).await;
    next(&mut notified).await;
    register(&attacker, "c", "# C\n").await;
    next(&mut notified).await;
    let call = next(&mut calls).await;
    assert_eq!(call, json!({ "op": "register", "id": "c" }), "another subscription of its owner");
    assert!(calls.try_recv().is_err(), "it was called");
}

/// A subscription has no caller, and once passed for the process itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subscriptions_do_not_call_functions_of_the_server() {
    let server = TestServer::new();
    let mut attacker = server.worker().await;
    let line = json!({ "key": "skill:official:planted", "value": "# Planted\n" });
    let import = json!({ "lines": [[1, line.to_string()]], "user": "root" });
    assert_eq!(attacker.fails("skills::import", import.clone()).await.code, "FORBIDDEN");
    let mut events = attacker.collect("attacker::changed").await;
    attacker.subscribe("skills::on-change", "attacker::changed", json!({})).await;
    attacker.serve("attacker::bait", |_| Some(Ok(json!({})))).await;
    for (id, target) in [("o1", "skills::import"), ("o2", "engine::workers::list")] {
        attacker.send(&json!({
            "type": "observe", "id": id, "target": { "function_id": target },
            "source": { "function_id": "attacker::bait", "deliver": "input" },
        }));
        let refusal = attacker.frame("observeresult").await;
        assert_eq!(refusal["error"]["code"], "reserved_function", "{refusal}");
    }
    for (id, kind, config) in [
        ("t1", "state", json!({})),
        ("t2", "skills::on-change", json!({})),
        ("t3", "state", json!({ "condition_function_id": "skills::import" })),
    ] {
        let target = if id == "t3" { "attacker::bait" } else { "skills::import" };
        attacker.send(&json!({
            "type": "registertrigger", "id": id, "trigger_type": kind, "function_id": target,
            "config": config,
        }));
        if id != "t3" {
            let refusal = attacker.frame("triggerregistrationresult").await;
            assert_eq!(refusal["error"]["code"], "reserved_function", "{refusal}");
        }
    }
    attacker.ok("attacker::bait", import.clone()).await;
    attacker.ok("state::set", json!({ "scope": "s", "key": "k", "value": import })).await;
    register(&attacker, "later", "# Later\n").await;
    assert_eq!(next(&mut events).await, json!({ "op": "register", "id": "later" }));
    assert_eq!(read_error(&attacker, "iii://planted").await.code, "not_found");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subscriptions_of_other_workers_do_not_suppress_private_functions() {
    let server = TestServer::new();
    let (owner, attacker) = (server.worker().await, server.worker().await);
    // Created before the function exists, and with an id that sorts first.
    observe(&attacker, "0", "billing::audit").await;
    attacker.subscribe_as("0", "skills::on-change", "billing::audit", json!({})).await;
    attacker.subscribe_as("1", "state", "billing::audit", json!({})).await;
    let mut calls = serve(&owner, "billing::audit", json!({ "private": true })).await;
    observe(&owner, "z", "billing::audit").await;
    for id in ["a", "b"] {
        attacker
            .ok("state::set", json!({ "scope": "s", "key": id, "value": { "wipe": true } }))
            .await;
        register(&attacker, id, "# A\n").await;
        assert_eq!(next(&mut calls).await, json!({ "op": "register", "id": id }), "{id}");
    }
    assert!(calls.try_recv().is_err(), "what the attacker asked for was delivered");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_private_condition_is_called_for_its_owner_only() {
    let server = TestServer::new();
    let (owner, attacker) = (server.worker().await, server.worker().await);
    let (sender, mut asked) = tokio::sync::mpsc::unbounded_channel();
    let is_due = move |data: Value| {
        sender.send(data).unwrap();
        Some(Ok(json!(true)))
    };
    owner.serve("billing::is-due", is_due).await;
    owner.send(&json!({ "type": "registerfunction", "id": "billing::is-due", "private": true }));
    owner.flush().await;
    let mut due = owner.collect("billing::due").await;
    let mut notified = attacker.collect("attacker::notified").await;
    let config = |key: &str| json!({ "key": key, "condition_function_id": "billing::is-due" });
    attacker.subscribe("state", "attacker::notified", config("theirs")).await;
    attacker.subscribe("state", "attacker::notified", json!({ "key": "last" })).await;
    owner.subscribe("state", "billing::due", config("own")).await;
    for key in ["theirs", "own", "last"] {
        attacker.ok("state::set", json!({ "scope": "s", "key": key, "value": 1 })).await;
    }
    assert_eq!(next(&mut asked).await["key"], "own");
    assert_eq!(next(&mut due).await["key"], "own");
    assert_eq!(next(&mut notified).await["key"], "last");
    assert!(asked.try_recv().is_err(), "another worker's subscription called it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_section_is_called_only_if_linked_or_exposed() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let mut wipe = serve(&worker, "billing::wipe", json!({})).await;
    worker.serve("brain::notes", |_| Some(Ok(json!("# Notes\n")))).await;
    let _shown = serve(&worker, "brain::shown", json!({ "metadata": exposed() })).await;
    register(&worker, "brain", "# Brain\n\nSee [notes](iii://brain/brain::notes).\n").await;
    register(&worker, "other", "# Other\n\nSee iii://brain/billing::wipe.\n").await;
    for (kind, mut client) in every_kind(&server).await {
        assert_eq!(client.read("iii://brain/brain::notes").await, "# Notes\n", "{kind}");
        client.ok("resources/read", json!({ "uri": "iii://any/brain::shown" })).await;
        let not_found = if client.is_stateless() { -32602 } else { -32002 };
        for uri in [
            "iii://any/billing::wipe",
            "iii://brain/billing::wipe",
            "iii://other/billing::wipe",
            "iii://other/brain::notes",
            "iii://brain/brain::not",
        ] {
            let (code, data) = refused(&mut client, uri).await;
            assert_eq!((code, &data["code"]), (not_found, &json!("section_not_linked")), "{kind}");
        }
        let result = client.call("read_skill", json!({ "uri": "iii://any/billing::wipe" })).await;
        assert_eq!(result["isError"], true, "{kind}: {result}");
    }
    let (_, data) = refused(&mut session(&server).await, "iii://any/billing::wipe").await;
    assert!(data["hint"].as_str().unwrap().contains("sections: any"), "{data}");
    assert!(wipe.try_recv().is_err(), "it was called");
    read(&worker, "iii://any/brain::notes").await;
    register(&worker, "brain", "# Brain\n").await;
    let (_, data) = refused(&mut session(&server).await, "iii://brain/brain::notes").await;
    assert_eq!(data["code"], "section_not_linked", "the link is gone");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_configuration_can_allow_sections_of_any_function() {
    let server = TestServer::with_config("sections: any\n");
    let worker = server.worker().await;
    worker.serve("brain::notes", |_| Some(Ok(json!("# Notes\n")))).await;
    assert_eq!(session(&server).await.read("iii://any/brain::notes").await, "# Notes\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forged_caller_id_does_not_reach_a_function() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let mut calls = serve(&worker, "brain::ask", json!({ "metadata": exposed() })).await;
    prompt(&worker, "ask", "brain::ask").await;
    let forged = json!({ "_caller_worker_id": "admin", "q": "1" });
    let get = json!({ "name": "ask", "arguments": forged });
    for (kind, mut client) in every_kind(&server).await {
        client.ask("prompts/get", get.clone()).await;
        let rendered = next(&mut calls).await;
        assert_eq!(rendered, json!({ "q": "1" }), "{kind}");
        // Tools follow the functions of the bus with a delay.
        let is_listed = async || client.tools().await.contains(&"brain__ask".to_owned());
        eventually(&format!("the tool of brain::ask, {kind}"), is_listed).await;
        client.ask("tools/call", json!({ "name": "brain__ask", "arguments": forged })).await;
        let called = next(&mut calls).await;
        assert_eq!(called["q"], "1", "{kind}");
        assert_ne!(called["_caller_worker_id"], "admin", "{kind}");
    }
    let other = server.worker().await;
    let answer = other.call("prompts::mcp-get", get).await;
    // The function answers with no prompt, which fails after it was called.
    assert_eq!(
        answer.as_ref().map_err(|failure| &*failure.code),
        Err("handler_output"),
        "{answer:?}"
    );
    assert_eq!(next(&mut calls).await, json!({ "q": "1" }), "the bus");
}
