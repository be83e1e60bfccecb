//! Calls between workers and with the hub process.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use skills_bus::{Bus as _, CallError, FunctionCall, HubConfig, Json};
use skills_core::Coded as _;

use crate::test_hub::*;

#[tokio::test]
async fn calls_and_answers_carry_their_payload_unchanged() {
    let test = TestHub::start().await;
    let mut worker = test.worker(&["a::f"]).await;
    let mut caller = test.peer().await;
    caller
        .send(json!({"type": "invokefunction", "invocation_id": "my own id \"1\"", "function_id": "a::f",
            "data": {"x": [1, 2.50, "é\u{0}"]}, "traceparent": "00-t", "baggage": "k=v", "metadata": {"m": 1},
            "caller": {"function_id": "c::g"}, "namespace": "default", "unknown": {"is": "ignored"}}))
        .await;
    let invoke = worker.expect("invokefunction").await;
    let id = invoke["invocation_id"].as_str().unwrap();
    assert_eq!(uuid::Uuid::try_parse(id).unwrap().to_string(), id, "Rust SDKs need a UUID");
    assert_eq!(invoke["function_id"], "a::f");
    assert_eq!(invoke["data"], json!({"x": [1, 2.50, "é\u{0}"], "_caller_worker_id": caller.id}));
    assert_eq!(invoke["traceparent"], "00-t");
    assert_eq!(invoke["baggage"], "k=v");
    assert_eq!(invoke["metadata"], json!({"m": 1}));
    assert_eq!(invoke["caller"], json!({"function_id": "c::g"}));
    assert!(invoke.get("unknown").is_none());

    worker
        .send(json!({"type": "invocationresult", "invocation_id": id, "function_id": "a::f",
            "result": {"ok": true}, "traceparent": "00-r", "matched": [], "delivered": true}))
        .await;
    let answer = caller.expect("invocationresult").await;
    assert_eq!(
        answer,
        json!({"type": "invocationresult", "invocation_id": "my own id \"1\"", "function_id": "a::f",
            "result": {"ok": true}, "traceparent": "00-r"})
    );
}

#[tokio::test]
async fn only_object_payloads_get_the_callers_id() {
    let test = TestHub::start().await;
    let mut worker = test.worker(&["a::f"]).await;
    let mut caller = test.peer().await;
    let cases = [
        (json!({}), json!({"_caller_worker_id": caller.id})),
        (json!({"_caller_worker_id": "forged"}), json!({"_caller_worker_id": caller.id})),
        (json!([1]), json!([1])),
        (json!("{}"), json!("{}")),
        (json!(null), json!(null)),
        (json!(false), json!(false)),
    ];
    for (sent, received) in cases {
        caller.start_call("1", "a::f", sent).await;
        let invoke = worker.expect("invokefunction").await;
        assert_eq!(invoke["data"], received);
        worker.answer(&invoke, json!(null)).await;
        assert_eq!(caller.expect("invocationresult").await.get("result"), Some(&Value::Null));
    }
}

#[tokio::test]
async fn adding_the_callers_id_can_be_disabled() {
    let test = TestHub::with(HubConfig { inject_caller_id: false, ..HubConfig::default() }).await;
    let mut worker = test.worker(&["a::f"]).await;
    let mut caller = test.peer().await;
    caller.start_call("1", "a::f", json!({"k": 1})).await;
    assert_eq!(worker.expect("invokefunction").await["data"], json!({"k": 1}));
}

#[tokio::test]
async fn absent_data_and_results_are_null() {
    let test = TestHub::start().await;
    test.hub.register_function(spec("local::echo"), echo());
    let mut worker = test.worker(&["a::f"]).await;
    let mut caller = test.peer().await;
    caller
        .send(json!({"type": "invokefunction", "invocation_id": "1", "function_id": "a::f"}))
        .await;
    let invoke = worker.expect("invokefunction").await;
    assert_eq!(invoke.get("data"), Some(&Value::Null), "Rust SDKs drop a frame without data");
    worker
        .send(json!({"type": "invocationresult", "invocation_id": invoke["invocation_id"], "function_id": "a::f"}))
        .await;
    assert_eq!(caller.expect("invocationresult").await.get("result"), Some(&Value::Null));

    caller
        .send(json!({"type": "invokefunction", "invocation_id": "2", "function_id": "local::echo"}))
        .await;
    assert_eq!(caller.expect("invocationresult").await.get("result"), Some(&Value::Null));
}

#[tokio::test]
async fn an_unknown_function_is_not_found() {
    let test = TestHub::start().await;
    let mut caller = test.peer().await;
    let answer = caller.call("no::such", json!({})).await;
    assert_eq!(answer["error"]["code"], "function_not_found");
    assert!(answer["error"]["message"].as_str().unwrap().contains("no::such"));
    let long = "x".repeat(100_000);
    let answer = caller.call(&long, json!({})).await;
    assert!(answer["error"]["message"].as_str().unwrap().len() < 300, "messages stay short");
}

