//! Panics of the writer thread: callers get an error, committed changes are published, and writing resumes or stops.

use std::{sync::atomic::Ordering, time::Duration};

use skills_core::{Coded as _, Layer};
use skills_registry::{RegistryError, WriterHealth};

use crate::support::on_faulty_store;

const ME: &str = "tester";
const DEADLINE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_panic_before_the_commit_is_caught_and_writes_resume() {
    let (store, registry) = on_faulty_store();
    store.panics_before.store(true, Ordering::SeqCst);
    let error = registry.register_skill(ME, &Layer::Official, "a", "# A".into()).await.unwrap_err();
    assert!(matches!(error, RegistryError::OutcomeUnknown), "{error}");
    assert!(registry.catalog().skill("a").is_none());
    registry.register_skill(ME, &Layer::Official, "a", "# A".into()).await.unwrap();
    assert_eq!(*registry.writer_health().borrow(), WriterHealth::Writing);
    registry.close();
}

#[tokio::test]
async fn a_commit_before_a_panic_is_published() {
    let (store, registry) = on_faulty_store();
    let mut changes = registry.changes();
    store.panics_after.store(true, Ordering::SeqCst);
    let error = registry.register_skill(ME, &Layer::Official, "a", "# A".into()).await.unwrap_err();
    assert_eq!(error.code().as_str(), "outcome_unknown");
    assert!(error.hint().is_some());
    assert_eq!(registry.catalog().skill("a").unwrap().title(), "A");
    registry.register_skill(ME, &Layer::Official, "b", "# B".into()).await.unwrap();
    for id in ["a", "b"] {
        let change = tokio::time::timeout(DEADLINE, changes.next()).await.unwrap();
        assert_eq!(&*change.unwrap().unwrap().key.id, id, "{id}");
    }
    assert_eq!(registry.catalog().revision(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_reports_that_writes_are_unavailable() {
    let (store, registry) = on_faulty_store();
    let mut health = registry.writer_health();
    store.panics_after.store(true, Ordering::SeqCst);
    store.unreadable.store(true, Ordering::SeqCst);
    let interrupted = registry.register_skill(ME, &Layer::Official, "a", "# A".into());
    let later = registry.register_skill(ME, &Layer::Official, "b", "# B".into());
    let recovering = health.wait_for(|health| *health == WriterHealth::Recovering);
    tokio::time::timeout(DEADLINE, recovering).await.unwrap().unwrap();
    store.unreadable.store(false, Ordering::SeqCst);
    interrupted.await.unwrap_err();
    // The write may have been in the same group commit.
    if let Err(error) = later.await {
        assert_eq!(error.code().as_str(), "outcome_unknown");
    }
    registry.register_skill(ME, &Layer::Official, "c", "# C".into()).await.unwrap();
    assert_eq!(*health.borrow(), WriterHealth::Writing);
    assert!(registry.catalog().skill("a").is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_that_cannot_catch_up_stops_and_reports_it() {
    let (store, registry) = on_faulty_store();
    let mut health = registry.writer_health();
    store.panics_after.store(true, Ordering::SeqCst);
    store.unreadable.store(true, Ordering::SeqCst);
    let error = registry.register_skill(ME, &Layer::Official, "a", "# A".into()).await.unwrap_err();
    assert_eq!(error.code().as_str(), "writer_stopped");
    let failed = health.wait_for(|health| *health == WriterHealth::Failed);
    tokio::time::timeout(DEADLINE, failed).await.unwrap().unwrap();
    let error = registry.register_skill(ME, &Layer::Official, "b", "# B".into()).await.unwrap_err();
    assert_eq!(error.code().as_str(), "writer_stopped");
    registry.close();
}
