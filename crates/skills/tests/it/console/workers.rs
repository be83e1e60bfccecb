//! What the console shows and calls of connected programs: workers, prompts, sessions, tools.

use serde_json::{Value, json};
use skills_testkit::ServerProcess;

use super::visitor::Visitor;
use crate::support::{
    BINARY, TestServer,
    admin::{ADMIN_KEY, MASTER_KEY},
    mcp_clients::Session,
    upstream::{ReceivedRequest, TestUpstream},
    wait::eventually,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_and_sessions_come_and_go_on_the_live_page() {
    let server = TestServer::new();
    let mut visitor = Visitor::new(&server);
    assert!(visitor.open("/ui/live").contains("No worker is connected"));
    let worker = server.worker().await;
    worker.serve("weather::today", |_| Some(Ok(json!("rain")))).await;
    let session = Session::open(&server.process.http, "2025-11-25").await;
    eventually("the worker and the session are listed", async || {
        let page = visitor.open("/ui/live");
        page.contains("weather::today") && page.contains("listening")
    })
    .await;
    drop((worker, session));
    eventually("the worker is gone", async || {
        visitor.open("/ui/live").contains("No worker is connected")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prompt_is_rendered_with_the_arguments_of_its_form() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let render = |arguments: Value| {
        Some(Ok(json!({ "content": format!("Weather in {}? <script>", arguments["city"]) })))
    };
    worker.serve("weather::prompt", render).await;
    let prompt = json!({
        "name": "forecast", "description": "Ask", "function_id": "weather::prompt",
        "arguments": [{ "name": "city", "required": true }],
    });
    worker.ok("prompts::register", prompt).await;
    let mut visitor = Visitor::new(&server);
    assert!(visitor.open("/ui/prompts/forecast").contains("name=\"argument.city\""));
    let answer = visitor.submit("/ui/prompts/forecast", &[("argument.city", "Lisbon")]);
    let page = String::from_utf8_lossy(&answer.body).into_owned();
    assert!(page.contains("Weather in &quot;Lisbon&quot;? &lt;script&gt;"), "{page}");
}

#[test]
fn a_tool_is_called_with_the_key_of_the_person() {
    let upstream = TestUpstream::start();
    let dir = tempfile::tempdir().unwrap();
    let mut command = ServerProcess::command(BINARY, &dir.path().join("data"));
    command.args(["--allow-upstream", &upstream.origin]);
    command.env("ADMIN_KEY", ADMIN_KEY).env("MASTER_ENCRYPTION_KEY", MASTER_KEY);
    let server = TestServer::from_parts(ServerProcess::spawn(&mut command), dir);
    let (key, _) = server.create_key("ann");
    let manifest = json!({
        "id": "echo",
        "meta": { "name": "Echo", "description": "Says it.", "parameters": {
            "type": "object", "properties": { "text": { "type": "string" } }, "required": ["text"],
        } },
        "config": {
            "endpoint": format!("{}/{{{{text}}}}", upstream.origin), "method": "GET",
            "headers": { "X-Key": "{{SECRETS.NEEDED}}" },
        },
    });
    let body = json!({
        "user_uid": "ann", "skill_name": "echo", "status": "private", "manifest": manifest,
        "secrets": { "NEEDED": "the-secret" },
    });
    server.administer("POST", "/v1/admin/sync_skill", &body);
    let mut ann = Visitor::signed_in(&server, &key);
    let form = ann.open("/ui/skills/echo?tab=tools");
    assert!(form.contains("name=\"argument.text\""));
    let digest = form.split_once("name=\"digest\" value=\"").unwrap().1.split('"').next().unwrap();
    for other in ["", &"0".repeat(64)] {
        let answer = ann.submit("/ui/run/echo", &[("argument.text", "no"), ("digest", other)]);
        let page = String::from_utf8_lossy(&answer.body).into_owned();
        assert!(page.contains("was changed after this form was made"), "{page}");
    }
    assert!(upstream.received().is_empty(), "a form of another tool calls none");
    let one_version = ann.open("/ui/skills/echo?tab=tools&version=1");
    assert!(!one_version.contains("/ui/run/") && one_version.contains("You look at one version"));
    ann.open("/ui/skills/echo?tab=tools");
    let answer = ann.submit("/ui/run/echo", &[("argument.text", "hello"), ("digest", digest)]);
    let page = String::from_utf8_lossy(&answer.body).into_owned();
    assert!(page.contains("hello") && page.contains("Answer"), "{page}");
    assert!(!page.contains("the-secret"), "{page}");
    let is_call = |request: &ReceivedRequest| {
        request.target.contains("/hello") && request.headers.contains("x-key: the-secret")
    };
    assert!(upstream.received().iter().any(is_call));
    assert_eq!(Visitor::new(&server).get("/ui/skills/echo").status, 404, "others do not see it");
    server.add_tool("bob", "official", "echo");
    let shadowed = ann.open("/ui/skills/echo?tab=tools&tier=official");
    assert!(!shadowed.contains("/ui/run/") && shadowed.contains("Another tier has a tool"));
}
