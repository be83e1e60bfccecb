//! Two registries on one store: changes of one appear on the other, in order and once, and reads outlive the store.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use serde_json::json;
use skills_agent_skills::skill_meta;
use skills_bus::{Bus, CallError};
use skills_core::{
    Caller, Code, Coded as _, EntryKind, Layer, PromptDefinition, Timestamp, WriteRefusal,
};
use skills_registry::{
    HistoryRequest, LogRequest, Registry, RegistryConfig, RegistryError, SkillRegistry,
    search::SearchRequest,
};
use skills_store::{
    Batch, EntryContent, MemoryPresence, MemoryStore, Mutation, Presence as _, PublishOptions,
    ServerId, SharedMemoryStore, Store,
};

use crate::support::FakeBus;

pub(crate) fn open(store: &Arc<SharedMemoryStore>) -> Arc<Registry> {
    let store: Arc<dyn Store> = Arc::clone(store) as _;
    Registry::open(store, None, RegistryConfig::default()).unwrap()
}

pub(crate) async fn register(registry: &Registry, id: &str) {
    registry.register_skill("t", &Layer::Official, id, format!("# {id}")).await.unwrap();
}

pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), future).await.expect("it takes too long")
}

#[tokio::test]
async fn changes_of_both_arrive_once_and_in_order_on_both() {
    let store = Arc::new(SharedMemoryStore::default());
    let (one, two) = (open(&store), open(&store));
    let mut feeds = [one.changes(), two.changes()];
    let writers = [(Arc::clone(&one), "a"), (Arc::clone(&two), "b")].map(|(registry, name)| {
        tokio::spawn(async move {
            for number in 0..200 {
                register(&registry, &format!("{name}{}", number % 5)).await;
            }
        })
    });
    for feed in &mut feeds {
        for revision in 1..=400 {
            let change = within(feed.next()).await.unwrap().unwrap();
            assert_eq!(change.revision, revision);
        }
    }
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!(one.catalog().revision(), two.catalog().revision());
    assert_eq!(one.catalog().skills().len(), 10);
}

#[tokio::test]
async fn changes_arrive_without_notifications_too() {
    let store = Arc::new(SharedMemoryStore::default());
    store.set_silent(true);
    let (one, two) = (open(&store), open(&store));
    let mut feed = two.changes();
    register(&one, "a").await;
    assert_eq!(within(feed.next()).await.unwrap().unwrap().revision, 1);
}

#[tokio::test]
async fn a_commit_publishes_what_others_committed_before_it() {
    let store = Arc::new(SharedMemoryStore::default());
    store.set_silent(true);
    let (one, two) = (open(&store), open(&store));
    let mut feed = two.changes();
    register(&one, "a").await;
    register(&two, "b").await;
    // Whoever has the reply can read both, in order.
    assert_eq!(two.catalog().revision(), 2);
    assert_eq!(two.catalog().skills().len(), 2);
    for revision in 1..=2 {
        assert_eq!(within(feed.next()).await.unwrap().unwrap().revision, revision);
    }
}

#[tokio::test]
async fn reads_go_on_and_writes_fail_at_once_while_the_store_is_gone() {
    let store = Arc::new(SharedMemoryStore::default());
    let registry = open(&store);
    register(&registry, "a").await;
    let mut health = registry.store_health();
    assert!(health.borrow().age().is_none());
    store.set_down(true);
    within(health.wait_for(|health| health.age().is_some())).await.unwrap();
    assert_eq!(registry.catalog().skills().len(), 1);
    let write = registry.register_skill("t", &Layer::Official, "b", "# b".into()).await;
    let error = write.unwrap_err();
    assert_eq!(error.code(), Code::StoreUnavailable);
    assert!(!error.is_outcome_unknown());
    store.set_down(false);
    within(health.wait_for(|health| health.age().is_none())).await.unwrap();
    register(&registry, "b").await;
    assert_eq!(registry.catalog().revision(), 2);
}

async fn is_refused(registry: &Registry) {
    let write = registry.register_skill("t", &Layer::Official, "b", "# b".into()).await;
    assert!(write.is_err());
}

#[tokio::test]
async fn a_store_that_becomes_writable_again_is_noticed_without_a_write() {
    let store = Arc::new(SharedMemoryStore::default());
    let registry = open(&store);
    let mut health = registry.store_health();
    assert_eq!(health.borrow().problem(), None);
    store.set_read_only(true);
    is_refused(&registry).await;
    let problem = health.borrow_and_update().problem();
    assert_eq!(problem.as_deref(), Some(WriteRefusal::ReadOnly.message()));
    // An outage meanwhile says nothing of it.
    store.set_down(true);
    within(health.wait_for(|health| health.outage.is_some())).await.unwrap();
    store.set_down(false);
    within(health.wait_for(|health| health.outage.is_none())).await.unwrap();
    assert!(health.borrow().refused_write.is_some());
    store.set_read_only(false);
    within(health.wait_for(|health| health.problem().is_none())).await.unwrap();
}

