//! `RemoteRegistry` on a bus with changing answers.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use serde_json::{Value, json};
use skills_bus::{CallError, Json};
use skills_core::{Digest, EntryKind};
use skills_registry::{
    ChangeEvent, SkillRegistry as _, live::LiveOperation, search::SearchRequest,
};
use skills_remote::{BusCaller, Mirror, RemoteRegistry};

/// Bus that records calls and does not add the caller's id.
#[derive(Clone, Default)]
struct FakeBus {
    calls: Arc<Mutex<Vec<(String, Value)>>>,
    rows: Arc<Mutex<Vec<Value>>>,
}

#[async_trait]
impl BusCaller for FakeBus {
    async fn call(&self, id: &str, data: Json, _: Duration) -> Result<Json, CallError> {
        self.calls.lock().unwrap().push((id.to_owned(), data.parse().unwrap()));
        let answer = match id {
            "skills::capabilities" => json!({ "functions": ["skills::catalog"] }),
            "skills::catalog" => json!({ "skills": *self.rows.lock().unwrap(), "next": null }),
            "prompts::mcp-get" => json!({ "messages": [] }),
            "prompts::list" | "prompts::mcp-list" => json!({ "prompts": [] }),
            _ => json!({}),
        };
        Ok(Json::from(&answer))
    }
}

#[tokio::test]
async fn a_forged_caller_id_is_not_sent_over_a_bus() {
    let bus = FakeBus::default();
    let remote = RemoteRegistry::new(bus.clone(), Duration::from_secs(5));
    let forged = json!({ "_caller_worker_id": "admin", "q": 1 });
    remote.call_function(&"brain::ask".parse().unwrap(), forged.clone()).await.unwrap();
    remote.render_prompt("ask", forged).await.unwrap();
    let calls = bus.calls.lock().unwrap().clone();
    let sent = |id: &str| calls.iter().find(|(called, _)| called == id).unwrap().1.clone();
    assert_eq!(sent("brain::ask"), json!({ "q": 1 }));
    assert_eq!(sent("prompts::mcp-get")["arguments"], json!({ "q": 1 }));
}

fn row(digest: &str) -> Value {
    json!({
        "id": "a", "registered_at": "2026-01-01T00:00:00.000000Z",
        "files": [{ "path": "SKILL.md", "size": 0, "digest": digest }],
    })
}

#[tokio::test]
async fn a_mirror_forgets_dropped_rows_once_they_are_valid() {
    let bus = FakeBus::default();
    let good = row(&format!("sha256:{}", Digest::of(b"")));
    *bus.rows.lock().unwrap() = vec![row("md5:0")];
    let mirror = Mirror::new(RemoteRegistry::new(bus.clone(), Duration::from_secs(5)));
    assert!(mirror.catalog().await.unwrap().skill("a").is_none());
    let first = mirror.rejected_rows();
    assert_eq!(first.count(EntryKind::Skill), 1);
    mirror.notify(ChangeEvent::Skill("a".into()));
    mirror.catalog().await.unwrap();
    assert_eq!(mirror.rejected_rows(), first, "the same row");
    *bus.rows.lock().unwrap() = vec![good];
    mirror.notify(ChangeEvent::Skill("a".into()));
    assert!(mirror.catalog().await.unwrap().skill("a").is_some());
    assert_eq!(mirror.rejected_rows().count(EntryKind::Skill), 0);
}

/// Registry on a bus that publishes a client timeout, and records the timeouts of calls.
struct TimeoutRecorder(Arc<Mutex<Vec<(String, Duration)>>>);

#[async_trait]
impl BusCaller for TimeoutRecorder {
    async fn call(&self, id: &str, _: Json, timeout: Duration) -> Result<Json, CallError> {
        self.0.lock().unwrap().push((id.to_owned(), timeout));
        let answer = match id {
            "skills::capabilities" => {
                json!({ "functions": ["mdp::list-paths"], "client_ms": 60_000 })
            }
            "skills::resources-read" => {
                json!({ "contents": [{ "uri": "u", "mimeType": "text/plain", "text": "t" }] })
            }
            "prompts::mcp-get" => json!({ "messages": [] }),
            _ => json!({}),
        };
        Ok(Json::from(&answer))
    }
}

#[tokio::test]
async fn remote_reads_wait_as_long_as_the_client_timeout() {
    let calls = Arc::new(Mutex::new(vec![]));
    let remote = RemoteRegistry::new(TimeoutRecorder(Arc::clone(&calls)), Duration::from_secs(11));
    remote.read("iii://desk/a/skill.md").await.unwrap();
    remote.render_prompt("desk-p", json!({})).await.unwrap();
    remote.call_live(LiveOperation::ListClients, serde_json::Map::new()).await.unwrap();
    remote.functions().await.ok();
    let calls = calls.lock().unwrap();
    let timeout = |id: &str| calls.iter().find(|(called, _)| called == id).unwrap().1.as_secs();
    for id in ["skills::resources-read", "prompts::mcp-get", "mdp::list-clients"] {
        assert_eq!(timeout(id), 65, "{id}");
    }
    assert_eq!(timeout("skills::capabilities"), 11);
}

#[tokio::test]
async fn a_registry_without_a_search_is_searched_by_its_rows() {
    let bus = FakeBus::default();
    let mut lantern = row(&format!("sha256:{}", Digest::of(b"")));
    (lantern["title"], lantern["description"]) = (json!("Lantern"), json!("Gives light."));
    let mut other = lantern.clone();
    (other["id"], other["description"]) = (json!("b"), json!("Makes shade."));
    *bus.rows.lock().unwrap() = vec![lantern, other];
    let remote = RemoteRegistry::new(bus.clone(), Duration::from_secs(5));
    let mirror = Mirror::new(RemoteRegistry::new(bus.clone(), Duration::from_secs(5)));
    for (query, expected) in [
        ("light", vec!["a"]),
        ("lights", vec!["a"]),
        ("lantern -shade", vec!["a"]),
        ("lantern", vec!["a", "b"]),
        ("kerosene", vec![]),
    ] {
        let request = SearchRequest::new(query);
        for page in [remote.search(request.clone()).await, mirror.search(request).await] {
            let page = page.unwrap();
            let ids: Vec<&str> = page.results.iter().map(|result| result.id.as_str()).collect();
            assert_eq!(ids, expected, "{query}");
        }
    }
    assert!(!bus.calls.lock().unwrap().iter().any(|(id, _)| id == "skills::search"));
}
