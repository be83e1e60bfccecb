//! Change notifications: each change exactly once and in order to every subscriber.

use std::time::Instant;

use serde_json::{Value, json};
use skills_testkit::{DEADLINE, Peer, Worker, next};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::support::{TestServer, keys, register};

const SKILLS: &str = "skills::on-change";
const PROMPTS: &str = "prompts::on-change";

fn register_event(id: &str) -> Value {
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

/// Checks that the next notifications are those of `register_many`.
async fn expect_events_of_many(
    received: &mut UnboundedReceiver<Value>,
    prefix: &str,
    count: usize,
) {
    for number in 0..count {
        assert_eq!(next(received).await, register_event(&format!("{prefix}{number}")));
    }
}

/// Registers one more skill and checks that its notification is the next one.
async fn expect_next_event_of(received: &mut UnboundedReceiver<Value>, worker: &Worker, id: &str) {
    register(worker, id, "x").await;
    assert_eq!(next(received).await, register_event(id));
}

#[tokio::test]
async fn a_repeated_subscription_loses_no_change() {
    let server = TestServer::new();
    let (subscriber, writer) = (server.worker().await, server.worker().await);
    let mut received = subscriber.collect("me::heard").await;
    subscriber.subscribe_as("again", SKILLS, "me::heard", json!({})).await;
    let writes = register_many(&writer, "a", 300);
    let repeats = async {
        for _ in 0..30 {
            subscriber.subscribe_as("again", SKILLS, "me::heard", json!({})).await;
        }
    };
    tokio::join!(writes, repeats);
    expect_events_of_many(&mut received, "a", 300).await;
}

#[tokio::test]
async fn a_subscriber_receives_every_skill_change_once_in_order() {
    let server = TestServer::new();
    let (subscriber, writer) = (server.worker().await, server.worker().await);
    let mut received = subscriber.collect("me::heard").await;
    register(&writer, "before", "x").await;
    subscriber.subscribe(SKILLS, "me::heard", json!({})).await;
    register(&writer, "a", "one").await;
    register(&writer, "a", "two").await;
    register(&subscriber, "b", "own changes are heard of too").await;
    remove(&writer, "a").await;
    for change in [
        register_event("a"),
        register_event("a"),
        register_event("b"),
        json!({ "op": "unregister", "id": "a" }),
    ] {
        assert_eq!(next(&mut received).await, change);
    }
    expect_next_event_of(&mut received, &writer, "last").await;
}

#[tokio::test]
async fn prompts_have_their_own_trigger_type() {
    let server = TestServer::new();
    let worker = server.worker().await;
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
    assert_eq!(next(&mut skills).await, register_event("s"));
    expect_next_event_of(&mut skills, &worker, "last").await;
    assert!(prompts.try_recv().is_err());
}

#[tokio::test]
async fn no_op_writes_do_not_notify() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let mut received = worker.collect("me::heard").await;
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
    expect_next_event_of(&mut received, &worker, "first").await;
}

#[tokio::test]
async fn two_subscriptions_of_one_function_are_one_delivery() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let mut received = worker.collect("me::heard").await;
    let first = worker.subscribe(SKILLS, "me::heard", json!({})).await;
    worker.subscribe(SKILLS, "me::heard", json!({ "other": true })).await;
    expect_next_event_of(&mut received, &worker, "a").await;
    expect_next_event_of(&mut received, &worker, "b").await;
    // The other subscription still counts.
    worker.send(&json!({ "type": "unregistertrigger", "id": first, "trigger_type": SKILLS }));
    worker.flush().await;
    expect_next_event_of(&mut received, &worker, "c").await;
    expect_next_event_of(&mut received, &worker, "d").await;
}

#[tokio::test]
async fn two_functions_are_two_deliveries() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let mut one = worker.collect("me::one").await;
    let mut two = worker.collect("me::two").await;
    worker.subscribe(SKILLS, "me::one", json!({})).await;
    worker.subscribe(SKILLS, "me::two", json!({})).await;
    register_many(&worker, "s", 50).await;
    expect_events_of_many(&mut one, "s", 50).await;
    expect_events_of_many(&mut two, "s", 50).await;
}

