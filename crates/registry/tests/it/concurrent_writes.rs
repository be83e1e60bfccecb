//! Writes on a store that carries out batches concurrently: the test decides when each is stored.

use std::{sync::Arc, time::Duration};

use skills_core::{Coded as _, Layer, SkillId, Timestamp};
use skills_registry::{PendingWrite, Registry, RegistryConfig, WriterHealth};

use crate::support::{FaultyStore, controlled_writes::StartedWrite};

const ME: &str = "tester";
const DEADLINE: Duration = Duration::from_secs(30);

fn open() -> (Arc<FaultyStore>, Arc<Registry>) {
    let store = Arc::new(FaultyStore::controlled());
    let registry = Registry::open(store.clone(), None, RegistryConfig::default()).unwrap();
    (store, registry)
}

fn register(registry: &Registry, layer: &Layer, id: &str) -> PendingWrite<Timestamp> {
    registry.register_skill(ME, layer, id, format!("# {id}"))
}

async fn in_time<T>(awaited: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, awaited).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_are_published_in_the_order_in_which_they_are_stored() {
    let (store, registry) = open();
    let mut changes = registry.changes();
    let [a, b, c] = ["a", "b", "c"].map(|id| register(&registry, &Layer::Official, id));
    let [first, second, third] = in_time(store.started::<3>()).await;
    third.store();
    in_time(c).await.unwrap();
    assert!(registry.catalog().skill("a").is_none());
    first.store();
    in_time(a).await.unwrap();
    second.store();
    in_time(b).await.unwrap();
    for id in ["c", "a", "b"] {
        assert_eq!(&*in_time(changes.next()).await.unwrap().unwrap().key.id, id, "{id:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_to_several_entries_waits_for_all_of_them() {
    let (store, registry) = open();
    let id: SkillId = "a".parse().unwrap();
    let market = register(&registry, &Layer::Market, "a");
    let [stored] = in_time(store.started()).await;
    let both =
        registry.restore_skill(ME, &id, vec![(Layer::Official, None), (Layer::Market, None)]);
    let official = register(&registry, &Layer::Official, "a");
    let other = register(&registry, &Layer::Official, "b");
    let [independent] = in_time(store.started()).await;
    independent.store();
    in_time(other).await.unwrap();
    assert_eq!(store.waiting(), 0, "both later writes wait");
    stored.store();
    in_time(market).await.unwrap();
    let [removal] = in_time(store.started()).await;
    assert_eq!(store.waiting(), 0, "the last one still waits");
    removal.store();
    in_time(both).await.unwrap();
    let [last] = in_time(store.started()).await;
    last.store();
    in_time(official).await.unwrap();
    assert!(registry.catalog().skill("a").is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_the_store_gives_up_has_an_unknown_outcome_and_blocks_nothing() {
    let (store, registry) = open();
    let given_up = register(&registry, &Layer::Official, "a");
    let next = register(&registry, &Layer::Official, "a");
    let [first] = in_time(store.started()).await;
    drop(first);
    assert_eq!(in_time(given_up).await.unwrap_err().code().as_str(), "outcome_unknown");
    let [second] = in_time(store.started()).await;
    second.store();
    in_time(next).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_after_a_write_is_stored_is_caught_and_writes_resume() {
    let (store, registry) = open();
    let mut changes = registry.changes();
    let interrupted = register(&registry, &Layer::Official, "a");
    let next = register(&registry, &Layer::Official, "a");
    let [first] = in_time(store.started()).await;
    first.store_and_panic();
    assert_eq!(in_time(interrupted).await.unwrap_err().code().as_str(), "outcome_unknown");
    assert!(registry.catalog().skill("a").is_some(), "what was stored is published");
    let [second] = in_time(store.started()).await;
    second.store();
    in_time(next).await.unwrap();
    assert_eq!(*registry.writer_health().borrow(), WriterHealth::Writing);
    for revision in [1, 2] {
        assert_eq!(
            in_time(changes.next()).await.unwrap().unwrap().revision,
            revision,
            "{revision:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_waits_for_started_and_waiting_writes() {
    let (store, registry) = open();
    let writes = ["a", "a", "b"].map(|id| register(&registry, &Layer::Official, id));
    let started = in_time(store.started::<2>()).await;
    let closing = registry.clone();
    let closed = tokio::task::spawn_blocking(move || closing.close());
    started.into_iter().for_each(StartedWrite::store);
    let [last] = in_time(store.started()).await;
    assert!(!closed.is_finished());
    last.store();
    in_time(closed).await.unwrap();
    for write in writes {
        in_time(write).await.unwrap();
    }
}
