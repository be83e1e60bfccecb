//! The change feed delivers every change once and in order to slow subscribers too.

use std::sync::{Arc, atomic::Ordering};

use skills_core::{Coded as _, Layer};
use skills_registry::{ChangeFeed, Registry, RegistryConfig, SkillRegistry};
use skills_store::{MemoryStore, SqliteStore};

use crate::support::on_faulty_store;

/// More changes than the feed buffers (4 MiB at half a KiB each).
const MANY: u64 = 9000;

async fn register_many(registry: &Registry, count: u64) {
    let calls: Vec<_> = (0..count)
        .map(|number| {
            registry.register_skill("t", &Layer::Official, &format!("s{}", number % 50), "x".into())
        })
        .collect();
    for call in calls {
        call.await.unwrap();
    }
}

async fn expect(feed: &mut ChangeFeed, revisions: std::ops::RangeInclusive<u64>) {
    for revision in revisions {
        assert_eq!(feed.next().await.unwrap().unwrap().revision, revision);
    }
}

#[tokio::test]
async fn a_lagging_subscriber_catches_up_from_the_change_log() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(SqliteStore::open(dir.path()).unwrap());
    let registry = Registry::open(store, None, RegistryConfig::default()).unwrap();
    let (mut slow, mut quick) = (registry.changes(), registry.changes());
    register_many(&registry, 100).await;
    expect(&mut quick, 1..=100).await;
    register_many(&registry, MANY).await;
    // Changes during catch-up follow the missed ones.
    let writing = Arc::clone(&registry);
    let writer = tokio::spawn(async move { register_many(&writing, 500).await });
    expect(&mut slow, 1..=MANY + 600).await;
    expect(&mut quick, 101..=MANY + 600).await;
    writer.await.unwrap();
    registry.register_skill("t", &Layer::Official, "last", "x".into()).await.unwrap();
    expect(&mut slow, MANY + 601..=MANY + 601).await;
}

#[tokio::test]
async fn a_subscription_starts_with_the_next_change() {
    let store = Arc::new(MemoryStore::new());
    let open = || Registry::open(store.clone(), None, RegistryConfig::default()).unwrap();
    let registry = open();
    register_many(&registry, 20).await;
    registry.remove_skill("t", &Layer::Official, "s19").await.unwrap();
    registry.remove_skill("t", &Layer::Official, "s18").await.unwrap();
    let mut feed = registry.changes();
    register_many(&registry, 1).await;
    expect(&mut feed, 23..=23).await;
    registry.remove_skill("t", &Layer::Official, "s0").await.unwrap();
    drop((registry, feed));
    // The newest change, a removal, has left no entry behind.
    let registry = open();
    let mut feed = registry.changes();
    register_many(&registry, 1).await;
    expect(&mut feed, 25..=25).await;
}

#[tokio::test]
async fn subscribers_receive_the_same_changes_at_their_own_pace() {
    let (_, registry) = on_faulty_store();
    let mut followers: Vec<_> = (0..5).map(|_| registry.changes()).collect();
    let followed = followers.iter_mut().map(|feed| expect(feed, 1..=300)).collect::<Vec<_>>();
    let write = register_many(&registry, 300);
    tokio::join!(write, async {
        for feed in followed {
            feed.await;
        }
    });
}

#[tokio::test]
async fn a_notified_change_is_already_readable() {
    let (_, registry) = on_faulty_store();
    let mut feed = registry.changes();
    let writing = Arc::clone(&registry);
    let writer = tokio::spawn(async move { register_many(&writing, 200).await });
    for _ in 0..200 {
        let change = feed.next().await.unwrap().unwrap();
        let catalog = registry.catalog();
        assert!(catalog.revision() >= change.revision);
        assert!(catalog.skill(&change.key.id).is_some());
    }
    writer.await.unwrap();
}

#[tokio::test]
async fn removing_a_missing_entry_is_no_change() {
    let (_, registry) = on_faulty_store();
    let mut feed = registry.changes();
    assert!(!registry.remove_skill("t", &Layer::Official, "nobody").await.unwrap());
    registry.register_skill("t", &Layer::Official, "a", "x".into()).await.unwrap();
    let change = feed.next().await.unwrap().unwrap();
    assert_eq!((&*change.key.id, change.revision, &*change.actor), ("a", 1, "t"));
}

#[tokio::test]
async fn the_feed_recovers_after_an_unreadable_log() {
    let (store, registry) = on_faulty_store();
    let mut feed = registry.changes();
    register_many(&registry, MANY).await;
    store.unreadable.store(true, Ordering::SeqCst);
    let error = feed.next().await.unwrap_err();
    assert_eq!(error.code().as_str(), "store_error", "{error}");
    store.unreadable.store(false, Ordering::SeqCst);
    expect(&mut feed, 1..=MANY).await;
}

#[tokio::test]
async fn the_feed_ends_after_the_last_change() {
    let (_, registry) = on_faulty_store();
    let mut feed = registry.changes();
    register_many(&registry, 3).await;
    drop(registry);
    expect(&mut feed, 1..=3).await;
    assert!(feed.next().await.unwrap().is_none());
}

#[tokio::test]
async fn a_truncated_log_is_reported_once() {
    let (store, registry) = on_faulty_store();
    let mut feed = registry.changes();
    register_many(&registry, MANY).await;
    store.forgotten.store(700, Ordering::SeqCst);
    assert_eq!(feed.next().await.unwrap_err().code().as_str(), "changes_forgotten");
    expect(&mut feed, 701..=MANY).await;
    register_many(&registry, 1).await;
    expect(&mut feed, MANY + 1..=MANY + 1).await;
}

#[tokio::test]
async fn a_stream_of_events_does_not_keep_the_store_open() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(SqliteStore::open(dir.path()).unwrap());
    let registry = Registry::open(store, None, RegistryConfig::default()).unwrap();
    let events = SkillRegistry::changes(&*registry);
    registry.close();
    drop(registry);
    SqliteStore::open(dir.path()).unwrap();
    drop(events);
}
