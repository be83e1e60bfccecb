//! The gateway of a worker that is attached to an engine.

use std::{net::SocketAddr, process::Command};

use serde_json::{Value, json};
use skills_testkit::{Answer, Request};

use crate::{
    attached::{Attached, eventually, serves},
    engine::Engine,
    settings::{free_address, status},
    support::register,
    upstream::Upstream,
};

const ADMIN: &str = "an-administrators-secret-0123456789";
const LIMIT: u64 = 1000;

/// A worker with a gateway, and asking it.
struct House {
    address: SocketAddr,
    upstream: Upstream,
    url: String,
}

impl House {
    fn new(engine: &Engine) -> Self {
        Self { address: free_address(), upstream: Upstream::start(), url: engine.url() }
    }

    fn config(&self, store: &str) -> String {
        let Self { address, upstream, .. } = self;
        format!(
            "http: {address}\nstore: {store}\nlimits: {{FREE: {LIMIT}}}\n\
             execution: {{allow_upstream: ['{}']}}\n",
            upstream.origin
        )
    }

    fn start(&self, command: &mut Command) {
        command.args(["--url", &self.url]).env("ADMIN_KEY", ADMIN);
    }

    async fn ready(&self) {
        eventually("it is ready", async || status(self.address, "/readyz") == Some(200)).await;
    }

    fn ask(&self, key: Option<&str>, method: &str, target: &str, body: &Value) -> Answer {
        let mut request = Request::new(method, target);
        if let Some(key) = key {
            request = request.header("Authorization", &format!("Bearer {key}"));
        }
        if !body.is_null() {
            request = request.header("Content-Type", "application/json").body(body.to_string());
        }
        request.send(&format!("http://{}", self.address))
    }

    fn sync(&self, status: &str) -> Answer {
        let endpoint = format!("{}/{status}", self.upstream.origin);
        let manifest = json!({
            "id": "plain",
            "meta": { "name": "Plain", "parameters": { "type": "object", "properties": {} } },
            "config": { "endpoint": endpoint, "method": "GET" },
        });
        let body = json!({
            "user_uid": "ann", "skill_name": "plain", "status": status, "manifest": manifest,
        });
        self.ask(Some(ADMIN), "POST", "/v1/admin/sync_skill", &body)
    }

    fn key(&self) -> String {
        let made = self.ask(Some(ADMIN), "POST", "/v1/admin/keys", &json!({ "user_uid": "ann" }));
        assert_eq!(made.status, 201, "{}", made.json());
        made.json()["key"].as_str().unwrap().to_owned()
    }

    fn execute(&self, key: &str) -> Answer {
        self.ask(Some(key), "POST", "/v1/execute/plain", &json!({ "payload": {} }))
    }
}

fn left(answer: &Answer) -> (u64, u64) {
    let number = |name: &str| answer.header(name).unwrap().parse().unwrap();
    (number("X-RateLimit-Reset"), number("X-RateLimit-Remaining"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_serves_all_tiers_and_remembers_uses_over_a_restart() {
    let engine = Engine::start().await;
    let house = House::new(&engine);
    let mut attached = Attached::with(&house.config("embedded"), |command| house.start(command));
    house.ready().await;
    let worker = engine.worker().await;
    serves(&worker).await;
    let ann = house.key();
    for (status, target) in
        [("market", "/market"), ("official", "/official"), ("private", "/private")]
    {
        assert_eq!(house.sync(status).status, 200, "{status}");
        let called = house.execute(&ann);
        assert_eq!(called.json()["data"]["target"], target, "{}", called.json());
    }
    let shown = house.ask(None, "GET", "/v1/skills/plain?explain=1", &Value::Null).json();
    assert_eq!(
        (&shown["source"], &shown["explain"]["shadows"][0]["tier"]),
        (&json!("official"), &json!("market"))
    );
    let called = worker.ok("skills::execute", json!({ "id": "plain", "key": ann })).await;
    assert_eq!(called["data"]["target"], "/private");
    // A minute may end in between; then there is nothing to remember.
    loop {
        let (minute, before) = left(&house.execute(&ann));
        assert!(before < LIMIT, "it is counted");
        let (home, _) = attached.stop().await;
        attached = Attached::at(home, |command| house.start(command));
        house.ready().await;
        let (now, after) = left(&house.ask(Some(&ann), "GET", "/v1/skills", &Value::Null));
        if now == minute {
            assert_eq!(after, before, "what was used is used");
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_the_content_in_the_engines_state_there_is_one_tier() {
    let engine = Engine::start().await;
    let house = House::new(&engine);
    let _attached = Attached::with(&house.config("state"), |command| house.start(command));
    house.ready().await;
    let worker = engine.worker().await;
    serves(&worker).await;
    register(&worker, "a", "# A").await;
    let ann = house.key();
    let shown = house.ask(Some(&ann), "GET", "/v1/skills/a", &Value::Null).json();
    assert_eq!(
        (&shown["source"], &shown["spec"]["docs"]["full_md"]),
        (&json!("official"), &json!("# A"))
    );
    for status in ["private", "market"] {
        let refused = house.sync(status);
        assert_eq!(refused.json()["code"], "unsupported", "{status}: {}", refused.json());
    }
    let listed = house.ask(Some(&ann), "GET", "/v1/skills", &Value::Null).json();
    assert_eq!(listed["data"].as_array().unwrap().len(), 1, "{listed}");
    let unknown = house.ask(Some("us-made-up"), "GET", "/v1/skills", &Value::Null);
    assert_eq!(unknown.status, 401);
}
