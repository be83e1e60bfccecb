//! Signals: running calls are answered, and the process ends within three seconds.

use serde_json::{Value, json};
use skills_testkit::{CallFailure, Worker};

use crate::support::{
    attached::{AttachedWorker, wait_until_not_serving},
    engine::TestEngine,
    register,
};

/// Starts a call and returns its worker, the call, and the pending result.
async fn start_call(
    engine: &TestEngine,
) -> (Worker, Value, impl Future<Output = Result<Value, CallFailure>> + use<>) {
    let mut handler = engine.worker().await;
    handler.send(&json!({ "type": "registerfunction", "id": "demo::slow" }));
    handler.flush().await;
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
async fn shutdown_answers_running_calls() {
    let engine = TestEngine::start().await;
    let attached = AttachedWorker::start(&engine).await;
    let (handler, asked, call) = start_call(&engine).await;
    let worker = engine.worker().await;
    attached.signal("TERM");
    wait_until_not_serving(&worker).await;
    handler.send(&json!({
        "type": "invocationresult", "invocation_id": asked["invocation_id"],
        "function_id": "demo::slow", "result": "at last",
    }));
    let answer = call.await.unwrap();
    assert_eq!(answer["contents"][0]["text"], "at last");
    let (_, code, output) = attached.ended().await;
    assert_eq!(code, Some(0), "{output}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shutdown_does_not_wait_for_endless_calls() {
    let engine = TestEngine::start().await;
    // The call takes longer than any wait.
    let attached = AttachedWorker::with_config(&engine, "state_timeout_ms: 600000").await;
    let (_handler, _, call) = start_call(&engine).await;
    attached.signal("TERM");
    let (_, code, output) = attached.ended().await;
    assert_eq!(code, Some(0), "{output}");
    call.await.unwrap_err();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigint_and_sigterm_stop_it_with_and_without_an_engine() {
    for signal in ["TERM", "INT"] {
        let mut engine = TestEngine::start().await;
        let attached = AttachedWorker::start(&engine).await;
        let idle = AttachedWorker::spawn(&engine.url(), "");
        engine.stop().await;
        for attached in [attached, idle] {
            // This message proves that signal handlers are installed.
            attached.says("no connection to the engine").await;
            attached.signal(signal);
            let (_, code, output) = attached.ended().await;
            assert_eq!(code, Some(0), "{output}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_writes_survive_shutdown() {
    let engine = TestEngine::start().await;
    let worker = engine.worker().await;
    let attached = AttachedWorker::start(&engine).await;
    for number in 0..20 {
        register(&worker, &format!("s{number}"), "x").await;
    }
    attached.stop().await;
    wait_until_not_serving(&worker).await;
    let _attached = AttachedWorker::start(&engine).await;
    assert_eq!(crate::support::ids(&worker).await.len(), 20);
}
