//! A live client with one of everything.

use serde_json::{Value, json};
use skills_testkit::{
    Worker,
    mdp::{Client, ok},
};
use tokio::task::JoinHandle;

use crate::{
    clients::eventually,
    support::{Home, ids},
};

pub(crate) const REVIEW: &str = "desk/workspace/review/skill.md";

/// Dropping it takes the client away.
pub(crate) struct Desk(JoinHandle<()>);

impl Drop for Desk {
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

/// Connects under an id, and returns when everyone can see it.
pub(crate) async fn connect(home: &Home, id: &str) -> Desk {
    let url = home.server.http.replace("http://", "ws://");
    let client = Client::registered(&url, id, paths()).await;
    let desk = Desk(client.serving(answer));
    let worker = home.worker().await;
    is_listed(&worker, &format!("{id}/skill.md"), true).await;
    desk
}

/// Waits until a live skill is listed, or is not.
pub(crate) async fn is_listed(worker: &Worker, id: &str, wanted: bool) {
    eventually(&format!("{id} listed: {wanted}"), async || {
        ids(worker).await.iter().any(|listed| listed == id) == wanted
    })
    .await;
}
