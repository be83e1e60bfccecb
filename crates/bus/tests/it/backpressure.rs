//! Backpressure: peers that do not read and callers over the limits.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::json;
use skills_bus::{Bus as _, CallError, FunctionCall, HubConfig, Json};

use crate::test_hub::*;

#[tokio::test]
async fn unanswered_calls_are_limited() {
    let test = TestHub::with(HubConfig { max_open_calls: 3, ..HubConfig::default() }).await;
    let mut worker = test.worker(&["a::f"]).await;
    let mut caller = test.peer().await;
    for n in 0..3 {
        caller.start_call(&n.to_string(), "a::f", json!({})).await;
    }
    assert_eq!(caller.call_error("a::f", json!({})).await, "too_many_calls");
    let invoke = worker.expect("invokefunction").await;
    worker.answer(&invoke, json!(1)).await;
    caller.expect("invocationresult").await;
    caller.start_call("again", "a::f", json!({})).await;
    assert!(caller.barrier().await.is_empty(), "there is room again");
}

#[tokio::test]
async fn void_calls_to_this_process_are_never_dropped() {
    let test = TestHub::with(HubConfig { max_open_calls: 3, ..HubConfig::default() }).await;
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let function = {
        let (gate, seen) = (gate.clone(), seen.clone());
        move |call: FunctionCall| {
            let (gate, seen) = (gate.clone(), seen.clone());
            async move {
                seen.lock().unwrap().push(call.data.parse::<u64>().unwrap());
                gate.acquire().await.unwrap().forget();
                Ok::<_, CallError>(Json::null())
            }
        }
    };
    test.hub.register_function(spec("local::gated"), Arc::new(function));
    let mut caller = test.peer().await;
    for n in 0..100 {
        caller
            .send(json!({"type": "invokefunction", "function_id": "local::gated", "data": n, "action": {"type": "void"}}))
            .await;
    }
    until("some calls have begun", || seen.lock().unwrap().len() == 4).await;
    let mut other = test.peer().await;
    other.barrier().await;
    assert_eq!(seen.lock().unwrap().len(), 4, "the caller is not read from meanwhile");
    gate.add_permits(100);
    until("all calls have begun", || seen.lock().unwrap().len() == 100).await;
    assert_eq!(*seen.lock().unwrap(), (0..100).collect::<Vec<_>>());
    assert!(caller.barrier().await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_does_not_read_does_not_affect_others() {
    let config =
        HubConfig { max_queued_calls: 16, max_queued_call_bytes: 4 * MIB, ..HubConfig::default() };
    let test = TestHub::with(config).await;
    // Registers and never reads again.
    let stuck = test.worker(&["stuck::f"]).await;
    let mut good = test.worker(&["good::f"]).await;
    let mut caller = test.peer().await;
    let big = "x".repeat(MIB / 2);
    let mut congested = None;
    for n in 0..200 {
        caller.start_call(&format!("stuck {n}"), "stuck::f", json!({"big": big})).await;
        let mut frames = caller.barrier().await;
        if let Some(frame) = frames.pop() {
            congested = Some(frame);
            break;
        }
    }
    let congested = congested.expect("the queue is bounded");
    assert_eq!(congested["error"]["code"], "channel_send_failed");
    // Other peers are served as before.
    for n in 0..100 {
        caller.start_call(&n.to_string(), "good::f", json!(n)).await;
        let invoke = good.expect("invokefunction").await;
        good.answer(&invoke, json!(n)).await;
        assert_eq!(caller.expect("invocationresult").await["result"], n);
    }
    let same =
        test.hub.call("stuck::f", payload(&json!({"big": big})), DEADLINE).await.unwrap_err();
    assert_eq!(same, CallError::Congested("stuck::f".into()));
    drop(stuck);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_reads_nothing_is_disconnected() {
    let config = HubConfig { write_timeout: Duration::from_millis(200), ..HubConfig::default() };
    let test = TestHub::with(config).await;
    let stuck = test.worker(&["stuck::f"]).await;
    let mut caller = test.peer().await;
    let big = "x".repeat(MIB / 2);
    for n in 0..60 {
        caller.start_call(&n.to_string(), "stuck::f", json!(big)).await;
    }
    let mut codes = Vec::new();
    for _ in 0..60 {
        let answer = caller.expect("invocationresult").await;
        codes.push(answer["error"]["code"].as_str().unwrap().to_owned());
    }
    assert!(codes.contains(&"invocation_stopped".to_owned()));
    // Calls in flight when the worker was disconnected.
    codes.retain(|code| code != "invocation_stopped" && code != "function_not_found");
    assert!(codes.is_empty(), "{codes:?}");
    assert_eq!(test.hub.worker_count(), 1);
    drop(stuck);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_does_not_read_its_answers_is_not_read_from() {
    let config = HubConfig { max_queued_reply_bytes: 4 * MIB, ..HubConfig::default() };
    let test = TestHub::with(config).await;
    let count = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let big = payload(&json!("x".repeat(MIB / 2)));
    let function = {
        let count = count.clone();
        move |_: FunctionCall| {
            count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            let big = big.clone();
            async move { Ok::<_, CallError>(big) }
        }
    };
    test.hub.register_function(spec("local::big"), Arc::new(function));
    let mut greedy = test.peer().await;
    for n in 0..400 {
        greedy.start_call(&n.to_string(), "local::big", json!(null)).await;
    }
    let mut other = test.peer().await;
    other.call("local::big", json!(null)).await;
    assert!(count.load(std::sync::atomic::Ordering::SeqCst) < 300, "the hub stopped reading");
    for n in 0..400 {
        let answer = greedy.expect("invocationresult").await;
        assert_eq!(answer["invocation_id"], n.to_string());
        assert!(answer["result"].is_string(), "nothing was lost: {}", brief(&answer));
    }
}

#[tokio::test]
async fn notify_waits_for_queue_space_and_keeps_order() {
    let config = HubConfig { max_queued_calls: 2, ..HubConfig::default() };
    let test = TestHub::with(config).await;
    let mut worker = test.worker(&["a::f"]).await;
    let hub = test.hub.clone();
    let sender = tokio::spawn(async move {
        for n in 0..500 {
            hub.notify("a::f", payload(&json!({"n": n})), None).await.unwrap();
        }
    });
    for n in 0..500 {
        let invoke = worker.expect("invokefunction").await;
        assert_eq!(invoke["data"], json!({"n": n}));
        assert_eq!(invoke["action"]["type"], "void");
    }
    sender.await.unwrap();
    let missing = test.hub.notify("no::such", Json::null(), None).await.unwrap_err();
    assert_eq!(missing, CallError::NotFound("no::such".into()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn notify_fails_when_the_worker_disconnects_while_its_queue_is_full() {
    let config = HubConfig { max_queued_calls: 1, ..HubConfig::default() };
    let test = TestHub::with(config).await;
    let worker = test.worker(&["a::f"]).await;
    let hub = test.hub.clone();
    let big = payload(&json!("x".repeat(MIB)));
    let (sent, mut first) = tokio::sync::watch::channel(0);
    let sender = tokio::spawn(async move {
        loop {
            if let Err(error) = hub.notify("a::f", big.clone(), None).await {
                return error;
            }
            sent.send_modify(|count| *count += 1);
        }
    });
    first.wait_for(|count| *count > 2).await.unwrap();
    drop(worker);
    let error = tokio::time::timeout(DEADLINE, sender).await.unwrap().unwrap();
    assert!(matches!(error, CallError::Stopped(_) | CallError::NotFound(_)), "{error:?}");
}