#[tokio::test]
async fn an_ended_subscription_receives_nothing() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let mut ended = worker.collect("me::ended").await;
    let mut received = worker.collect("me::heard").await;
    let id = worker.subscribe(SKILLS, "me::ended", json!({})).await;
    worker.subscribe(SKILLS, "me::heard", json!({})).await;
    expect_next_event_of(&mut received, &worker, "a").await;
    assert_eq!(next(&mut ended).await, register_event("a"));
    // SDKs may omit the type.
    worker.send(&json!({ "type": "unregistertrigger", "id": id }));
    worker.flush().await;
    expect_next_event_of(&mut received, &worker, "b").await;
    expect_next_event_of(&mut received, &worker, "c").await;
    assert!(ended.try_recv().is_err());
}

#[tokio::test]
async fn a_worker_cannot_end_the_subscription_of_another() {
    let server = TestServer::new();
    let (worker, other) = (server.worker().await, server.worker().await);
    let mut received = worker.collect("me::heard").await;
    let id = worker.subscribe(SKILLS, "me::heard", json!({})).await;
    other.send(&json!({ "type": "unregistertrigger", "id": id, "trigger_type": SKILLS }));
    other.flush().await;
    expect_next_event_of(&mut received, &other, "a").await;
}

#[tokio::test]
async fn a_disconnected_subscriber_is_removed() {
    let server = TestServer::new();
    let writer = server.worker().await;
    let gone = server.worker().await;
    gone.collect("gone::heard").await;
    gone.subscribe(SKILLS, "gone::heard", json!({})).await;
    drop(gone);
    let mut received = writer.collect("me::heard").await;
    writer.subscribe(SKILLS, "me::heard", json!({})).await;
    register_many(&writer, "s", 20).await;
    expect_events_of_many(&mut received, "s", 20).await;
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
async fn a_reconnected_subscriber_receives_each_change_once() {
    let server = TestServer::new();
    let writer = server.worker().await;
    let mut old = server.worker().await;
    let greeting = old.frame("workerregistered").await;
    old.collect("me::heard").await;
    old.subscribe_as("mine", SKILLS, "me::heard", json!({})).await;
    // The old connection still looks alive when the new one opens, as after a network loss.
    let new = server.worker().await;
    new.send(&json!({
        "type": "reattach", "previous_worker_id": greeting["worker_id"],
        "reattach_token": greeting["reattach_token"],
    }));
    let mut received = new.collect("me::heard").await;
    new.subscribe_as("mine", SKILLS, "me::heard", json!({})).await;
    expect_next_event_of(&mut received, &writer, "a").await;
    drop(old);
    register_many(&writer, "s", 20).await;
    expect_events_of_many(&mut received, "s", 20).await;
    // Repeats the subscription: SDK 0.11 sends everything twice.
    new.subscribe_as("mine", SKILLS, "me::heard", json!({})).await;
    expect_next_event_of(&mut received, &writer, "b").await;
    expect_next_event_of(&mut received, &writer, "c").await;
}

#[tokio::test]
async fn a_restart_does_not_repeat_notifications() {
    let server = TestServer::new();
    let worker = server.worker().await;
    for id in ["a", "b", "c"] {
        register(&worker, id, "x").await;
    }
    remove(&worker, "c").await;
    remove(&worker, "b").await;
    drop(worker);
    let server = server.restart();
    let worker = server.worker().await;
    let mut received = worker.collect("me::heard").await;
    worker.subscribe(SKILLS, "me::heard", json!({})).await;
    expect_next_event_of(&mut received, &worker, "d").await;
}

#[tokio::test]
async fn a_subscriber_that_never_reads_does_not_slow_others() {
    let server = TestServer::new();
    let (reader, writer) = (server.worker().await, server.worker().await);
    let mut received = reader.collect("me::heard").await;
    reader.subscribe(SKILLS, "me::heard", json!({})).await;
    let mut deaf = Peer::connect(&server.process.url).await;
    deaf.send(&json!({ "type": "registerfunction", "id": "deaf::heard" })).await;
    let subscription = json!({
        "type": "registertrigger", "id": "deaf", "trigger_type": SKILLS,
        "function_id": "deaf::heard", "config": {},
    });
    deaf.send(&subscription).await;
    deaf.send(&json!({ "type": "ping" })).await;
    deaf.next_of_type("pong").await;
    tokio::time::timeout(DEADLINE, register_many(&writer, "s", 500)).await.expect("nobody waits");
    expect_events_of_many(&mut received, "s", 500).await;
    // When it reads at last, everything arrives.
    for number in 0..500 {
        let frame = deaf.next_of_type("invokefunction").await;
        assert_eq!(frame["data"], register_event(&format!("s{number}")));
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
async fn an_observer_receives_the_change_in_an_envelope() {
    let server = TestServer::new();
    let mut worker = server.worker().await;
    // Without a handler the test sees the whole frame.
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
    assert_eq!(envelope["input"], register_event("a"));
    assert!(envelope["invocation_id"].is_string() && envelope["duration_ms"].is_number());
    assert!(envelope["started_at_ms"].as_u64().unwrap() > 1_700_000_000_000);
}

#[tokio::test]
async fn an_observer_may_request_the_change_without_an_envelope() {
    let server = TestServer::new();
    let mut worker = server.worker().await;
    let mut received = worker.collect("me::observed").await;
    let source = json!({ "function_id": PROMPTS, "deliver": "input" });
    observe(&mut worker, "o1", source, "me::observed").await;
    let prompt = json!({ "name": "p", "description": "d", "function_id": "a::b" });
    worker.ok("prompts::register", prompt).await;
    worker.ok("prompts::unregister", json!({ "name": "p" })).await;
    assert_eq!(next(&mut received).await, json!({ "op": "register", "name": "p" }));
    assert_eq!(next(&mut received).await, json!({ "op": "unregister", "name": "p" }));
}

#[tokio::test]
async fn an_observer_ends_on_request_and_at_its_count() {
    let server = TestServer::new();
    let mut worker = server.worker().await;
    let mut few = worker.collect("me::few").await;
    let mut ended = worker.collect("me::ended").await;
    let mut received = worker.collect("me::heard").await;
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
        expect_next_event_of(&mut received, &worker, id).await;
    }
    assert_eq!(next(&mut few).await, register_event("a"));
    assert_eq!(next(&mut few).await, register_event("b"));
    let disposed = worker.frame("observerstatechanged").await;
    assert_eq!((&disposed["id"], &disposed["fires"]), (&json!("few"), &json!(2)));
    assert!(few.try_recv().is_err() && ended.try_recv().is_err());
}

#[tokio::test]
async fn a_trigger_and_an_observer_of_one_function_are_one_delivery() {
    let server = TestServer::new();
    let mut worker = server.worker().await;
    let mut received = worker.collect("me::heard").await;
    let source = json!({ "function_id": SKILLS });
    observe(&mut worker, "o1", source, "me::heard").await;
    let trigger = worker.subscribe(SKILLS, "me::heard", json!({})).await;
    expect_next_event_of(&mut received, &worker, "a").await;
    expect_next_event_of(&mut received, &worker, "b").await;
    worker.send(&json!({ "type": "unregistertrigger", "id": trigger, "trigger_type": SKILLS }));
    worker.flush().await;
    register(&worker, "c", "x").await;
    let envelope = next(&mut received).await;
    assert_eq!(envelope["input"], register_event("c"), "now it is the observer's turn");
    assert!(keys(&envelope).contains(&"observer_id"));
}

#[tokio::test]
async fn the_on_change_functions_cannot_be_called() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let mut received = worker.collect("me::heard").await;
    worker.subscribe(SKILLS, "me::heard", json!({})).await;
    for function_id in [SKILLS, PROMPTS] {
        let failure = worker.fails(function_id, register_event("forged")).await;
        assert_eq!(failure.code, "not_callable", "{function_id:?}");
    }
    expect_next_event_of(&mut received, &worker, "real").await;
}

#[tokio::test]
async fn a_subscription_starts_once_its_function_is_registered() {
    let server = TestServer::new();
    let worker = server.worker().await;
    worker.subscribe(SKILLS, "me::late", json!({})).await;
    register(&worker, "unheard", "x").await;
    // Nothing is delivered before the function exists: a second subscriber proves it.
    let mut witness = worker.collect("me::witness").await;
    worker.subscribe(SKILLS, "me::witness", json!({})).await;
    expect_next_event_of(&mut witness, &worker, "witnessed").await;
    let mut late = worker.collect("me::late").await;
    register(&worker, "heard", "x").await;
    loop {
        let change = next(&mut late).await;
        if change == register_event("heard") {
            break;
        }
        assert_eq!(change, register_event("witnessed"), "only what may have been under way");
    }
}
