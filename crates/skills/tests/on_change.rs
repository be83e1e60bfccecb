//! Change notifications: every change once to every subscriber, in order, and none that did not happen.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod support;

use std::time::Instant;

use serde_json::{Value, json};
use skills_testkit::{DEADLINE, Peer, Worker, next};
use support::{Home, keys, register};
use tokio::sync::mpsc::UnboundedReceiver;

const SKILLS: &str = "skills::on-change";
const PROMPTS: &str = "prompts::on-change";

fn registered(id: &str) -> Value {
    json!({ "op": "register", "id": id })
}

async fn remove(worker: &Worker, id: &str) {
    worker.ok("skills::unregister", json!({ "id": id })).await;
}

/// Registers `count` skills as fast as possible.
async fn register_many(worker: &Worker, prefix: &str, count: usize) {
    let register = |number: usize| {
        let data = json!({ "id": format!("{prefix}{number}"), "skill": "x" });
        worker.start("skills::register", &data)
    };
    for call in (0..count).map(register).collect::<Vec<_>>() {
        call.await.unwrap();
    }
}

/// The next deliveries are exactly the registrations of `register_many`.
async fn hears_of_many(heard: &mut UnboundedReceiver<Value>, prefix: &str, count: usize) {
    for number in 0..count {
        assert_eq!(next(heard).await, registered(&format!("{prefix}{number}")));
    }
}

/// Registers one more skill and checks that this is the next thing heard of.
async fn hears_next_of(heard: &mut UnboundedReceiver<Value>, worker: &Worker, id: &str) {
    register(worker, id, "x").await;
    assert_eq!(next(heard).await, registered(id));
}

#[tokio::test]
async fn a_subscription_that_is_made_again_loses_nothing() {
    let home = Home::new();
    let (subscriber, writer) = (home.worker().await, home.worker().await);
    let mut heard = subscriber.collect("me::heard").await;
    subscriber.subscribe_as("again", SKILLS, "me::heard", json!({})).await;
    let writes = register_many(&writer, "a", 300);
    let repeats = async {
        for _ in 0..30 {
            subscriber.subscribe_as("again", SKILLS, "me::heard", json!({})).await;
        }
    };
    tokio::join!(writes, repeats);
    hears_of_many(&mut heard, "a", 300).await;
}

#[tokio::test]
async fn a_subscriber_hears_of_every_skill_once_and_in_order() {
    let home = Home::new();
    let (subscriber, writer) = (home.worker().await, home.worker().await);
    let mut heard = subscriber.collect("me::heard").await;
    register(&writer, "before", "x").await;
    subscriber.subscribe(SKILLS, "me::heard", json!({})).await;
    register(&writer, "a", "one").await;
    register(&writer, "a", "two").await;
    register(&subscriber, "b", "own changes are heard of too").await;
    remove(&writer, "a").await;
    for change in [
        registered("a"),
        registered("a"),
        registered("b"),
        json!({ "op": "unregister", "id": "a" }),
    ] {
        assert_eq!(next(&mut heard).await, change);
    }
    hears_next_of(&mut heard, &writer, "last").await;
}

#[tokio::test]
async fn prompts_have_a_type_of_their_own() {
    let home = Home::new();
    let worker = home.worker().await;
    let mut skills = worker.collect("me::skills").await;
    let mut prompts = worker.collect("me::prompts").await;
    worker.subscribe(SKILLS, "me::skills", json!({})).await;
    worker.subscribe(PROMPTS, "me::prompts", json!({})).await;
    let prompt = json!({ "name": "p", "description": "d", "function_id": "a::b" });
    worker.ok("prompts::register", prompt).await;
    register(&worker, "s", "x").await;
    worker.ok("prompts::unregister", json!({ "name": "p" })).await;
    assert_eq!(next(&mut prompts).await, json!({ "op": "register", "name": "p" }));
    assert_eq!(next(&mut prompts).await, json!({ "op": "unregister", "name": "p" }));
    assert_eq!(next(&mut skills).await, registered("s"));
    hears_next_of(&mut skills, &worker, "last").await;
    assert!(prompts.try_recv().is_err());
}

