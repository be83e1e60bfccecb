//! Signals: what runs is answered, and it is over within three seconds.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use skills_testkit::{CallFailure, Worker};

use crate::{
    attached::{Attached, serves_no_more},
    engine::Engine,
    support::register,
};

/// It promises three seconds; what it must not wait for takes ten. A machine may be busy.
const AT_MOST: Duration = Duration::from_secs(8);

/// A call that runs: who serves its function, what it was asked, and what the caller gets.
async fn busy(
    engine: &Engine,
) -> (Worker, Value, impl Future<Output = Result<Value, CallFailure>> + use<>) {
    let mut handler = engine.worker().await;
    handler.send(&json!({ "type": "registerfunction", "id": "demo::slow" }));
    handler.settle().await;
    let caller = engine.worker().await;
    let call = caller.start("skills::resources-read", &json!({ "uri": "iii://d/demo::slow" }));
    let asked = handler.frame("invokefunction").await;
    let call = async move {
        let answer = call.await;
        drop(caller);
        answer
    };
    (handler, asked, call)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_call_is_answered_before_the_end() {
    let engine = Engine::start().await;
    let attached = Attached::to(&engine).await;
    let (handler, asked, call) = busy(&engine).await;
    let worker = engine.worker().await;
    let started = Instant::now();
    attached.signal("TERM");
    serves_no_more(&worker).await;
    handler.send(&json!({
        "type": "invocationresult", "invocation_id": asked["invocation_id"],
        "function_id": "demo::slow", "result": "at last",
    }));
    let answer = call.await.unwrap();
    assert_eq!(answer["contents"][0]["text"], "at last");
    let (_, code, said) = attached.ended().await;
    assert_eq!(code, Some(0), "{said}");
    assert!(started.elapsed() < AT_MOST, "{:?}", started.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_never_ends_does_not_hold_it_up() {
    let engine = Engine::start().await;
    let attached = Attached::to(&engine).await;
    let (_handler, _, call) = busy(&engine).await;
    let started = Instant::now();
    attached.signal("TERM");
    let (_, code, said) = attached.ended().await;
    assert_eq!(code, Some(0), "{said}");
    assert!(started.elapsed() < AT_MOST, "{:?}", started.elapsed());
    call.await.unwrap_err();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_signals_end_it_with_and_without_an_engine() {
    for signal in ["TERM", "INT"] {
        let mut engine = Engine::start().await;
        let attached = Attached::to(&engine).await;
        let idle = Attached::spawn(&engine.url(), "");
        engine.stop().await;
        for attached in [attached, idle] {
            // What it says when it cannot connect proves that it handles signals by now.
            attached.says("no connection to the engine").await;
            let started = Instant::now();
            attached.signal(signal);
            let (_, code, said) = attached.ended().await;
            assert_eq!(code, Some(0), "{said}");
            assert!(started.elapsed() < AT_MOST, "{:?}", started.elapsed());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_before_the_end_is_there_after_it() {
    let engine = Engine::start().await;
    let worker = engine.worker().await;
    let attached = Attached::to(&engine).await;
    for number in 0..20 {
        register(&worker, &format!("s{number}"), "x").await;
    }
    attached.stop().await;
    serves_no_more(&worker).await;
    let _attached = Attached::to(&engine).await;
    assert_eq!(crate::support::ids(&worker).await.len(), 20);
}
