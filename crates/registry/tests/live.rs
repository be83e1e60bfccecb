//! What live clients have, through the door: listed, read, rendered and told of, below all that is stored.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use skills_bus::{CallError, Json};
use skills_core::{Caller, Timestamp};
use skills_registry::{
    Changed, Registry, RegistryConfig, RemoteRegistry, Skills,
    live::{
        LiveClient, LiveDocument, LiveError, LivePrompt, LiveSkill, LiveSource, LiveUpdate,
        Question,
    },
    remote,
};
use skills_store::MemoryStore;

/// Has every skill that is asked for, but one is late.
struct Clients;

#[async_trait]
impl LiveSource for Clients {
    fn answer_within(&self) -> Duration {
        Duration::from_secs(15)
    }

    async fn read(&self, client: &str, path: &str) -> Result<Option<LiveDocument>, LiveError> {
        match path {
            "/late/skill.md" => {
                Err(LiveError { code: "timeout", message: format!("{client} is late") })
            }
            path if path.ends_with("skill.md") => Ok(Some(LiveDocument {
                media_type: "text/markdown".to_owned(),
                body: format!("{client}{path}").into(),
            })),
            _ => Ok(None),
        }
    }

    async fn render(&self, _: &str, path: &str, arguments: Value) -> Result<Value, LiveError> {
        Ok(json!({ "content": format!("{path} {arguments}") }))
    }

    async fn ask(&self, _: &Caller, question: Question) -> Result<Value, LiveError> {
        Ok(json!(question.as_function().0))
    }
}

fn here(id: &str, skills: &[&str]) -> LiveUpdate {
    let skill = |path: &&str| LiveSkill { path: (*path).to_owned(), ..LiveSkill::default() };
    LiveUpdate::Here(LiveClient {
        id: id.parse().unwrap(),
        order: 1,
        since: Timestamp::from_micros(1),
        skills: skills.iter().map(skill).collect(),
        prompts: vec![LivePrompt { path: "/p/prompt.md".to_owned(), ..LivePrompt::default() }],
    })
}

struct World {
    registry: Arc<Registry>,
    _clients: Arc<dyn LiveSource>,
}

fn world() -> World {
    let registry =
        Registry::open(Arc::new(MemoryStore::new()), None, RegistryConfig::default()).unwrap();
    let clients: Arc<dyn LiveSource> = Arc::new(Clients);
    registry.set_live_source(Arc::downgrade(&clients));
    World { registry, _clients: clients }
}

async fn read(registry: &Registry, uri: &str) -> Result<String, String> {
    let read = registry.read(uri).await;
    read.map(|resource| resource.into_text()).map_err(|error| error.code().to_owned())
}

#[tokio::test]
async fn stored_documents_then_live_skills_then_sections() {
    let World { registry, _clients } = world();
    assert_eq!(read(&registry, "iii://desk").await, Err("not_found".to_owned()));
    registry.set_live(vec![here("desk", &["/skill.md", "/a/skill.md"])]).await.unwrap();
    assert_eq!(read(&registry, "iii://desk").await.unwrap(), "desk/skill.md");
    assert_eq!(read(&registry, "iii://desk/a/skill.md").await.unwrap(), "desk/a/skill.md");
    assert_eq!(read(&registry, "iii://desk/late/skill.md").await, Err("timeout".to_owned()));
    // Without a bus there are no sections.
    assert_eq!(read(&registry, "iii://desk/f::g").await, Err("no_bus".to_owned()));

    registry.register_skill("t", "desk", "# Stored".to_owned()).await.unwrap();
    assert_eq!(read(&registry, "iii://desk").await.unwrap(), "# Stored");
    assert_eq!(read(&registry, "iii://desk/a/skill.md").await.unwrap(), "desk/a/skill.md");

    registry.set_live(vec![LiveUpdate::Gone("desk".parse().unwrap())]).await.unwrap();
    assert_eq!(read(&registry, "iii://desk/a/skill.md").await, Err("not_found".to_owned()));
    assert_eq!(read(&registry, "iii://desk").await.unwrap(), "# Stored");
}

#[tokio::test]
async fn a_client_without_a_root_skill_is_a_list_of_its_skills() {
    let World { registry, _clients } = world();
    registry.set_live(vec![here("desk", &["/a/skill.md"])]).await.unwrap();
    let list = read(&registry, "iii://desk").await.unwrap();
    assert!(list.contains("](iii://desk/a/skill.md)"), "{list}");
}

#[tokio::test]
async fn prompts_are_rendered_by_their_client() {
    let World { registry, _clients } = world();
    registry.set_live(vec![here("desk", &[])]).await.unwrap();
    let rendered = registry.render_prompt("desk-p", json!({ "a": 1 })).await.unwrap();
    assert_eq!(rendered.messages[0]["content"]["text"], r#"/p/prompt.md {"a":1}"#);
}

#[tokio::test]
async fn who_listens_is_told_when_it_can_be_seen() {
    let World { registry, _clients } = world();
    let mut news = Skills::changes(&*registry);
    registry.set_live(vec![here("desk", &["/a/skill.md"])]).await.unwrap();
    assert_eq!(news.next().await, Some(Changed::Skill("desk/a/skill.md".into())));
    assert!(registry.catalog().skill("desk/a/skill.md").is_some());
    assert_eq!(news.next().await, Some(Changed::Prompt("desk-p".into())));
}

#[tokio::test]
async fn without_a_host_nobody_can_be_asked() {
    let registry =
        Registry::open(Arc::new(MemoryStore::new()), None, RegistryConfig::default()).unwrap();
    assert!(!registry.has_paths().await);
    let question = Question::read("listClients", serde_json::Map::new()).unwrap().unwrap();
    let error = registry.ask_paths(&Caller::Anonymous, question.clone()).await.unwrap_err();
    assert_eq!(error.code(), "unsupported");
    let World { registry, _clients } = world();
    assert!(registry.has_paths().await);
    let answer = registry.ask_paths(&Caller::Anonymous, question).await.unwrap();
    assert_eq!(answer, "mdp::list-clients");
}

/// A registry on a bus, which says how long its clients may take, and is asked with how much patience.
struct Patience(Arc<Mutex<Vec<(String, Duration)>>>);

#[async_trait]
impl remote::Caller for Patience {
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
async fn behind_a_bus_it_is_waited_as_long_as_a_client_may_take() {
    let calls = Arc::new(Mutex::new(vec![]));
    let remote = RemoteRegistry::new(Patience(Arc::clone(&calls)), Duration::from_secs(11));
    remote.read("iii://desk/a/skill.md").await.unwrap();
    remote.render_prompt("desk-p", json!({})).await.unwrap();
    let question = Question::read("listClients", serde_json::Map::new()).unwrap().unwrap();
    remote.ask_paths(question).await.unwrap();
    remote.functions().await.ok();
    let calls = calls.lock().unwrap();
    let within = |id: &str| calls.iter().find(|(called, _)| called == id).unwrap().1.as_secs();
    for id in ["skills::resources-read", "prompts::mcp-get", "mdp::list-clients"] {
        assert_eq!(within(id), 65, "{id}");
    }
    assert_eq!(within("skills::capabilities"), 11);
}
