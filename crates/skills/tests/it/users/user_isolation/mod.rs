//! Users learn nothing of each other. Each request is made twice, for something that another user has and for
//! something that does not exist, and the answers must be equal. The owner makes it too and must get different
//! answers, else the comparison would prove nothing.
//!
//! - `http`, `mcp`, `bus`, `acp`: the surfaces
//! - `timing`: the time of answers

mod acp;
mod bus;
mod http;
mod mcp;
mod timing;

use serde_json::{Value, json};
use skills_testkit::Worker;

use crate::support::TestServer;

/// Name prefixes of ann's entries and of absent ones, of equal length. Requests write them as `@`.
const EXISTING: &str = "hidden";
const ABSENT: &str = "absent";

/// Text in everything that only ann may read.
const TEXT: &str = "What only ann knows.";

/// Callers other than ann.
fn other_callers(bob: &str) -> [(&'static str, Option<&str>); 2] {
    [("bob", Some(bob)), ("anonymous", None)]
}

/// Removes parts of an answer that differ between requests.
fn normalized(answer: &str, word: &str) -> String {
    let mut output = answer.replace(word, "THE");
    // Request ids are random.
    while let Some(at) = output.find("\"request_id\":\"") {
        output.replace_range(at..(at + 50).min(output.len()), "");
    }
    output
}

/// Fills in the name of an entry of ann or of an absent one.
fn with_name(word: &str, request: &Value) -> Value {
    request.to_string().replace('@', word).parse().unwrap()
}

struct IsolationFixture {
    server: TestServer,
    ann: String,
    bob: String,
}

impl IsolationFixture {
    /// Stores a private tool, a large private document and a private prompt of ann, a private tool that shadows an
    /// official one, and secrets.
    async fn new() -> Self {
        let server = TestServer::with_admin();
        let ((ann, _), (bob, _)) = (server.create_key("ann"), server.create_key("bob"));
        for (status, id) in [
            ("private", "hidden_plan"),
            ("private", "shared_plan"),
            ("official", "shared_plan"),
            ("market", "market_plan"),
        ] {
            let text = if status == "private" { TEXT } else { "Known to all." };
            let parameters = json!({ "type": "object", "properties": {} });
            // A secret is missing, so that nothing is sent.
            let config = json!({ "endpoint": "https://nobody.invalid/{{SECRETS.lacking}}" });
            let meta = json!({ "name": "Plan", "description": text, "parameters": parameters });
            let body = json!({
                "user_uid": "ann", "skill_name": id, "status": status,
                "manifest": { "id": id, "meta": meta, "config": config },
                "secrets": { "plan_key": "the-plan-of-ann" },
            });
            server.administer("POST", "/v1/admin/sync_skill", &body);
        }
        let value = json!({ "value": "the-plan-of-ann" });
        let set = server.ask(Some(&ann), "PUT", "/v1/secrets/hidden_token", &value);
        assert_eq!(set.status, 200);
        let grant = "/v1/secrets/hidden_token/grants/market_plan";
        assert_eq!(server.ask(Some(&ann), "PUT", grant, &Value::Null).status, 200);
        let worker = Worker::connect(&server.process.url).await;
        let filler = "Whoever read it all would need longer. ".repeat(5000);
        let note = format!("---\nname: hidden-note\ndescription: {TEXT}\n---\n# Note\n\n{filler}");
        let note = json!({ "id": "hidden-note", "skill": note, "tier": "private", "key": ann });
        worker.ok("skills::register", note).await;
        let common = "---\nname: common-note\ndescription: Known to all.\n---\n# Note";
        worker.ok("skills::register", json!({ "id": "common-note", "skill": common })).await;
        let prompt = json!({
            "name": "hidden-prompt", "description": TEXT, "function_id": "t::gone",
            "tier": "private", "key": ann,
        });
        worker.ok("prompts::register", prompt).await;
        Self { server, ann, bob }
    }

    /// Returns everything ann has, as she sees it.
    fn entries_of_ann(&self) -> Vec<Value> {
        let get = |target| self.server.ask(Some(&self.ann), "GET", target, &Value::Null).json();
        ["/v1/skills?layers=all", "/v1/secrets"].map(get).into()
    }
}