#[tokio::test]
async fn what_changes_nothing_is_not_announced() {
    let home = Home::new();
    let worker = home.worker().await;
    let mut heard = worker.collect("me::heard").await;
    worker.subscribe(SKILLS, "me::heard", json!({})).await;
    remove(&worker, "nobody").await;
    for data in [
        json!({ "id": "UPPER", "skill": "x" }),
        json!({ "id": "a", "skill": "" }),
        json!({ "id": "a", "skill": "x".repeat(262_145) }),
        json!({ "id": "a" }),
        Value::Null,
    ] {
        worker.fails("skills::register", data).await;
    }
    worker.ok("skills::list", json!({})).await;
    worker.ok("state::set", json!({ "scope": "s", "key": "k", "value": 1 })).await;
    hears_next_of(&mut heard, &worker, "first").await;
}

#[tokio::test]
async fn two_subscriptions_of_one_function_are_one_delivery() {
    let home = Home::new();
    let worker = home.worker().await;
    let mut heard = worker.collect("me::heard").await;
    let first = worker.subscribe(SKILLS, "me::heard", json!({})).await;
    worker.subscribe(SKILLS, "me::heard", json!({ "other": true })).await;
    hears_next_of(&mut heard, &worker, "a").await;
    hears_next_of(&mut heard, &worker, "b").await;
    // With one of them gone the other still counts.
    worker.send(&json!({ "type": "unregistertrigger", "id": first, "trigger_type": SKILLS }));
    worker.settle().await;
    hears_next_of(&mut heard, &worker, "c").await;
    hears_next_of(&mut heard, &worker, "d").await;
}

#[tokio::test]
async fn two_functions_are_two_deliveries() {
    let home = Home::new();
    let worker = home.worker().await;
    let mut one = worker.collect("me::one").await;
    let mut two = worker.collect("me::two").await;
    worker.subscribe(SKILLS, "me::one", json!({})).await;
    worker.subscribe(SKILLS, "me::two", json!({})).await;
    register_many(&worker, "s", 50).await;
    hears_of_many(&mut one, "s", 50).await;
    hears_of_many(&mut two, "s", 50).await;
}

#[tokio::test]
async fn an_ended_subscription_is_silent() {
    let home = Home::new();
    let worker = home.worker().await;
    let mut ended = worker.collect("me::ended").await;
    let mut heard = worker.collect("me::heard").await;
    let id = worker.subscribe(SKILLS, "me::ended", json!({})).await;
    worker.subscribe(SKILLS, "me::heard", json!({})).await;
    hears_next_of(&mut heard, &worker, "a").await;
    assert_eq!(next(&mut ended).await, registered("a"));
    // SDKs may leave the type out.
    worker.send(&json!({ "type": "unregistertrigger", "id": id }));
    worker.settle().await;
    hears_next_of(&mut heard, &worker, "b").await;
    hears_next_of(&mut heard, &worker, "c").await;
    assert!(ended.try_recv().is_err());
}

#[tokio::test]
async fn nobody_ends_the_subscription_of_another() {
    let home = Home::new();
    let (worker, other) = (home.worker().await, home.worker().await);
    let mut heard = worker.collect("me::heard").await;
    let id = worker.subscribe(SKILLS, "me::heard", json!({})).await;
    other.send(&json!({ "type": "unregistertrigger", "id": id, "trigger_type": SKILLS }));
    other.settle().await;
    hears_next_of(&mut heard, &other, "a").await;
}

#[tokio::test]
async fn a_subscriber_that_has_gone_is_forgotten() {
    let home = Home::new();
    let writer = home.worker().await;
    let gone = home.worker().await;
    gone.collect("gone::heard").await;
    gone.subscribe(SKILLS, "gone::heard", json!({})).await;
    drop(gone);
    let mut heard = writer.collect("me::heard").await;
    writer.subscribe(SKILLS, "me::heard", json!({})).await;
    register_many(&writer, "s", 20).await;
    hears_of_many(&mut heard, "s", 20).await;
    let deadline = Instant::now() + DEADLINE;
    loop {
        let list = writer.ok("engine::registered-triggers::list", json!({})).await;
        let bindings = list["registered_triggers"].as_array().unwrap();
        let targets: Vec<_> = bindings.iter().map(|row| &row["function_id"]).collect();
        if targets == ["me::heard"] {
            break;
        }
        assert!(Instant::now() < deadline, "{targets:?}");
    }
}

