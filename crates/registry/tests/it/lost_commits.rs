//! A store that loses commits under running servers: they read it again, and serve and announce exactly what it has.

use std::{sync::Arc, thread};

use futures_util::StreamExt as _;
use skills_agent_skills::skill_meta;
use skills_core::{
    Caller, EntryKey, EntryKind, Layer, PromptDefinition, SkillCollection, Timestamp,
};
use skills_registry::{
    Change, ChangeEvent, ChangeFeed, Registry, SkillRegistry, search::SearchRequest,
};
use skills_store::{
    Batch, EntryContent, MemoryStore, Mutation, PublishOptions, SharedMemoryStore, Store as _,
    VersionMutation,
};
use tokio::{runtime::Handle, sync::oneshot};

use crate::shared_store::{open, register, within};

fn put(id: &str, body: &str) -> Mutation {
    let meta = skill_meta(body).unwrap();
    let blobs = vec![(meta.digest(), body.to_owned().into())];
    let (content, options) = (EntryContent::Skill(meta), PublishOptions::default());
    Mutation::Put { layer: Layer::Official, id: id.into(), content, blobs, options }
}

fn put_entry(layer: Layer, id: &str, content: EntryContent) -> Mutation {
    Mutation::Put {
        layer,
        id: id.into(),
        content,
        blobs: vec![],
        options: PublishOptions::default(),
    }
}

fn remove(id: &str) -> Mutation {
    let (kind, layer) = (EntryKind::Skill, Layer::Official);
    Mutation::Remove(EntryKey { kind, layer, id: id.into() })
}

/// Returns a store with one commit for each mutation. The first ones are those of each history.
fn history(rest: Vec<Mutation>, rest_at: i64) -> Arc<MemoryStore> {
    let store = MemoryStore::new();
    let common = vec![put("a", "# A\n\nApple."), put("b", "# B\n\nBanana.")];
    for (mutation, at) in common.into_iter().zip(1_000..).chain(rest.into_iter().zip(rest_at..)) {
        let batch = Batch::new("another", vec![mutation]);
        store.commit(vec![batch], Timestamp::from_micros(at)).unwrap();
    }
    Arc::new(store)
}

/// Returns the history that is lost: four changes.
fn lost() -> Arc<MemoryStore> {
    history(vec![put("c", "# C\n\nCherry."), put("a", "# A\n\nAlmond.")], 2_000)
}

/// Returns another history of four changes.
fn found() -> Arc<MemoryStore> {
    history(vec![put("d", "# D\n\nDate."), put("b", "# B\n\nBlueberry.")], 3_000)
}

fn shared(memory: Arc<MemoryStore>) -> Arc<SharedMemoryStore> {
    let store = Arc::new(SharedMemoryStore::default());
    store.replace(memory);
    store
}

fn ids(registry: &Registry) -> Vec<String> {
    registry.catalog().skills().iter().map(|row| row.id.to_string()).collect()
}

async fn read(registry: &Registry, id: &str) -> String {
    let read = registry.read(&format!("iii://{id}")).await.unwrap();
    String::from_utf8(read.body.to_vec()).unwrap()
}

async fn next(feed: &mut ChangeFeed) -> (String, bool) {
    let change: Arc<Change> = within(feed.next()).await.unwrap().unwrap();
    (change.key.id.to_string(), change.is_served())
}

async fn search(registry: &Arc<Registry>, query: &str) -> Vec<String> {
    let request = SearchRequest { query: query.to_owned(), ..SearchRequest::default() };
    let page = SkillRegistry::search(&**registry, request).await.unwrap();
    page.results.into_iter().map(|found| found.id).collect()
}

/// Waits until a registry has read its store again.
async fn wait_until_read_again(registry: &Arc<Registry>) {
    let view = Arc::clone(registry).view(&Caller::Anonymous).unwrap();
    let mut events = view.changes();
    let is_there = || registry.catalog().stored_version().0.history > 0;
    while !is_there() {
        within(events.next()).await.expect("the registry is open");
    }
}

