//! Concurrent writes to the state of an engine: independent ones do not wait for each other, those to one entry keep
//! their order, and events and reads that cross a write change nothing.

use std::sync::{Arc, atomic::Ordering};

use serde_json::{Value, json};
use skills_core::{Coded as _, Layer, Timestamp};
use skills_engine::StateTriggerEvent;
use skills_registry::PendingWrite;
use tokio::sync::Semaphore;

use crate::state_bus::{Fixture, attach, in_time, next, skill};

fn register(fixture: &Fixture, id: &str, body: &str) -> PendingWrite<Timestamp> {
    fixture.registry.register_skill("t", &Layer::Official, id, body.to_owned())
}

/// Returns the event of the write that the state executed last.
fn last_event(fixture: &Fixture, id: &str, old: &Value) -> StateTriggerEvent {
    let new = fixture.bus.scope("skills").get(id).cloned().unwrap_or_default();
    let event = json!({ "scope": "skills", "key": id, "old_value": old, "new_value": new });
    serde_json::from_value(event).unwrap()
}

/// Checks that the feed has nothing before a sentinel.
async fn ends(fixture: &Fixture, mut feed: skills_registry::ChangeFeed) {
    register(fixture, "sentinel", "# S").await.unwrap();
    assert_eq!(next(&mut feed).await, ("sentinel".into(), true), "nothing else was announced");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_waits_for_its_answer_delays_no_other() {
    let fixture = attach(Arc::default()).await;
    let mut feed = fixture.registry.changes();
    let gate = fixture.bus.answer_gate("state::set slow");
    let slow = register(&fixture, "slow", "# Slow");
    fixture.bus.until_called("state::set", 1).await;
    for number in 0..20 {
        in_time(register(&fixture, &format!("s{number}"), "# T")).await.unwrap();
        assert_eq!(next(&mut feed).await, (format!("s{number}"), true));
    }
    assert!(in_time(fixture.registry.remove_skill("t", &Layer::Official, "s0")).await.unwrap());
    assert_eq!(next(&mut feed).await, ("s0".into(), false));
    assert!(fixture.registry.catalog().skill("slow").is_none(), "it is not acknowledged");
    gate.add_permits(1);
    in_time(slow).await.unwrap();
    assert_eq!(next(&mut feed).await, ("slow".into(), true), "in the order of the answers");
    ends(&fixture, feed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_to_one_entry_run_in_the_order_of_their_requests() {
    let fixture = attach(Arc::default()).await;
    let mut feed = fixture.registry.changes();
    let gate = fixture.bus.gate("state::set a");
    let writes: Vec<_> = (0..10).map(|n| register(&fixture, "a", &format!("# {n}"))).collect();
    let removal = fixture.registry.remove_skill("t", &Layer::Official, "a");
    let last = register(&fixture, "a", "# Last");
    fixture.bus.until_called("state::set", 1).await;
    in_time(register(&fixture, "b", "# B")).await.unwrap();
    assert_eq!(next(&mut feed).await, ("b".into(), true));
    assert_eq!(fixture.bus.called("state::set"), 2, "one write of each entry at a time");
    gate.add_permits(100);
    let mut before = Timestamp::from_micros(0);
    for write in writes {
        let at = in_time(write).await.unwrap();
        assert!(at > before);
        before = at;
        assert_eq!(next(&mut feed).await, ("a".into(), true));
    }
    assert!(in_time(removal).await.unwrap());
    assert_eq!(next(&mut feed).await, ("a".into(), false));
    in_time(last).await.unwrap();
    assert_eq!(next(&mut feed).await, ("a".into(), true));
    assert_eq!(fixture.body("a").await, "# Last");
    ends(&fixture, feed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registration_is_one_call_however_its_events_arrive() {
    let fixture = attach(Arc::default()).await;
    let feed = fixture.registry.changes();
    let answers = fixture.bus.answer_gate("state::set");
    let mut late = Vec::new();
    for number in 0..30 {
        // Every id is registered several times, so that events of older versions arrive, too.
        let id = format!("s{}", number % 7);
        let old = fixture.bus.scope("skills").get(&id).cloned().unwrap_or_default();
        let write = register(&fixture, &id, &format!("# {number}"));
        fixture.bus.until_called("state::set", number + 1).await;
        let has_it = || fixture.bus.scope("skills").get(&id).is_some_and(|now| *now != old);
        while !has_it() {
            tokio::task::yield_now().await;
        }
        let event = last_event(&fixture, &id, &old);
        match number % 3 {
            // Before the answer.
            0 => {
                fixture.follower.push(&event);
                answers.add_permits(1);
                in_time(write).await.unwrap();
            }
            1 => {
                answers.add_permits(1);
                in_time(write).await.unwrap();
                fixture.follower.push(&event);
            }
            _ => {
                answers.add_permits(1);
                in_time(write).await.unwrap();
                late.push(event);
            }
        }
        // Late, but before the event of the next version.
        if number % 6 == 5 {
            late.drain(..).for_each(|event| fixture.follower.push(&event));
        }
    }
    answers.add_permits(1);
    register(&fixture, "last", "# L").await.unwrap();
    let calls = fixture.bus.calls.lock().unwrap().clone();
    let writes = calls.iter().filter(|call| *call == "state::set").count();
    assert_eq!(writes, 31);
    assert_eq!(fixture.bus.called("state::get"), 0, "{calls:?}");
    drop(feed);
}

/// Starts a write that the state executes, and whose answer is lost.
async fn without_answer(fixture: &Fixture) -> (PendingWrite<Timestamp>, Arc<Semaphore>) {
    let answers = fixture.bus.answer_gate("state::set a");
    let write = register(fixture, "a", "# A");
    fixture.bus.until_called("state::set", 1).await;
    while fixture.bus.scope("skills").is_empty() {
        tokio::task::yield_now().await;
    }
    fixture.bus.down.store(true, Ordering::SeqCst);
    (write, answers)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_executed_write_without_an_answer_is_confirmed_by_its_event() {
    let fixture = attach(Arc::default()).await;
    let mut feed = fixture.registry.changes();
    let (write, answers) = without_answer(&fixture).await;
    fixture.follower.push(&last_event(&fixture, "a", &Value::Null));
    // A write of another worker that follows it.
    let theirs = fixture.bus.write("skills", "a", skill("a", "# B", "2027-01-01T00:00:00Z"));
    fixture.follower.push(&theirs);
    answers.add_permits(1);
    in_time(write).await.unwrap();
    fixture.bus.down.store(false, Ordering::SeqCst);
    for _ in ["own", "theirs"] {
        assert_eq!(next(&mut feed).await, ("a".into(), true));
    }
    assert_eq!(fixture.body("a").await, "# B");
    ends(&fixture, feed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_executed_write_without_an_answer_or_event_fails_and_is_announced_by_its_event() {
    let fixture = attach(Arc::default()).await;
    let mut feed = fixture.registry.changes();
    let (write, answers) = without_answer(&fixture).await;
    answers.add_permits(1);
    let error = in_time(write).await.unwrap_err();
    assert_eq!(error.code().as_str(), "not_connected");
    fixture.bus.down.store(false, Ordering::SeqCst);
    fixture.follower.push(&last_event(&fixture, "a", &Value::Null));
    assert_eq!(next(&mut feed).await, ("a".into(), true));
    assert_eq!(fixture.ids(), ["a"]);
    ends(&fixture, feed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_was_read_before_a_write_does_not_revert_it() {
    let fixture = attach(Arc::default()).await;
    register(&fixture, "a", "# 1").await.unwrap();
    let mut feed = fixture.registry.changes();
    // The event of the own write is pending, so another event causes a recheck.
    let event = fixture.bus.write("skills", "a", skill("a", "# Theirs", "2027-01-01T00:00:00Z"));
    let answers = fixture.bus.answer_gate("state::get");
    fixture.follower.push(&event);
    fixture.bus.until_called("state::get", 1).await;
    // The read has its value; only the answer is late.
    in_time(register(&fixture, "a", "# 2")).await.unwrap();
    assert_eq!(next(&mut feed).await, ("a".into(), true));
    answers.add_permits(100);
    fixture.bus.until_called("state::get", 2).await;
    assert_eq!(fixture.registry.catalog().skill("a").unwrap().title(), "2");
    assert_eq!(fixture.body("a").await, "# 2");
    ends(&fixture, feed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_is_read_while_its_skill_is_written() {
    let fixture = attach(Arc::default()).await;
    register(&fixture, "a", "# Old").await.unwrap();
    let answers = fixture.bus.answer_gate("state::set a");
    let write = register(&fixture, "a", "# New");
    fixture.bus.until_called("state::set", 2).await;
    while fixture.bus.scope("skills")["a"]["skill"] != "# New" {
        tokio::task::yield_now().await;
    }
    fixture.bus.calls.lock().unwrap().clear();
    let registry = fixture.registry.clone();
    let read = tokio::spawn(async move { registry.read("iii://a").await });
    // The body no longer has the digest of the catalog, whose write has no answer yet.
    fixture.bus.until_called("state::get", 1).await;
    answers.add_permits(1);
    in_time(write).await.unwrap();
    assert_eq!(in_time(read).await.unwrap().unwrap().into_text(), "# New");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_comparison_does_not_revert_writes_that_cross_it() {
    for pages in [true, false] {
        let fixture = attach(Arc::default()).await;
        fixture.bus.pages.store(pages, Ordering::SeqCst);
        for id in ["a", "b", "c", "d", "e"] {
            register(&fixture, id, "# 1").await.unwrap();
        }
        fixture.bus.write("skills", "e", Value::Null);
        let list = if pages { "state::list_entries" } else { "state::list" };
        let answers = fixture.bus.answer_gate(list);
        let mut feed = fixture.registry.changes();
        let follower = fixture.follower.clone();
        let compared = tokio::spawn(async move { follower.resync().await });
        fixture.bus.until_called(list, 1).await;
        // The page has the old versions.
        in_time(register(&fixture, "a", "# 2")).await.unwrap();
        assert!(
            in_time(fixture.registry.remove_skill("t", &Layer::Official, "b")).await.unwrap(),
            "{pages:?}"
        );
        in_time(register(&fixture, "new", "# N")).await.unwrap();
        answers.add_permits(100);
        assert_eq!(in_time(compared).await.unwrap().unwrap(), 1, "only e is gone; pages: {pages}");
        let mut changes = Vec::new();
        for _ in 0..4 {
            changes.push(next(&mut feed).await);
        }
        let expected = [("a", true), ("b", false), ("new", true), ("e", false)];
        assert_eq!(changes, expected.map(|(id, there)| (id.to_owned(), there)), "{pages:?}");
        assert_eq!(fixture.ids(), ["a", "c", "d", "new"], "{pages:?}");
        assert_eq!(fixture.registry.catalog().skill("a").unwrap().title(), "2", "{pages:?}");
        ends(&fixture, feed).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn closing_waits_for_writes_in_progress() {
    let fixture = attach(Arc::default()).await;
    let gate = fixture.bus.gate("state::set");
    let writes: Vec<_> =
        (0..5).map(|n| register(&fixture, &format!("s{}", n % 2), &format!("# {n}"))).collect();
    fixture.bus.until_called("state::set", 2).await;
    let registry = fixture.registry.clone();
    let closed = tokio::task::spawn_blocking(move || registry.close());
    let refused = async {
        loop {
            if let Err(error) = register(&fixture, "late", "# L").await {
                return error;
            }
        }
    };
    gate.add_permits(100);
    assert_eq!(in_time(refused).await.code().as_str(), "shutting_down");
    in_time(closed).await.unwrap();
    for write in writes {
        in_time(write).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removal_is_noticed_although_the_event_of_an_earlier_one_was_lost() {
    let fixture = attach(Arc::default()).await;
    let mut feed = fixture.registry.changes();
    register(&fixture, "a", "# 1").await.unwrap();
    assert!(fixture.registry.remove_skill("t", &Layer::Official, "a").await.unwrap());
    register(&fixture, "a", "# 2").await.unwrap();
    fixture.follower.push(&last_event(&fixture, "a", &Value::Null));
    for there in [true, false, true] {
        assert_eq!(next(&mut feed).await, ("a".into(), there), "{there:?}");
    }
    fixture.follower.push(&fixture.bus.write("skills", "a", Value::Null));
    assert_eq!(next(&mut feed).await, ("a".into(), false));
    assert!(fixture.ids().is_empty());
    ends(&fixture, feed).await;
}
