//! Invalid input gets a code and a message of the contract, and nothing changes.

use serde_json::{Value, json};
use skills_testkit::Worker;
use tokio_tungstenite::tungstenite::Message;

use crate::support::{TestServer, ids, read, register};

/// Calls with input that must be refused, and checks that nothing changes.
async fn refused(worker: &Worker, function_id: &str, data: Value, code: &str, words: &str) {
    let failure = worker.fails(function_id, data.clone()).await;
    assert_eq!(failure.code, code, "{function_id} {data}: {}", failure.message);
    assert!(failure.message.contains(words), "{function_id} {data}: {}", failure.message);
}

fn skill(id: &str, body: &str) -> Value {
    json!({ "id": id, "skill": body })
}

fn prompt(name: &str, description: &str, function_id: &str, arguments: &Value) -> Value {
    json!({
        "name": name, "description": description, "function_id": function_id,
        "arguments": arguments,
    })
}

async fn check_nothing_is_registered(worker: &Worker) {
    assert_eq!(worker.ok("skills::list", json!({})).await, json!({ "skills": [] }));
    assert_eq!(worker.ok("prompts::list", json!({})).await, json!({ "prompts": [] }));
}

#[tokio::test]
async fn invalid_ids_are_refused() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let longest = "x".repeat(64);
    register(&worker, &longest, "x").await;
    assert_eq!(ids(&worker).await, [longest.as_str()]);
    worker.ok("skills::unregister", json!({ "id": longest })).await;
    let too_long = "x".repeat(65);
    for (id, words) in [
        ("", "id must be non-empty"),
        (too_long.as_str(), "id too long"),
        ("Upper", "lowercase"),
        ("a b", "lowercase"),
        ("a/b", "lowercase"),
        ("a::b", "lowercase"),
        ("a\0b", "lowercase"),
        ("ä", "lowercase"),
        ("../../etc/passwd", "lowercase"),
        ("skills", "reserved"),
    ] {
        refused(&worker, "skills::register", skill(id, "x"), "invalid_input", words).await;
        refused(&worker, "skills::unregister", json!({ "id": id }), "invalid_input", words).await;
        // Reading takes the id from a URI.
        if !["skills", "a/b", "../../etc/passwd"].contains(&id) {
            let uri = json!({ "uri": format!("iii://{id}") });
            refused(&worker, "skills::resources-read", uri, "invalid_input", words).await;
        }
    }
    check_nothing_is_registered(&worker).await;
}

#[tokio::test]
async fn invalid_bodies_are_refused() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let words = "skill must be non-empty";
    refused(&worker, "skills::register", skill("a", ""), "invalid_input", words).await;
    let large = skill("a", &"x".repeat(262_145));
    refused(&worker, "skills::register", large, "too_large", "too large").await;
    let huge = skill("a", &"x".repeat(10 << 20));
    refused(&worker, "skills::register", huge, "too_large", "too large").await;
    check_nothing_is_registered(&worker).await;
}

#[tokio::test]
async fn invalid_prompts_are_refused() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let none = json!([]);
    let long = "x".repeat(65);
    let large = "x".repeat(262_144);
    let cases = [
        (prompt("", "d", "a::b", &none), "invalid_input", "name must be non-empty"),
        (prompt(&long, "d", "a::b", &none), "invalid_input", "name too long"),
        (prompt("A", "d", "a::b", &none), "invalid_input", "lowercase"),
        (prompt("a\0", "d", "a::b", &none), "invalid_input", "lowercase"),
        (prompt("p", "", "a::b", &none), "invalid_input", "description must be non-empty"),
        (prompt("p", " \n\t", "a::b", &none), "invalid_input", "description must be non-empty"),
        (prompt("p", "d", "", &none), "invalid_input", "function_id must be non-empty"),
        (prompt("p", "d", "  ", &none), "invalid_input", "function_id must be non-empty"),
        (
            prompt("p", "d", "a::b", &json!([{ "name": "x" }, { "name": "x" }])),
            "invalid_input",
            "duplicate argument name",
        ),
        (
            prompt("p", "d", "a::b", &json!([{ "name": " " }])),
            "invalid_input",
            "argument name must be non-empty",
        ),
        (prompt("p", &large, "a::b", &none), "too_large", "too large"),
    ];
    for (data, code, words) in cases {
        refused(&worker, "prompts::register", data, code, words).await;
    }
    check_nothing_is_registered(&worker).await;
}

#[tokio::test]
async fn reserved_functions_cannot_back_sections_or_prompts() {
    let server = TestServer::new();
    let worker = server.worker().await;
    for function_id in [
        "engine::functions::list",
        "state::get",
        "stream::set",
        "iii.on_functions_available",
        "iii::x",
        "mcp::x",
        "a2a::x",
        "skills::register",
        "prompts::list",
        " state::get",
    ] {
        let (code, words) = ("reserved_function", "internal namespace");
        let uri = json!({ "uri": format!("iii://a/{function_id}") });
        refused(&worker, "skills::resources-read", uri, code, words).await;
        let prompt = prompt("p", "d", function_id, &json!([]));
        refused(&worker, "prompts::register", prompt, code, words).await;
    }
    check_nothing_is_registered(&worker).await;
}