#[tokio::test]
async fn calls_fail_when_their_worker_disconnects() {
    let test = TestHub::start().await;
    let mut worker = test.worker(&["a::f"]).await;
    let mut caller = test.peer().await;
    caller.start_call("1", "a::f", json!({})).await;
    caller.start_call("2", "a::f", json!({})).await;
    worker.expect("invokefunction").await;
    worker.expect("invokefunction").await;
    drop(worker);
    for id in ["1", "2"] {
        let answer = caller.expect("invocationresult").await;
        assert_eq!(answer["error"]["code"], "invocation_stopped", "{id}");
        assert!(["1", "2"].contains(&answer["invocation_id"].as_str().unwrap()), "{id}");
    }
    assert_eq!(caller.call_error("a::f", json!({})).await, "function_not_found");
}

#[tokio::test]
async fn answers_to_a_disconnected_caller_are_dropped() {
    let test = TestHub::start().await;
    let mut worker = test.worker(&["a::f"]).await;
    let mut caller = test.peer().await;
    caller.start_call("1", "a::f", json!({})).await;
    let invoke = worker.expect("invokefunction").await;
    drop(caller);
    until("the caller has left", || test.hub.worker_count() == 1).await;
    let list = worker.call("engine::workers::list", json!({})).await;
    assert_eq!(list["result"]["workers"][0]["active_invocations"], 0);
    worker.answer(&invoke, json!("nobody wants it")).await;
    assert!(worker.barrier().await.is_empty(), "the worker is not bothered");
}

#[tokio::test]
async fn void_calls_are_delivered_and_never_answered() {
    let test = TestHub::start().await;
    let mut worker = test.worker(&["a::f"]).await;
    let mut caller = test.peer().await;
    let void = json!({"type": "void"});
    let frames = [
        json!({"type": "invokefunction", "function_id": "a::f", "data": {"n": 0}, "action": void}),
        json!({"type": "invokefunction", "invocation_id": null, "function_id": "a::f", "data": {"n": 1}, "action": void}),
        json!({"type": "invokefunction", "invocation_id": "x", "function_id": "a::f", "data": {"n": 2}, "action": void}),
        json!({"type": "invokefunction", "function_id": "a::f", "data": {"n": 3}}),
        json!({"type": "invokefunction", "invocation_id": null, "function_id": "a::f", "data": {"n": 4}}),
        json!({"type": "invokefunction", "function_id": "no::such", "data": {}, "action": void}),
        json!({"type": "invokefunction", "invocation_id": "y", "function_id": "no::such", "action": void}),
    ];
    for frame in frames {
        caller.send(frame).await;
    }
    for n in 0..5 {
        let invoke = worker.expect("invokefunction").await;
        assert_eq!(invoke["data"]["n"], n);
        assert!(uuid::Uuid::try_parse(invoke["invocation_id"].as_str().unwrap()).is_ok());
        worker.answer(&invoke, json!("unasked")).await;
    }
    worker.barrier().await;
    assert_eq!(caller.barrier().await, Vec::<Value>::new());
}

#[tokio::test]
async fn enqueue_is_refused_with_an_error_message() {
    let test = TestHub::start().await;
    test.worker(&["a::f"]).await;
    let mut caller = test.peer().await;
    caller
        .send(json!({"type": "invokefunction", "invocation_id": "1", "function_id": "a::f", "data": {},
            "action": {"type": "enqueue", "queue": "q"}}))
        .await;
    let answer = caller.expect("invocationresult").await;
    assert_eq!(answer["error"]["code"], "enqueue_error");
    assert!(answer["error"]["message"].as_str().unwrap().contains("queue"));
}

#[tokio::test]
async fn errors_are_forwarded_without_stack_traces() {
    let test = TestHub::start().await;
    let mut worker = test.worker(&["a::f"]).await;
    let mut caller = test.peer().await;
    let cases = [
        (
            json!({"code": "E1", "message": "no", "stacktrace": "/home/me/x.rs"}),
            json!({"code": "E1", "message": "no"}),
        ),
        (json!({"message": "no code"}), json!({"code": "invocation_failed", "message": "no code"})),
        (json!("just text"), json!({"code": "invocation_failed", "message": "just text"})),
        (json!({"code": 7}), json!({"code": "7", "message": "the worker gave no message"})),
        (json!([1]), json!({"code": "invocation_failed", "message": "the worker gave no message"})),
    ];
    for (sent, received) in cases {
        caller.start_call("1", "a::f", json!({})).await;
        let invoke = worker.expect("invokefunction").await;
        worker
            .send(json!({"type": "invocationresult", "invocation_id": invoke["invocation_id"],
                "function_id": "a::f", "result": "ignored", "error": sent}))
            .await;
        let answer = caller.expect("invocationresult").await;
        assert_eq!(answer["error"], received);
        assert!(answer.get("result").is_none());
    }
}

