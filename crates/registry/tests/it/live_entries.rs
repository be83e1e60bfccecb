//! Live entries in the registry: listing, reading, rendering and notifications, below stored entries.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use skills_core::{Caller, Code, Coded as _, Layer, Timestamp};
use skills_registry::{
    ChangeEvent, Registry, RegistryConfig, SkillRegistry,
    live::{
        LiveClient, LiveDocument, LiveError, LiveHost, LiveOperation, LivePrompt, LiveSkill,
        LiveUpdate,
    },
};
use skills_store::MemoryStore;

/// Host that has every requested skill; one answers late.
struct FakeClients;

#[async_trait]
impl LiveHost for FakeClients {
    fn has_clients(&self) -> bool {
        true
    }

    fn answer_timeout(&self) -> Duration {
        Duration::from_secs(15)
    }

    async fn read(&self, client: &str, path: &str) -> Result<Option<LiveDocument>, LiveError> {
        match path {
            "/late/skill.md" => {
                Err(LiveError { code: Code::Timeout, message: format!("{client} is late") })
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

    async fn call_operation(
        &self,
        _: &Caller,
        operation: LiveOperation,
        _: serde_json::Map<String, Value>,
    ) -> Result<Value, skills_registry::RegistryError> {
        Ok(json!(operation.function_id()))
    }
}

fn here(id: &str, skills: &[&str]) -> LiveUpdate {
    let skill = |path: &&str| LiveSkill { path: (*path).to_owned(), ..LiveSkill::default() };
    LiveUpdate::Connected(LiveClient {
        id: id.parse().unwrap(),
        order: 1,
        since: Timestamp::from_micros(1),
        skills: skills.iter().map(skill).collect(),
        prompts: vec![LivePrompt { path: "/p/prompt.md".to_owned(), ..LivePrompt::default() }],
    })
}

struct Fixture {
    registry: Arc<Registry>,
    _clients: Arc<dyn LiveHost>,
}

fn fixture() -> Fixture {
    let registry =
        Registry::open(Arc::new(MemoryStore::new()), None, RegistryConfig::default()).unwrap();
    let clients: Arc<dyn LiveHost> = Arc::new(FakeClients);
    registry.attach_live_host(Arc::downgrade(&clients));
    Fixture { registry, _clients: clients }
}

async fn read(registry: &Registry, uri: &str) -> Result<String, String> {
    let read = registry.read(uri).await;
    read.map(|resource| resource.into_text()).map_err(|error| error.code().as_str().to_owned())
}

#[tokio::test]
async fn stored_documents_win_over_live_skills_and_those_over_sections() {
    let Fixture { registry, _clients } = fixture();
    assert_eq!(read(&registry, "iii://desk").await, Err("not_found".to_owned()));
    registry.update_live(vec![here("desk", &["/skill.md", "/a/skill.md"])]).await.unwrap();
    assert_eq!(read(&registry, "iii://desk").await.unwrap(), "desk/skill.md");
    assert_eq!(read(&registry, "iii://desk/a/skill.md").await.unwrap(), "desk/a/skill.md");
    assert_eq!(read(&registry, "iii://desk/late/skill.md").await, Err("timeout".to_owned()));
    // Sections need a bus.
    assert_eq!(read(&registry, "iii://desk/f::g").await, Err("no_bus".to_owned()));

    registry.register_skill("t", &Layer::Official, "desk", "# Stored".to_owned()).await.unwrap();
    assert_eq!(read(&registry, "iii://desk").await.unwrap(), "# Stored");
    assert_eq!(read(&registry, "iii://desk/a/skill.md").await.unwrap(), "desk/a/skill.md");

    registry.update_live(vec![LiveUpdate::Disconnected("desk".parse().unwrap())]).await.unwrap();
    assert_eq!(read(&registry, "iii://desk/a/skill.md").await, Err("not_found".to_owned()));
    assert_eq!(read(&registry, "iii://desk").await.unwrap(), "# Stored");
}

#[tokio::test]
async fn a_client_without_a_root_skill_is_listed_by_its_skills() {
    let Fixture { registry, _clients } = fixture();
    registry.update_live(vec![here("desk", &["/a/skill.md"])]).await.unwrap();
    let list = read(&registry, "iii://desk").await.unwrap();
    assert!(list.contains("](iii://desk/a/skill.md)"), "{list}");
}

#[tokio::test]
async fn prompts_are_rendered_by_their_client() {
    let Fixture { registry, _clients } = fixture();
    registry.update_live(vec![here("desk", &[])]).await.unwrap();
    let rendered = registry.render_prompt("desk-p", json!({ "a": 1 })).await.unwrap();
    assert_eq!(rendered.messages[0]["content"]["text"], r#"/p/prompt.md {"a":1}"#);
}

#[tokio::test]
async fn subscribers_are_notified_once_live_entries_are_visible() {
    let Fixture { registry, _clients } = fixture();
    let mut news = SkillRegistry::changes(&*registry);
    registry.update_live(vec![here("desk", &["/a/skill.md"])]).await.unwrap();
    assert_eq!(news.next().await, Some(ChangeEvent::Skill("desk/a/skill.md".into())));
    assert!(registry.catalog().skill("desk/a/skill.md").is_some());
    assert_eq!(news.next().await, Some(ChangeEvent::Prompt("desk-p".into())));
}

#[tokio::test]
async fn without_a_host_live_calls_fail() {
    let registry =
        Registry::open(Arc::new(MemoryStore::new()), None, RegistryConfig::default()).unwrap();
    assert!(!registry.hosts_live_clients().await);
    let call = (LiveOperation::ListClients, serde_json::Map::new());
    let error =
        registry.call_live_as(&Caller::Anonymous, call.0, call.1.clone()).await.unwrap_err();
    assert_eq!(error.code().as_str(), "unsupported");
    let Fixture { registry, _clients } = fixture();
    assert!(registry.hosts_live_clients().await);
    let answer = registry.call_live_as(&Caller::Anonymous, call.0, call.1).await.unwrap();
    assert_eq!(answer, "mdp::list-clients");
}
