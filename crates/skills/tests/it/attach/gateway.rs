//! Gateway of an attached worker.

use std::{net::SocketAddr, process::Command};

use serde_json::{Value, json};
use skills_testkit::Response;

use crate::{
    attach::settings::status,
    support::admin::{ADMIN_KEY, json_request},
    support::{
        attached::{AttachedWorker, wait_until_serving},
        engine::TestEngine,
        free_address, register,
        upstream::TestUpstream,
        wait::eventually,
    },
};

const LIMIT: u64 = 1000;

/// An attached worker with a gateway.
struct AttachedGateway {
    address: SocketAddr,
    upstream: TestUpstream,
    url: String,
}

impl AttachedGateway {
    fn new(engine: &TestEngine) -> Self {
        Self { address: free_address(), upstream: TestUpstream::start(), url: engine.url() }
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
        command.args(["--url", &self.url]).env("ADMIN_KEY", ADMIN_KEY);
    }

    async fn ready(&self) {
        eventually("it is ready", async || status(self.address, "/readyz") == Some(200)).await;
    }

    fn ask(&self, key: Option<&str>, method: &str, target: &str, body: &Value) -> Response {
        json_request(key, method, target, body).send(&format!("http://{}", self.address))
    }

    fn sync(&self, status: &str) -> Response {
        let endpoint = format!("{}/{status}", self.upstream.origin);
        let manifest = json!({
            "id": "plain",
            "meta": { "name": "Plain", "parameters": { "type": "object", "properties": {} } },
            "config": { "endpoint": endpoint, "method": "GET" },
        });
        let body = json!({
            "user_uid": "ann", "skill_name": "plain", "status": status, "manifest": manifest,
        });
        self.ask(Some(ADMIN_KEY), "POST", "/v1/admin/sync_skill", &body)
    }

    fn key(&self) -> String {
        let made =
            self.ask(Some(ADMIN_KEY), "POST", "/v1/admin/keys", &json!({ "user_uid": "ann" }));
        assert_eq!(made.status, 201, "{}", made.json());
        made.json()["key"].as_str().unwrap().to_owned()
    }

    fn execute(&self, key: &str) -> Response {
        self.ask(Some(key), "POST", "/v1/execute/plain", &json!({ "payload": {} }))
    }
}

fn left(answer: &Response) -> (u64, u64) {
    let number = |name: &str| answer.header(name).unwrap().parse().unwrap();
    (number("X-RateLimit-Reset"), number("X-RateLimit-Remaining"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attached_gateway_serves_all_tiers_and_keeps_rate_limits_over_a_restart() {
    let engine = TestEngine::start().await;
    let gateway = AttachedGateway::new(&engine);
    let mut attached =
        AttachedWorker::spawn_with(&gateway.config("embedded"), |command| gateway.start(command));
    gateway.ready().await;
    let worker = engine.worker().await;
    wait_until_serving(&worker).await;
    let ann = gateway.key();
    for (status, target) in
        [("market", "/market"), ("official", "/official"), ("private", "/private")]
    {
        assert_eq!(gateway.sync(status).status, 200, "{status}");
        let called = gateway.execute(&ann);
        assert_eq!(called.json()["data"]["target"], target, "{}", called.json());
    }
    let shown = gateway.ask(None, "GET", "/v1/skills/plain?explain=1", &Value::Null).json();
    assert_eq!(
        (&shown["source"], &shown["explain"]["shadows"][0]["tier"]),
        (&json!("official"), &json!("market"))
    );
    let called = worker.ok("skills::execute", json!({ "id": "plain", "key": ann })).await;
    assert_eq!(called["data"]["target"], "/private");
    // A minute may end meanwhile, which resets the limit.
    loop {
        let (minute, before) = left(&gateway.execute(&ann));
        assert!(before < LIMIT, "it is counted");
        let (home, _) = attached.stop().await;
        attached = AttachedWorker::spawn_in(home, |command| gateway.start(command));
        gateway.ready().await;
        let (now, after) = left(&gateway.ask(Some(&ann), "GET", "/v1/skills", &Value::Null));
        if now == minute {
            assert_eq!(after, before, "what was used is used");
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn content_in_the_engine_state_has_one_tier() {
    let engine = TestEngine::start().await;
    let gateway = AttachedGateway::new(&engine);
    let _attached =
        AttachedWorker::spawn_with(&gateway.config("state"), |command| gateway.start(command));
    gateway.ready().await;
    let worker = engine.worker().await;
    wait_until_serving(&worker).await;
    register(&worker, "a", "# A").await;
    let ann = gateway.key();
    let shown = gateway.ask(Some(&ann), "GET", "/v1/skills/a", &Value::Null).json();
    assert_eq!(
        (&shown["source"], &shown["spec"]["docs"]["full_md"]),
        (&json!("official"), &json!("# A"))
    );
    for status in ["private", "market"] {
        let refused = gateway.sync(status);
        assert_eq!(refused.json()["code"], "unsupported", "{status}: {}", refused.json());
    }
    let listed = gateway.ask(Some(&ann), "GET", "/v1/skills", &Value::Null).json();
    assert_eq!(listed["data"].as_array().unwrap().len(), 1, "{listed}");
    let unknown = gateway.ask(Some("us-made-up"), "GET", "/v1/skills", &Value::Null);
    assert_eq!(unknown.status, 401);
}
