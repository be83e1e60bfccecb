//! Surfaces with stored entries only: discovery and the API under `/v1`.

use skills_testkit::Request;

use crate::{
    live_clients::fixture::{REVIEW, connect},
    support::{TestServer, mcp_clients::send, register},
};

#[tokio::test]
async fn live_entries_are_not_published() {
    let server = TestServer::new();
    register(&server.worker().await, "zoo", "# Zoo\n\nAnimals.\n").await;
    let _desk = connect(&server, "desk").await;
    let get = async |path: &str| send(&server.process.http, &Request::new("GET", path)).await;
    let encoded = REVIEW.replace('/', "%2F");
    for path in [
        format!("/.well-known/agent-skills/{REVIEW}/SKILL.md"),
        format!("/.well-known/agent-skills/{REVIEW}.tar.gz"),
        format!("/.well-known/skills/{REVIEW}"),
        format!("/v1/skills/{encoded}"),
        format!("/v1/skills/{encoded}?explain=1"),
    ] {
        assert_eq!(get(&path).await.status, 404, "{path}");
    }
    for path in
        ["/.well-known/agent-skills/index.json", "/.well-known/skills/index.json", "/v1/skills"]
    {
        let answer = get(path).await;
        let text = answer.json().to_string();
        assert!(text.contains("zoo") && !text.contains("review"), "{path}: {text}");
    }
    assert_eq!(get("/v1/skills/zoo").await.status, 200);
}
