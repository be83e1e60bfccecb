//! Calls with a delivery number, which the caller may send again over another connection.

use serde_json::{Value, json};

use crate::test_hub::*;

const LANE: &str = "0b5e7c0e-6d3c-4b5e-9a39-3c2f0c6d6f11";

async fn send(caller: &mut Peer, number: u64, answered: u64) {
    caller
        .send(json!({"type": "invokefunction", "invocation_id": format!("call {number}"),
            "function_id": "a::f", "data": {"n": number},
            "metadata": {"delivery": {"lane": LANE, "number": number, "answered": answered}}}))
        .await;
}

async fn refusal(caller: &mut Peer) -> Value {
    caller.expect("invocationresult").await["error"]["code"].clone()
}

#[tokio::test]
async fn each_number_is_delivered_once_in_order_over_any_connection() {
    let test = TestHub::start().await;
    let mut worker = test.worker(&["a::f"]).await;
    let mut caller = test.peer().await;
    send(&mut caller, 2, 0).await;
    assert_eq!(refusal(&mut caller).await, "delivery_out_of_turn");
    send(&mut caller, 1, 0).await;
    let first = worker.expect("invokefunction").await;
    assert_eq!(first["data"]["n"], 1);
    assert_eq!(first["metadata"]["delivery"]["number"], 1, "the receiver can tell, too");
    drop(caller);

    let mut caller = test.peer().await;
    send(&mut caller, 1, 0).await;
    let again = caller.expect("invocationresult").await;
    assert_eq!((&again["result"], again.get("error")), (&Value::Null, None), "{again}");
    send(&mut caller, 2, 0).await;
    let second = worker.expect("invokefunction").await;
    assert_eq!(second["data"]["n"], 2);
    worker.answer(&second, json!("done")).await;
    assert_eq!(caller.expect("invocationresult").await["result"], "done");
    assert!(worker.barrier().await.is_empty());
}

#[tokio::test]
async fn an_undelivered_number_may_be_sent_again() {
    let test = TestHub::start().await;
    let mut caller = test.peer().await;
    send(&mut caller, 1, 0).await;
    assert_eq!(refusal(&mut caller).await, "function_not_found");
    let mut worker = test.worker(&["a::f"]).await;
    send(&mut caller, 1, 0).await;
    assert_eq!(worker.expect("invokefunction").await["data"]["n"], 1);
}

#[tokio::test]
async fn invalid_numbers_are_ignored() {
    let test = TestHub::start().await;
    let mut worker = test.worker(&["a::f"]).await;
    let mut caller = test.peer().await;
    for (number, answered) in [(u64::MAX, u64::MAX), (0, 0), (u64::MAX, u64::MAX - 1)] {
        send(&mut caller, number, answered).await;
        let answer = caller.expect("invocationresult").await;
        assert!(answer.get("error").is_none(), "{answer}");
    }
    // Metadata without a number is passed on unchanged.
    caller
        .send(json!({"type": "invokefunction", "invocation_id": "x", "function_id": "a::f", "data": {},
            "metadata": {"delivery": "by hand"}}))
        .await;
    assert_eq!(worker.expect("invokefunction").await["metadata"], json!({"delivery": "by hand"}));
}
