//! What one user learns of another: nothing. Each request is made twice, once for something that somebody else has
//! and once for something that nobody has, and the answers must be the same. The owner makes it too, and must get
//! different answers: else it would show nothing.
//!
//! - `http`, `mcp`, `bus`, `acp`: each of the surfaces
//! - `timing`: how long the answers take

mod acp;
mod bus;
mod http;
mod mcp;
mod timing;

use serde_json::{Value, json};
use skills_testkit::Worker;

use crate::site::Site;

/// What the names of what ann has begin with, and those of what nobody has; of one length, so that not even that
/// differs. In requests both are written as `@`.
const HERS: &str = "hidden";
const NOBODYS: &str = "absent";

/// In everything that only ann may read.
const TEXT: &str = "What only ann knows.";

/// Bob, and nobody in particular.
fn strangers(bob: &str) -> [(&'static str, Option<&str>); 2] {
    [("bob", Some(bob)), ("anonymous", None)]
}

/// An answer without what differs from one request to the next.
fn same(answer: &str, word: &str) -> String {
    let mut said = answer.replace(word, "THE");
    // Ids of requests are random.
    while let Some(at) = said.find("\"request_id\":\"") {
        said.replace_range(at..(at + 50).min(said.len()), "");
    }
    said
}

/// A request for what ann has, or for what nobody has.
fn of(word: &str, request: &Value) -> Value {
    request.to_string().replace('@', word).parse().unwrap()
}

struct Town {
    site: Site,
    ann: String,
    bob: String,
}

impl Town {
    /// Ann has a private tool, a large private document and a private prompt, a private tool in the place of an
    /// official one, and secrets.
    async fn new() -> Self {
        let site = Site::new();
        let ((ann, _), (bob, _)) = (site.key("ann"), site.key("bob"));
        for (status, id) in [
            ("private", "hidden_plan"),
            ("private", "shared_plan"),
            ("official", "shared_plan"),
            ("market", "market_plan"),
        ] {
            let text = if status == "private" { TEXT } else { "Known to all." };
            let parameters = json!({ "type": "object", "properties": {} });
            // It lacks a secret, so that nothing is sent to anybody.
            let config = json!({ "endpoint": "https://nobody.invalid/{{SECRETS.lacking}}" });
            let meta = json!({ "name": "Plan", "description": text, "parameters": parameters });
            let body = json!({
                "user_uid": "ann", "skill_name": id, "status": status,
                "manifest": { "id": id, "meta": meta, "config": config },
                "secrets": { "plan_key": "the-plan-of-ann" },
            });
            site.administer("POST", "/v1/admin/sync_skill", &body);
        }
        let value = json!({ "value": "the-plan-of-ann" });
        let set = site.ask(Some(&ann), "PUT", "/v1/secrets/hidden_token", &value);
        assert_eq!(set.status, 200);
        let grant = "/v1/secrets/hidden_token/grants/market_plan";
        assert_eq!(site.ask(Some(&ann), "PUT", grant, &Value::Null).status, 200);
        let worker = Worker::connect(&site.server.url).await;
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
        Self { site, ann, bob }
    }

    /// All that ann has, as she sees it.
    fn hers(&self) -> Vec<Value> {
        let get = |target| self.site.ask(Some(&self.ann), "GET", target, &Value::Null).json();
        ["/v1/skills?layers=all", "/v1/secrets"].map(get).into()
    }
}
