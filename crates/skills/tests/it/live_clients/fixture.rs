//! A live client with every kind of descriptor.

use serde_json::{Value, json};
use skills_testkit::{
    Worker,
    mdp::{Client, ok},
};
use tokio::task::JoinHandle;

use crate::support::{TestServer, ids, wait::eventually};

pub(crate) const REVIEW: &str = "desk/workspace/review/skill.md";

/// Connected live client; dropping it disconnects.
pub(crate) struct LiveClient(JoinHandle<()>);

impl Drop for LiveClient {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn paths() -> Value {
    json!([
        { "type": "skill", "path": "/skill.md", "description": "What the desk is for." },
        { "type": "skill", "path": "/workspace/review/skill.md", "description": "Review\n a change." },
        { "type": "skill", "path": "/workspace/review/files/skill.md", "title": "Files" },
        { "type": "skill", "path": "/goods/:sku/skill.md" },
        {
            "type": "prompt", "path": "/greet/prompt.md", "description": "Greet somebody.",
            "inputSchema": { "properties": { "who": { "description": "Whom" } }, "required": ["who"] },
        },
        { "type": "endpoint", "path": "/echo", "method": "POST" },
        { "type": "endpoint", "path": "/fail", "method": "GET" },
    ])
}

fn answer(call: &Value) -> Value {
    let path = call["path"].as_str().unwrap();
    match path {
        "/echo" => ok(json!({ "body": call["body"], "headers": call["headers"] })),
        "/fail" => {
            json!({ "ok": false, "error": { "code": "handler_error", "message": "it broke" } })
        }
        "/greet/prompt.md" => {
            let text = format!("Say hello to {}.", call["query"]["who"].as_str().unwrap());
            ok(json!({ "messages": [{ "role": "user", "content": text }] }))
        }
        path => ok(format!("# {path}\n\n{}\n", call["params"])),
    }
}

/// Connects a client and waits until its skills are listed.
pub(crate) async fn connect(server: &TestServer, id: &str) -> LiveClient {
    let url = server.process.http.replace("http://", "ws://");
    let client = Client::connect_registered(&url, id, paths()).await;
    let desk = LiveClient(client.serve_calls(answer));
    let worker = server.worker().await;
    wait_until_listed(&worker, &format!("{id}/skill.md"), true).await;
    desk
}

/// Waits until a live skill is listed, or no longer listed.
pub(crate) async fn wait_until_listed(worker: &Worker, id: &str, wanted: bool) {
    eventually(&format!("{id} listed: {wanted}"), async || {
        ids(worker).await.iter().any(|listed| listed == id) == wanted
    })
    .await;
}