#[tokio::test]
async fn running_servers_serve_and_announce_what_the_store_has() {
    let store = shared(lost());
    let servers = [open(&store), open(&store)];
    let mut feeds = [servers[0].changes(), servers[1].changes()];
    for server in &servers {
        assert_eq!(read(server, "a@2").await, "# A\n\nAlmond.");
        assert_eq!(search(server, "cherry").await, ["c"]);
    }
    store.replace(found());
    for (server, feed) in servers.iter().zip(&mut feeds) {
        wait_until_read_again(server).await;
        let mut announced = vec![];
        for _ in 0..4 {
            announced.push(next(feed).await);
        }
        announced.sort();
        let expected = [("a", true), ("b", true), ("c", false), ("d", true)];
        assert_eq!(announced, expected.map(|(id, is_served)| (id.to_owned(), is_served)));
        assert_eq!(ids(server), ["a", "b", "d"]);
        assert_eq!(server.catalog().revision(), 4);
        assert_eq!(read(server, "a").await, "# A\n\nApple.");
        assert_eq!(read(server, "b").await, "# B\n\nBlueberry.");
        assert!(server.read("iii://a@2").await.is_err(), "its version is lost");
        assert!(search(server, "cherry").await.is_empty());
        assert_eq!(search(server, "date").await, ["d"]);
    }
    // Both go on in the new history, and every change is announced once.
    register(&servers[0], "e").await;
    register(&servers[1], "f").await;
    for feed in &mut feeds {
        assert_eq!(next(feed).await, ("e".to_owned(), true));
        assert_eq!(next(feed).await, ("f".to_owned(), true));
    }
    assert_eq!(ids(&servers[0]), ids(&servers[1]));
}

#[tokio::test]
async fn a_store_with_fewer_changes_than_before_is_read_again() {
    let store = shared(lost());
    let registry = open(&store);
    let mut feed = registry.changes();
    store.replace(history(vec![], 0));
    wait_until_read_again(&registry).await;
    assert_eq!(
        (registry.catalog().revision(), ids(&registry)),
        (2, ["a", "b"].map(String::from).to_vec())
    );
    let mut announced = [next(&mut feed).await, next(&mut feed).await];
    announced.sort();
    assert_eq!(announced, [("a".to_owned(), true), ("c".to_owned(), false)]);
    // The revisions of what was lost are given out again.
    for id in ["g", "h", "i"] {
        register(&registry, id).await;
        assert_eq!(next(&mut feed).await, (id.to_owned(), true));
    }
    assert_eq!(ids(&registry), ["a", "b", "g", "h", "i"]);
}

#[tokio::test]
async fn groups_whose_times_are_consecutive_are_told_apart() {
    let group = |text: &str| ["p", "q", "r", "s"].map(|id| put(id, text)).to_vec();
    let store = shared(history(group("# Lost"), 2_000));
    let registry = open(&store);
    store.replace(history(group("# Found"), 3_000));
    wait_until_read_again(&registry).await;
    assert_eq!(read(&registry, "s").await, "# Found");
}

#[tokio::test]
async fn a_write_that_precedes_the_notice_is_acknowledged_and_readable() {
    for found in [history(vec![], 0), found()] {
        let store = shared(lost());
        store.set_silent(true);
        let registry = open(&store);
        store.replace(Arc::clone(&found));
        register(&registry, "w").await;
        assert_eq!(read(&registry, "w").await, "# w");
        wait_until_read_again(&registry).await;
        let stored = found.entries().unwrap().into_iter().map(|entry| entry.key.id.to_string());
        let mut stored: Vec<String> = stored.collect();
        stored.sort();
        assert_eq!(ids(&registry), stored);
        assert_eq!(registry.catalog().revision(), found.revision().unwrap());
    }
}

