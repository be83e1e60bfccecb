//! The change feed: everything, in order, once, however slow the one who follows it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod support;

use std::sync::{Arc, atomic::Ordering};

use skills_registry::{ChangeFeed, Registry, RegistryConfig};
use skills_store::{MemoryStore, SqliteStore};
use support::fragile;

/// More than the feed keeps in memory (4 MiB of changes at half a KiB each).
const MANY: u64 = 9000;

async fn register_many(registry: &Registry, count: u64) {
    let calls: Vec<_> = (0..count)
        .map(|number| registry.register_skill("t", &format!("s{}", number % 50), "x".into()))
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
async fn a_follower_that_fell_behind_catches_up_from_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(SqliteStore::open(dir.path()).unwrap());
    let registry = Registry::open(store, None, RegistryConfig::default()).unwrap();
    let (mut slow, mut quick) = (registry.changes(), registry.changes());
    register_many(&registry, 100).await;
    expect(&mut quick, 1..=100).await;
    register_many(&registry, MANY).await;
    // What happens while it catches up comes after what it missed.
    let writing = Arc::clone(&registry);
    let writer = tokio::spawn(async move { register_many(&writing, 500).await });
    expect(&mut slow, 1..=MANY + 600).await;
    expect(&mut quick, 101..=MANY + 600).await;
    writer.await.unwrap();
    registry.register_skill("t", "last", "x".into()).await.unwrap();
    expect(&mut slow, MANY + 601..=MANY + 601).await;
}

#[tokio::test]
async fn a_follower_hears_from_now_on_and_not_of_before() {
    let store = Arc::new(MemoryStore::new());
    let open = || Registry::open(store.clone(), None, RegistryConfig::default()).unwrap();
    let registry = open();
    register_many(&registry, 20).await;
    registry.remove_skill("t", "s19").await.unwrap();
    registry.remove_skill("t", "s18").await.unwrap();
    let mut feed = registry.changes();
    register_many(&registry, 1).await;
    expect(&mut feed, 23..=23).await;
    registry.remove_skill("t", "s0").await.unwrap();
    drop((registry, feed));
    // Also when the newest change, a removal, has left no entry behind.
    let registry = open();
    let mut feed = registry.changes();
    register_many(&registry, 1).await;
    expect(&mut feed, 25..=25).await;
}

#[tokio::test]
async fn every_follower_gets_the_same_at_its_own_pace() {
    let (_, registry) = fragile();
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
async fn a_change_can_be_read_by_whoever_hears_of_it() {
    let (_, registry) = fragile();
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
async fn a_removal_of_nothing_is_no_change() {
    let (_, registry) = fragile();
    let mut feed = registry.changes();
    assert!(!registry.remove_skill("t", "nobody").await.unwrap());
    registry.register_skill("t", "a", "x".into()).await.unwrap();
    let change = feed.next().await.unwrap().unwrap();
    assert_eq!((&*change.key.id, change.revision, &*change.actor), ("a", 1, "t"));
}

#[tokio::test]
async fn a_log_that_cannot_be_read_is_an_error_and_then_goes_on() {
    let (store, registry) = fragile();
    let mut feed = registry.changes();
    register_many(&registry, MANY).await;
    store.unreadable.store(true, Ordering::SeqCst);
    let error = feed.next().await.unwrap_err();
    assert_eq!(error.code(), "store_error", "{error}");
    store.unreadable.store(false, Ordering::SeqCst);
    expect(&mut feed, 1..=MANY).await;
}

#[tokio::test]
async fn the_end_comes_after_the_last_change() {
    let (_, registry) = fragile();
    let mut feed = registry.changes();
    register_many(&registry, 3).await;
    drop(registry);
    expect(&mut feed, 1..=3).await;
    assert!(feed.next().await.unwrap().is_none());
}

#[tokio::test]
async fn a_follower_is_told_once_that_the_log_does_not_go_back_so_far() {
    let (store, registry) = fragile();
    let mut feed = registry.changes();
    register_many(&registry, MANY).await;
    store.forgotten.store(700, Ordering::SeqCst);
    assert_eq!(feed.next().await.unwrap_err().code(), "changes_forgotten");
    expect(&mut feed, 701..=MANY).await;
    register_many(&registry, 1).await;
    expect(&mut feed, MANY + 1..=MANY + 1).await;
}