#[tokio::test]
async fn a_subscriber_that_comes_back_with_its_id_hears_each_change_once() {
    let home = Home::new();
    let writer = home.worker().await;
    let mut old = home.worker().await;
    let greeting = old.frame("workerregistered").await;
    old.collect("me::heard").await;
    old.subscribe_as("mine", SKILLS, "me::heard", json!({})).await;
    // The old connection still looks alive when the new one comes, as after a lost network.
    let new = home.worker().await;
    new.send(&json!({
        "type": "reattach", "previous_worker_id": greeting["worker_id"],
        "reattach_token": greeting["reattach_token"],
    }));
    let mut heard = new.collect("me::heard").await;
    new.subscribe_as("mine", SKILLS, "me::heard", json!({})).await;
    hears_next_of(&mut heard, &writer, "a").await;
    drop(old);
    register_many(&writer, "s", 20).await;
    hears_of_many(&mut heard, "s", 20).await;
    // Again on the same connection: SDKs of 0.11 send everything twice.
    new.subscribe_as("mine", SKILLS, "me::heard", json!({})).await;
    hears_next_of(&mut heard, &writer, "b").await;
    hears_next_of(&mut heard, &writer, "c").await;
}

#[tokio::test]
async fn a_restart_announces_nothing_again() {
    let home = Home::new();
    let worker = home.worker().await;
    for id in ["a", "b", "c"] {
        register(&worker, id, "x").await;
    }
    remove(&worker, "c").await;
    remove(&worker, "b").await;
    drop(worker);
    let home = home.restart();
    let worker = home.worker().await;
    let mut heard = worker.collect("me::heard").await;
    worker.subscribe(SKILLS, "me::heard", json!({})).await;
    hears_next_of(&mut heard, &worker, "d").await;
}

#[tokio::test]
async fn a_subscriber_that_never_reads_slows_nobody() {
    let home = Home::new();
    let (reader, writer) = (home.worker().await, home.worker().await);
    let mut heard = reader.collect("me::heard").await;
    reader.subscribe(SKILLS, "me::heard", json!({})).await;
    let mut deaf = Peer::connect(&home.server.url).await;
    deaf.send(&json!({ "type": "registerfunction", "id": "deaf::heard" })).await;
    let subscription = json!({
        "type": "registertrigger", "id": "deaf", "trigger_type": SKILLS,
        "function_id": "deaf::heard", "config": {},
    });
    deaf.send(&subscription).await;
    deaf.send(&json!({ "type": "ping" })).await;
    deaf.next_of("pong").await;
    tokio::time::timeout(DEADLINE, register_many(&writer, "s", 500)).await.expect("nobody waits");
    hears_of_many(&mut heard, "s", 500).await;
    // When it reads at last, everything is there for it too.
    for number in 0..500 {
        let frame = deaf.next_of("invokefunction").await;
        assert_eq!(frame["data"], registered(&format!("s{number}")));
    }
}

/// Observes a source and returns the answer.
async fn observe(worker: &mut Worker, id: &str, source: Value, target: &str) -> Value {
    let frame = json!({
        "type": "observe", "id": id, "source": source, "target": { "function_id": target },
    });
    worker.send(&frame);
    worker.frame("observeresult").await
}

#[tokio::test]
async fn an_observer_gets_an_envelope_around_the_change() {
    let home = Home::new();
    let mut worker = home.worker().await;
    // Without a handler the whole frame can be looked at.
    worker.send(&json!({ "type": "registerfunction", "id": "me::observed" }));
    let source = json!({ "function_id": SKILLS });
    let answer = observe(&mut worker, "o1", source, "me::observed").await;
    assert_eq!((&answer["id"], &answer["state"]), (&json!("o1"), &json!("active")));
    register(&worker, "a", "x").await;
    let frame = worker.frame("invokefunction").await;
    assert_eq!(frame["function_id"], "me::observed");
    assert_eq!(frame["activation"]["observer_id"], "o1");
    let envelope = &frame["data"];
    assert_eq!(envelope["observer_id"], "o1");
    assert_eq!(envelope["activation_id"], frame["activation"]["activation_id"]);
    assert_eq!(envelope["function_id"], SKILLS);
    assert_eq!(envelope["status"], "success");
    assert_eq!(envelope["input"], registered("a"));
    assert!(envelope["invocation_id"].is_string() && envelope["duration_ms"].is_number());
    assert!(envelope["started_at_ms"].as_u64().unwrap() > 1_700_000_000_000);
}