#[tokio::test]
async fn a_store_that_is_replaced_by_an_equal_one_is_not_read_again() {
    let store = shared(lost());
    let registry = open(&store);
    let mut feed = registry.changes();
    store.replace(lost());
    register(&registry, "w").await;
    register(&registry, "x").await;
    assert_eq!(next(&mut feed).await.0, "w");
    assert_eq!(next(&mut feed).await.0, "x");
    // A change of another server is published after a look.
    let batch = Batch::new("another", vec![remove("c")]);
    store.commit(vec![batch], Timestamp::now()).unwrap();
    assert_eq!(next(&mut feed).await, ("c".to_owned(), false));
    assert_eq!(registry.catalog().stored_version().0.history, 0);
}

#[tokio::test]
async fn entries_of_all_kinds_and_layers_are_announced_if_they_differ() {
    let prompt = |id: &str, description: &str| {
        let (description, arguments) = (description.to_owned(), vec![]);
        let function_id = "f::g".to_owned();
        put_entry(
            Layer::Official,
            id,
            EntryContent::Prompt(PromptDefinition { description, arguments, function_id }),
        )
    };
    let collection = |title: &str| {
        let (title, description) = (title.to_owned(), String::new());
        let skills = vec!["a".to_owned()];
        put_entry(
            Layer::Official,
            "kit",
            EntryContent::Collection(SkillCollection { title, description, skills }),
        )
    };
    let private = || {
        let layer = Layer::Private("ann".parse().unwrap());
        put_entry(layer, "own", EntryContent::Skill(skill_meta("# Own").unwrap()))
    };
    let before = vec![prompt("same", "d"), prompt("other", "d"), collection("Kit"), private()];
    let after = vec![prompt("same", "d"), prompt("other", "e"), collection("Set")];
    let store = shared(history(before, 1_002));
    let registry = open(&store);
    let mut feed = registry.changes();
    store.replace(history(after, 1_002));
    wait_until_read_again(&registry).await;
    let mut announced = vec![next(&mut feed).await, next(&mut feed).await, next(&mut feed).await];
    announced.sort();
    let expected = [("kit", true), ("other", true), ("own", false)];
    assert_eq!(announced, expected.map(|(id, is_served)| (id.to_owned(), is_served)));
    register(&registry, "z").await;
    assert_eq!(next(&mut feed).await.0, "z");
}

#[tokio::test]
async fn an_entry_whose_versions_are_all_yanked_stays_so_when_the_store_is_read_again() {
    let store = shared(lost());
    let registry = open(&store);
    let mut feed = registry.changes();
    let (kind, layer) = (EntryKind::Skill, Layer::Official);
    let key = EntryKey { kind, layer, id: "a".into() };
    let version = skills_core::VersionSelector::Number(1);
    let change = VersionMutation::Yank { version, reason: "broken".to_owned() };
    store.replace(history(vec![Mutation::Version { key, change }], 3_000));
    wait_until_read_again(&registry).await;
    let mut announced = [next(&mut feed).await, next(&mut feed).await];
    announced.sort();
    assert_eq!(announced, [("a".to_owned(), false), ("c".to_owned(), false)]);
    assert_eq!(ids(&registry), ["b"]);
    let error = registry.read("iii://a").await.unwrap_err().to_string();
    assert!(error.contains("all versions of a that could be served are yanked"), "{error}");
}

