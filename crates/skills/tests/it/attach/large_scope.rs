//! A scope far larger than the message limit.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::json;
use skills_core::Timestamp;
use skills_store::{Batch, Mutation, NewValue, SqliteStore, Store as _};
use skills_testkit::DEADLINE;

use crate::support::{
    attached::{AttachedWorker, next_event, register_event, subscriber},
    engine::{EngineOptions, TestEngine, record, set},
    ids,
    proxy::Proxy,
    read,
    wait::within,
};

const BODY: usize = 200_000;
const MAX_RESIDENT_MB: f64 = 150.0;
const MAX_MESSAGE: u64 = 8 << 20;

/// Size of the scope: 60 MB, or 500 MB with `SKILLS_TEST_LARGE=1`; `SKILLS_TEST_MB` sets any other size.
fn megabytes() -> usize {
    let given = std::env::var("SKILLS_TEST_MB").ok().and_then(|text| text.parse().ok());
    let is_large = std::env::var_os("SKILLS_TEST_LARGE").is_some_and(|value| value == "1");
    given.unwrap_or(if is_large { 500 } else { 60 })
}

fn body(number: usize) -> String {
    let mut text = format!("# Skill {number}\n\nWhat it is for.\n\n");
    while text.len() < BODY {
        text.push_str("A line of guidance, as one finds them.\n");
    }
    text.truncate(BODY);
    text
}

fn fill(store: &SqliteStore, count: usize) {
    for start in (0..count).step_by(50) {
        let mutations = (start..count.min(start + 50)).map(|number| {
            let key = format!("skill-{number}");
            let value = record(&key, &body(number)).to_string();
            Mutation::StateSet { scope: "skills".into(), key, value: NewValue::Given(value) }
        });
        let batch = Batch::new("test", mutations.collect());
        store.commit(vec![batch], Timestamp::from_micros(0)).unwrap();
    }
}

/// Returns the peak memory of a process in MB.
fn peak_mb(pid: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() * 1024.0 / 1e6
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_scope_is_served_with_little_memory_and_small_messages() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(SqliteStore::open(dir.path()).unwrap());
    let count = megabytes() * 1_000_000 / BODY;
    let filled = Arc::clone(&store);
    tokio::task::spawn_blocking(move || fill(&filled, count)).await.unwrap();
    let engine = TestEngine::with_store(EngineOptions::default(), store).await;
    let proxy = Proxy::start(engine.address).await;
    let started = Instant::now();
    let attached = AttachedWorker::spawn(&proxy.url(), "");
    let worker = engine.worker().await;
    worker.identify().await;
    // The worker reads the scope once before it serves; an unoptimised build is slow at that.
    let deadline = DEADLINE + Duration::from_millis(200) * u32::try_from(megabytes()).unwrap();
    within(deadline, "it serves", async || worker.call("skills::list", json!({})).await.is_ok())
        .await;
    let took = started.elapsed();
    assert_eq!(ids(&worker).await.len(), count);
    assert_eq!(read(&worker, "iii://skill-7").await, body(7));
    let (_subscriber, mut received) = subscriber(&engine).await;
    let (changed, before) = (Instant::now(), proxy.bytes());
    set(&worker, "skills", "skill-7", &record("skill-7", "short")).await;
    assert_eq!(next_event(&mut received).await, register_event("skill-7"));
    let (notified, sent) = (changed.elapsed(), proxy.bytes() - before);
    assert!(
        sent < before / 10,
        "one change does not read the scope again: {sent} of {before} bytes"
    );
    for number in (0..count).step_by(count / 50) {
        read(&worker, &format!("iii://skill-{number}")).await;
    }
    worker.ok("skills::resources-list", json!({})).await;
    let (peak, largest) = (peak_mb(attached.pid()), proxy.largest_message());
    eprintln!(
        "{} MB in {count} records: serving after {took:.1?}, first change notified after {notified:.1?}, peak {peak:.0} MB, largest message {:.2} MB",
        megabytes(),
        largest as f64 / 1e6
    );
    assert!(peak < MAX_RESIDENT_MB, "{peak:.0} MB");
    assert!(largest < MAX_MESSAGE, "{largest}");
    assert!(largest > 200_000, "the proxy has seen the bodies: {largest}");
}