#[tokio::test]
async fn a_full_store_is_noticed_until_a_write_succeeds() {
    let store = Arc::new(SharedMemoryStore::default());
    let registry = open(&store);
    store.set_full(true);
    is_refused(&registry).await;
    let problem = || registry.store_health().borrow().problem();
    assert_eq!(problem().as_deref(), Some(WriteRefusal::Full.message()));
    store.set_full(false);
    register(&registry, "a").await;
    assert_eq!(problem(), None);
}

#[tokio::test]
async fn a_store_that_answers_with_an_error_counts_as_reachable() {
    let store = Arc::new(SharedMemoryStore::default());
    let registry = open(&store);
    let mut health = registry.store_health();
    store.set_down(true);
    within(health.wait_for(|health| health.age().is_some())).await.unwrap();
    store.set_log_unreadable(true);
    store.set_down(false);
    within(health.wait_for(|health| health.age().is_none())).await.unwrap();
    register(&registry, "a").await;
    assert_eq!(registry.catalog().revision(), 1);
}

#[tokio::test]
async fn a_commit_that_hangs_does_not_hide_an_outage() {
    let store = Arc::new(SharedMemoryStore::default());
    let memory = Arc::new(MemoryStore::new());
    store.replace(Arc::clone(&memory));
    let registry = open(&store);
    store.set_hanging(true);
    let write = registry.register_skill("t", &Layer::Official, "a", "# a".into());
    // The follower waits for the writer thread to publish this one.
    let content = EntryContent::Prompt(PromptDefinition {
        description: "p".to_owned(),
        arguments: vec![],
        function_id: "f::g".to_owned(),
    });
    let (layer, options) = (Layer::Official, PublishOptions::default());
    let put = Mutation::Put { layer, id: "p".into(), content, blobs: vec![], options };
    memory.commit(vec![Batch::new("other", vec![put])], Timestamp::now()).unwrap();
    store.wake();
    let mut health = registry.store_health();
    store.set_down(true);
    within(health.wait_for(|health| health.age().is_some())).await.unwrap();
    let refused = registry.register_skill("t", &Layer::Official, "b", "# b".into());
    assert_eq!(within(refused).await.unwrap_err().code(), Code::StoreUnavailable);
    store.set_hanging(false);
    assert!(within(write).await.is_err());
    store.set_down(false);
    within(health.wait_for(|health| health.age().is_none())).await.unwrap();
    register(&registry, "b").await;
    assert_eq!(registry.catalog().revision(), 2);
}

#[tokio::test]
async fn texts_that_an_outage_hid_are_searchable_after_it_without_a_change() {
    const SKILLS: usize = 300;
    let store = Arc::new(SharedMemoryStore::default());
    let writer = open(&store);
    for number in 0..SKILLS {
        let body = format!("# Skill {number}\n\nA skill.\n\nlantern{number}");
        let id = format!("s{number}");
        writer.register_skill("t", &Layer::Official, &id, body).await.unwrap();
    }
    store.set_blobs_down(true);
    let registry = open(&store);
    let found = async |query: &str| {
        let request = SearchRequest { query: query.to_owned(), ..SearchRequest::default() };
        SkillRegistry::search(&*registry, request).await.unwrap().results.len()
    };
    assert_eq!(found("s7").await, 1);
    assert_eq!(found("lantern299").await, 0);
    let mut progress = registry.search_index().progress();
    assert_eq!(progress.borrow().unread, SKILLS);
    store.set_blobs_down(false);
    within(progress.wait_for(|progress| progress.unread == 0)).await.unwrap();
    assert_eq!(found("lantern299").await, 1);
}

#[tokio::test]
async fn a_text_that_the_store_does_not_answer_hides_no_other() {
    let store = Arc::new(SharedMemoryStore::default());
    let writer = open(&store);
    let body = |word: &str| format!("# Skill\n\nA skill.\n\n{word}");
    for (id, word) in [("a", "kerosene"), ("b", "beeswax"), ("c", "tallow")] {
        writer.register_skill("t", &Layer::Official, id, body(word)).await.unwrap();
    }
    store.set_unanswered_blob(skill_meta(&body("beeswax")).unwrap().digest());
    let registry = open(&store);
    let found = async |query: &str| {
        let request = SearchRequest { query: query.to_owned(), ..SearchRequest::default() };
        SkillRegistry::search(&*registry, request).await.unwrap().results.len()
    };
    let counts = [found("kerosene").await, found("beeswax").await, found("tallow").await];
    assert_eq!(counts, [1, 0, 1]);
    assert_eq!(registry.search_index().progress().borrow().unread, 0);
}