#[tokio::test]
async fn only_the_first_answer_of_the_called_worker_counts() {
    let test = TestHub::start().await;
    let mut worker = test.worker(&["a::f"]).await;
    let mut forger = test.peer().await;
    let mut caller = test.peer().await;
    caller.start_call("1", "a::f", json!({})).await;
    let invoke = worker.expect("invokefunction").await;
    forger.answer(&invoke, json!("forged")).await;
    forger.answer(&json!({"invocation_id": "not a uuid", "function_id": "a::f"}), json!(0)).await;
    assert!(forger.barrier().await.is_empty());
    assert!(caller.barrier().await.is_empty());
    worker.answer(&invoke, json!("real")).await;
    worker.answer(&invoke, json!("again")).await;
    worker.barrier().await;
    assert_eq!(caller.expect("invocationresult").await["result"], "real");
    assert!(caller.barrier().await.is_empty());
}

#[tokio::test]
async fn calls_reach_a_worker_in_order() {
    let test = TestHub::start().await;
    let mut worker = test.worker(&["a::f"]).await;
    let mut caller = test.peer().await;
    for n in 0..1000 {
        if n % 3 == 0 {
            caller
                .send(json!({"type": "invokefunction", "function_id": "a::f", "data": n, "action": {"type": "void"}}))
                .await;
        } else {
            caller.start_call(&n.to_string(), "a::f", json!(n)).await;
        }
    }
    for n in 0..1000 {
        assert_eq!(worker.expect("invokefunction").await["data"], n);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_reach_the_hub_process_in_order() {
    let test = TestHub::start().await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let function = {
        let seen = seen.clone();
        move |call: FunctionCall| {
            let seen = seen.clone();
            async move {
                let n: u64 = call.data.parse().unwrap();
                seen.lock().unwrap().push(n);
                if n.is_multiple_of(2) {
                    tokio::task::yield_now().await;
                }
                Ok::<_, CallError>(call.data)
            }
        }
    };
    test.hub.register_function(spec("local::f"), Arc::new(function));
    let mut caller = test.peer().await;
    for n in 0..1000 {
        caller.start_call(&n.to_string(), "local::f", json!(n)).await;
    }
    let mut answered: Vec<u64> = Vec::new();
    for _ in 0..1000 {
        let answer = caller.expect("invocationresult").await;
        assert_eq!(answer["invocation_id"], answer["result"].to_string());
        answered.push(answer["result"].as_u64().unwrap());
    }
    assert_eq!(*seen.lock().unwrap(), (0..1000).collect::<Vec<_>>());
    answered.sort_unstable();
    assert_eq!(answered, (0..1000).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_function_of_the_hub_process_receives_the_caller() {
    let test = TestHub::start().await;
    let who = |call: FunctionCall| async move {
        Json::from_serialize(&call.caller.worker_id()).map_err(|_| CallError::remote("x", "x"))
    };
    test.hub.register_function(spec("local::who"), Arc::new(who));
    let mut caller = test.peer().await;
    assert_eq!(caller.call("local::who", json!({})).await["result"], caller.id.as_str());
    let own = test.hub.call("local::who", Json::null(), DEADLINE).await.unwrap();
    assert_eq!(own.as_str(), "null");
}

#[tokio::test]
async fn a_panicking_function_fails_only_its_own_call() {
    let test = TestHub::start().await;
    let at_once =
        |_: FunctionCall| async move { if true { panic!("boom") } else { Ok(Json::null()) } };
    let later = |_: FunctionCall| async move {
        tokio::task::yield_now().await;
        if true { panic!("boom") } else { Ok(Json::null()) }
    };
    test.hub.register_function(spec("local::now"), Arc::new(at_once));
    test.hub.register_function(spec("local::later"), Arc::new(later));
    let mut caller = test.peer().await;
    assert_eq!(caller.call_error("local::now", json!({})).await, "invocation_failed");
    assert_eq!(caller.call_error("local::later", json!({})).await, "invocation_failed");
    let own = test.hub.call("local::now", Json::null(), DEADLINE).await.unwrap_err();
    assert_eq!(own.code().as_str(), "invocation_failed");
}

#[tokio::test]
async fn a_private_function_can_only_be_called_by_its_worker() {
    let test = TestHub::start().await;
    let mut owner = test.peer().await;
    owner.send(json!({"type": "registerfunction", "id": "a::own", "private": true})).await;
    owner.barrier().await;
    let mut other = test.peer().await;
    assert_eq!(other.call_error("a::own", json!({})).await, "FORBIDDEN");
    owner.start_call("1", "a::own", json!({})).await;
    owner.expect("invokefunction").await;
}