#[tokio::test]
async fn a_write_while_the_store_is_read_again_is_not_lost() {
    let store = shared(lost());
    let registry = open(&store);
    let mut feed = registry.changes();
    let (acknowledge, acknowledged) = oneshot::channel();
    let (writing, runtime) = (Arc::clone(&registry), Handle::current());
    store.after_next_entries(move || {
        let write = writing.register_skill("t", &Layer::Official, "w", "# w".into());
        let write = async move { acknowledge.send(write.await.is_ok()) };
        // The write waits for the writer thread, which cannot wait for the write.
        if thread::current().name() == Some("registry-writer") {
            runtime.spawn(write);
        } else {
            runtime.block_on(write).unwrap();
        }
    });
    store.replace(found());
    assert!(within(acknowledged).await.unwrap());
    let mut announced = vec![];
    for _ in 0..4 {
        announced.push(next(&mut feed).await);
    }
    announced.sort();
    let expected = [("a", true), ("b", true), ("c", false), ("d", true)];
    assert_eq!(announced, expected.map(|(id, is_served)| (id.to_owned(), is_served)));
    assert_eq!(next(&mut feed).await, ("w".to_owned(), true));
    register(&registry, "z").await;
    assert_eq!(next(&mut feed).await, ("z".to_owned(), true));
    assert_eq!(ids(&registry), ["a", "b", "d", "w", "z"]);
}

#[tokio::test]
async fn a_store_that_cannot_be_read_again_is_an_outage() {
    let store = shared(lost());
    let registry = open(&store);
    let mut health = registry.store_health();
    let failing = Arc::downgrade(&store);
    store.after_next_entries(move || failing.upgrade().unwrap().set_down(true));
    store.replace(found());
    within(health.wait_for(|health| health.age().is_some())).await.unwrap();
    assert_eq!(ids(&registry), ["a", "b", "c"]);
    store.set_down(false);
    wait_until_read_again(&registry).await;
    assert_eq!(ids(&registry), ["a", "b", "d"]);
}

#[tokio::test]
async fn a_text_that_could_not_be_read_is_indexed_after_the_store_is_read_again() {
    let memory = |rest: Vec<Mutation>, rest_at| {
        let memory = history(rest, rest_at);
        let batch = Batch::new("another", vec![put("w", "# Lantern\n\nLight.\n\nKerosene.")]);
        memory.commit(vec![batch], Timestamp::from_micros(2_000)).unwrap();
        memory
    };
    let store = shared(lost());
    store.set_blobs_down(true);
    store.replace(memory(vec![], 0));
    let registry = open(&store);
    assert_eq!(search(&registry, "lantern").await, ["w"]);
    assert!(search(&registry, "kerosene").await.is_empty());
    // The entry stays the same; what precedes it is different.
    store.replace(memory(vec![put("d", "# D"), put("e", "# E")], 1_500));
    wait_until_read_again(&registry).await;
    assert_eq!(search(&registry, "lantern").await, ["w"]);
    assert!(search(&registry, "kerosene").await.is_empty());
    store.set_blobs_down(false);
    register(&registry, "z").await;
    assert_eq!(search(&registry, "kerosene").await, ["w"]);
}

#[tokio::test]
async fn a_standby_that_becomes_the_primary_lost_nothing() {
    let store = shared(lost());
    store.set_standby(true);
    let registry = open(&store);
    let mut feed = registry.changes();
    store.set_standby(false);
    register(&registry, "w").await;
    assert_eq!(next(&mut feed).await.0, "w");
    // A change of another server is published after a look.
    let batch = Batch::new("another", vec![remove("c")]);
    store.commit(vec![batch], Timestamp::now()).unwrap();
    assert_eq!(next(&mut feed).await, ("c".to_owned(), false));
    assert_eq!(registry.catalog().stored_version().0.history, 0);
}

#[tokio::test]
async fn commits_that_are_lost_while_a_standby_answers_are_noticed_at_its_promotion() {
    let store = shared(lost());
    store.set_standby(true);
    let registry = open(&store);
    store.replace(found());
    store.set_standby(false);
    wait_until_read_again(&registry).await;
    assert_eq!(ids(&registry), ["a", "b", "d"]);
}

#[tokio::test]
async fn surfaces_are_notified_that_anything_may_be_different() {
    let store = shared(lost());
    let registry = open(&store);
    let mut events = Arc::clone(&registry).view(&Caller::Anonymous).unwrap().changes();
    store.replace(found());
    assert_eq!(within(events.next()).await, Some(ChangeEvent::Everything));
    assert_eq!(ids(&registry), ["a", "b", "d"]);
}