#[tokio::test]
async fn an_observer_may_ask_for_the_change_alone() {
    let home = Home::new();
    let mut worker = home.worker().await;
    let mut heard = worker.collect("me::observed").await;
    let source = json!({ "function_id": PROMPTS, "deliver": "input" });
    observe(&mut worker, "o1", source, "me::observed").await;
    let prompt = json!({ "name": "p", "description": "d", "function_id": "a::b" });
    worker.ok("prompts::register", prompt).await;
    worker.ok("prompts::unregister", json!({ "name": "p" })).await;
    assert_eq!(next(&mut heard).await, json!({ "op": "register", "name": "p" }));
    assert_eq!(next(&mut heard).await, json!({ "op": "unregister", "name": "p" }));
}

#[tokio::test]
async fn an_observer_ends_when_it_wants_to_and_when_it_has_had_enough() {
    let home = Home::new();
    let mut worker = home.worker().await;
    let mut few = worker.collect("me::few").await;
    let mut ended = worker.collect("me::ended").await;
    let mut heard = worker.collect("me::heard").await;
    worker.subscribe(SKILLS, "me::heard", json!({})).await;
    let source = json!({ "function_id": SKILLS, "deliver": "input" });
    observe(&mut worker, "ended", source.clone(), "me::ended").await;
    worker.send(&json!({
        "type": "observe", "id": "few", "source": source, "max_fires": 2,
        "target": { "function_id": "me::few" },
    }));
    worker.frame("observeresult").await;
    worker.send(&json!({ "type": "unobserve", "id": "ended" }));
    let disposed = worker.frame("observerstatechanged").await;
    assert_eq!((&disposed["id"], &disposed["state"]), (&json!("ended"), &json!("disposed")));
    for id in ["a", "b", "c"] {
        hears_next_of(&mut heard, &worker, id).await;
    }
    assert_eq!(next(&mut few).await, registered("a"));
    assert_eq!(next(&mut few).await, registered("b"));
    let disposed = worker.frame("observerstatechanged").await;
    assert_eq!((&disposed["id"], &disposed["fires"]), (&json!("few"), &json!(2)));
    assert!(few.try_recv().is_err() && ended.try_recv().is_err());
}

#[tokio::test]
async fn a_trigger_and_an_observer_of_one_function_are_one_delivery() {
    let home = Home::new();
    let mut worker = home.worker().await;
    let mut heard = worker.collect("me::heard").await;
    let source = json!({ "function_id": SKILLS });
    observe(&mut worker, "o1", source, "me::heard").await;
    let trigger = worker.subscribe(SKILLS, "me::heard", json!({})).await;
    hears_next_of(&mut heard, &worker, "a").await;
    hears_next_of(&mut heard, &worker, "b").await;
    worker.send(&json!({ "type": "unregistertrigger", "id": trigger, "trigger_type": SKILLS }));
    worker.settle().await;
    register(&worker, "c", "x").await;
    let envelope = next(&mut heard).await;
    assert_eq!(envelope["input"], registered("c"), "now it is the observer's turn");
    assert!(keys(&envelope).contains(&"observer_id"));
}

#[tokio::test]
async fn the_announcing_functions_cannot_be_called() {
    let home = Home::new();
    let worker = home.worker().await;
    let mut heard = worker.collect("me::heard").await;
    worker.subscribe(SKILLS, "me::heard", json!({})).await;
    for function_id in [SKILLS, PROMPTS] {
        let failure = worker.fails(function_id, registered("forged")).await;
        assert_eq!(failure.code, "not_callable");
    }
    hears_next_of(&mut heard, &worker, "real").await;
}

#[tokio::test]
async fn a_subscription_whose_function_comes_later_hears_from_then_on() {
    let home = Home::new();
    let worker = home.worker().await;
    worker.subscribe(SKILLS, "me::late", json!({})).await;
    register(&worker, "unheard", "x").await;
    // Delivered to nobody before the function is there: a second subscriber proves it.
    let mut witness = worker.collect("me::witness").await;
    worker.subscribe(SKILLS, "me::witness", json!({})).await;
    hears_next_of(&mut witness, &worker, "witnessed").await;
    let mut late = worker.collect("me::late").await;
    register(&worker, "heard", "x").await;
    loop {
        let change = next(&mut late).await;
        if change == registered("heard") {
            break;
        }
        assert_eq!(change, registered("witnessed"), "only what may have been under way");
    }
}