#[tokio::test]
async fn reads_of_every_surface_are_refused_when_the_catalog_is_too_old() {
    let store = Arc::new(SharedMemoryStore::default());
    let config = RegistryConfig { max_stale: Some(Duration::ZERO), ..RegistryConfig::default() };
    let registry = Registry::open(Arc::clone(&store) as _, None, config).unwrap();
    register(&registry, "a").await;
    let view: Arc<dyn SkillRegistry> =
        Arc::clone(&registry).view(&Caller::Anonymous).expect("a view");
    let row = Arc::clone(view.catalog().await.unwrap().skill("a").unwrap());
    let reads = async || -> Vec<Result<(), RegistryError>> {
        let history = HistoryRequest { id: "a".to_owned(), tier: None, limit: None, after: None };
        let search = SearchRequest { query: "a".to_owned(), ..SearchRequest::default() };
        vec![
            view.catalog().await.map(drop),
            view.explain("a").await.map(drop),
            view.read("iii://a").await.map(drop),
            view.document(&row, "SKILL.md").await.map(drop),
            view.search(search).await.map(drop),
            view.history(EntryKind::Skill, &history).await.map(drop),
            view.log(&LogRequest::default()).await.map(drop),
        ]
    };
    assert!(reads().await.iter().all(Result::is_ok));

    let mut health = registry.store_health();
    store.set_down(true);
    within(health.wait_for(|health| health.age().is_some())).await.unwrap();
    let calls = [
        view.render_prompt("p", json!({})).await.map(drop),
        view.call_function(&"a::b".parse().unwrap(), json!({})).await.map(drop),
    ];
    for refused in reads().await.into_iter().chain(calls) {
        let error = refused.unwrap_err();
        assert!(matches!(error, RegistryError::CatalogTooOld), "{error}");
        assert_eq!(error.code(), Code::StoreUnavailable);
    }
    let write = registry.register_skill("t", &Layer::Official, "b", "# b".into()).await;
    assert_eq!(write.unwrap_err().code(), Code::StoreUnavailable);

    store.set_down(false);
    within(health.wait_for(|health| health.age().is_none())).await.unwrap();
    assert!(reads().await.iter().all(Result::is_ok));
}

#[tokio::test]
async fn a_function_of_another_server_is_said_to_be_there() {
    let store = Arc::new(SharedMemoryStore::default());
    let missing = CallError::NotFound("a::b".to_owned());
    let bus = FakeBus::with(Err(missing));
    let shared: Arc<dyn Store> = Arc::clone(&store) as _;
    let weak: Weak<dyn Bus> = Arc::downgrade(&(Arc::clone(&bus) as Arc<dyn Bus>));
    let one = Registry::open(shared, Some(weak), RegistryConfig::default()).unwrap();
    let two = open(&store);
    let code = async || one.read("iii://x/a::b").await.unwrap_err().code().as_str().to_owned();
    assert_eq!(code().await, "handler_not_registered");

    // What this server has itself is not elsewhere.
    let functions = ["a::b".to_owned(), "a::c".to_owned()];
    one.announce_functions("first", &functions, true).unwrap();
    assert_eq!(code().await, "handler_not_registered");
    two.announce_functions("second", &functions, true).unwrap();
    let error = one.read("iii://x/a::b").await.unwrap_err();
    assert_eq!(error.code().as_str(), "elsewhere");
    assert!(error.to_string().contains("the server second"), "{error}");
    assert!(error.hint().is_some());

    // A renewal restores what the store has lost, and an empty list takes it back.
    two.announce_functions("second", &functions, false).unwrap();
    assert_eq!(code().await, "elsewhere");
    two.announce_functions("second", &functions[1..], true).unwrap();
    assert_eq!(code().await, "handler_not_registered");
    two.announce_functions("second", &functions, true).unwrap();
    two.announce_functions("second", &[], true).unwrap();
    assert_eq!(code().await, "handler_not_registered");
}

#[test]
fn a_lease_ends_unless_it_is_renewed() {
    let presence = MemoryPresence::default();
    let (one, two) = (ServerId::new(), ServerId::new());
    let names = ["f".to_owned()];
    assert!(!presence.renew(one, Duration::from_secs(9)).unwrap());
    presence.announce(one, "one", &names, Duration::ZERO).unwrap();
    assert_eq!(presence.find("f", two).unwrap(), None);
    assert!(presence.renew(one, Duration::from_secs(9)).unwrap());
    assert_eq!(presence.find("f", two).unwrap().as_deref(), Some("one"));
    assert_eq!(presence.find("g", two).unwrap(), None);
    assert_eq!(presence.find("f", one).unwrap(), None);
}