#[tokio::test]
async fn malformed_uris_are_refused() {
    let server = TestServer::new();
    let worker = server.worker().await;
    for (uri, code, words) in [
        ("", "invalid_uri", "must start with iii://"),
        ("a", "invalid_uri", "must start with iii://"),
        ("http://a", "invalid_uri", "must start with iii://"),
        ("iii:/a", "invalid_uri", "must start with iii://"),
        ("iii://", "invalid_input", "id must be non-empty"),
        ("iii://a/b/c", "invalid_uri", "more than one path segment"),
        ("iii://a/../b", "invalid_uri", "more than one path segment"),
        ("iii://a/", "invalid_input", "function_id must be non-empty"),
        ("iii://nobody", "not_found", "skill not found: nobody"),
    ] {
        refused(&worker, "skills::resources-read", json!({ "uri": uri }), code, words).await;
    }
    let long = json!({ "uri": "x".repeat(1 << 20) });
    let failure = worker.fails("skills::resources-read", long).await;
    assert!(failure.message.len() < 300, "an error does not repeat a long URI");
}

#[tokio::test]
async fn missing_and_mistyped_fields_are_refused() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let good = prompt("p", "d", "a::b", &json!([]));
    let with = |key: &str, value: Value| {
        let mut data = good.clone();
        data[key] = value;
        data
    };
    for (function_id, data, words) in [
        ("skills::register", json!({}), "missing field `id`"),
        ("skills::register", json!({ "id": "a" }), "missing field `skill`"),
        ("skills::register", json!({ "id": "a", "skill": null }), "null"),
        ("skills::register", json!({ "id": 7, "skill": "x" }), "integer"),
        ("skills::register", json!({ "id": "a", "skill": ["x"] }), "sequence"),
        ("skills::register", json!([]), "expected an object"),
        ("skills::register", json!(["a", "body"]), "expected an object"),
        ("skills::register", json!("a"), "skills::register"),
        ("skills::unregister", json!({}), "missing field `id`"),
        ("skills::resources-read", json!({}), "missing field `uri`"),
        ("prompts::register", json!({ "name": "p", "description": "d" }), "missing field"),
        ("prompts::register", with("arguments", json!("x")), "sequence"),
        ("prompts::register", with("arguments", json!([{}])), "missing field `name`"),
        (
            "prompts::register",
            with("arguments", json!([{ "name": "x", "required": "yes" }])),
            "boolean",
        ),
        ("prompts::unregister", json!({ "id": "p" }), "missing field `name`"),
        ("prompts::mcp-get", json!({ "arguments": {} }), "missing field `name`"),
    ] {
        refused(&worker, function_id, data, "invalid_input", words).await;
    }
    check_nothing_is_registered(&worker).await;
}

/// Calls without a `data` field, which the protocol allows.
async fn call_without_data(server: &TestServer, function_id: &str) -> Value {
    let mut peer = skills_testkit::Peer::connect(&server.process.url).await;
    let id = "0b5e7c0e-6d3c-4b5e-9a39-3c2f0c6d6f11";
    let call = json!({
        "type": "invokefunction", "invocation_id": id, "function_id": function_id,
    });
    peer.send_raw(Message::text(call.to_string())).await;
    let answer = peer.next_of_type("invocationresult").await;
    assert_eq!(answer["invocation_id"], id);
    answer
}

#[tokio::test]
async fn null_and_absent_data_are_read_as_an_empty_object() {
    let server = TestServer::new();
    let worker = server.worker().await;
    for function_id in [
        "skills::list",
        "skills::resources-list",
        "skills::resources-templates",
        "prompts::list",
        "prompts::mcp-list",
    ] {
        let expected = worker.ok(function_id, json!({})).await;
        assert_eq!(worker.ok(function_id, Value::Null).await, expected, "{function_id}");
        let answer = call_without_data(&server, function_id).await;
        assert_eq!(answer["result"], expected, "{function_id}");
    }
    for function_id in [
        "skills::register",
        "skills::unregister",
        "skills::resources-read",
        "prompts::register",
        "prompts::unregister",
        "prompts::mcp-get",
    ] {
        refused(&worker, function_id, Value::Null, "invalid_input", function_id).await;
        let answer = call_without_data(&server, function_id).await;
        assert_eq!(answer["error"]["code"], "invalid_input", "{answer}");
    }
    check_nothing_is_registered(&worker).await;
}

#[tokio::test]
async fn missing_entries_are_not_found() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let gone = json!({ "name": "nobody", "arguments": {} });
    refused(&worker, "prompts::mcp-get", gone, "not_found", "prompt not found: nobody").await;
    let removed = worker.ok("prompts::unregister", json!({ "name": "nobody" })).await;
    assert_eq!(removed, json!({ "name": "nobody", "removed": false }));
    let nowhere = worker.fails("skills::nothing", json!({})).await;
    assert_eq!(nowhere.code, "function_not_found");
}

#[tokio::test]
async fn a_refusal_keeps_existing_entries() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let registered_at = register(&worker, "a", "kept").await;
    refused(&worker, "skills::register", skill("a", ""), "invalid_input", "non-empty").await;
    let large = skill("a", &"x".repeat(262_145));
    refused(&worker, "skills::register", large, "too_large", "too large").await;
    assert_eq!(read(&worker, "iii://a").await, "kept");
    let row = json!({ "id": "a", "bytes": 4, "registered_at": registered_at });
    assert_eq!(worker.ok("skills::list", json!({})).await, json!({ "skills": [row] }));
}
