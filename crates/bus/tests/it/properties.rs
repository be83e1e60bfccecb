//! Property tests over arbitrary frames and payloads.

use futures_util::SinkExt as _;
use proptest::{collection::vec, prelude::*, sample::select};
use serde_json::{Value, json};
use skills_bus::Bus as _;
use tokio_tungstenite::tungstenite::Message;

use crate::test_hub::*;

const KINDS: [&str; 16] = [
    "registerfunction",
    "unregisterfunction",
    "registertriggertype",
    "unregistertriggertype",
    "registertrigger",
    "unregistertrigger",
    "triggerregistrationresult",
    "invokefunction",
    "invocationresult",
    "reattach",
    "observe",
    "unobserve",
    "ping",
    "pong",
    "workerregistered",
    "unheard-of",
];

const FIELDS: [&str; 16] = [
    "id",
    "invocation_id",
    "function_id",
    "data",
    "result",
    "error",
    "action",
    "trigger_type",
    "config",
    "source",
    "target",
    "metadata",
    "description",
    "previous_worker_id",
    "max_fires",
    "caller",
];

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        select(vec![
            "a",
            "b::f",
            "local::echo",
            "engine::functions::list",
            "void",
            "enqueue",
            "\u{0}",
            "é"
        ])
        .prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            vec(
                (
                    select(vec![
                        "type",
                        "code",
                        "message",
                        "function_id",
                        "_caller_worker_id",
                        "x"
                    ]),
                    inner
                ),
                0..4
            )
            .prop_map(|pairs| Value::Object(
                pairs.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()
            )),
        ]
    })
}

#[derive(Debug, Clone)]
enum Sent {
    Text(String),
    Binary(Vec<u8>),
}

fn frame() -> impl Strategy<Value = Sent> {
    let plausible = (select(KINDS.to_vec()), vec((select(FIELDS.to_vec()), any_json()), 0..6))
        .prop_map(|(kind, fields)| {
            let mut frame = json!({"type": kind});
            for (name, value) in fields {
                frame[name] = value;
            }
            Sent::Text(frame.to_string())
        });
    let cut = (select(KINDS.to_vec()), any_json(), 0..60usize).prop_map(|(kind, data, at)| {
        let text = json!({"type": kind, "id": "a", "data": data}).to_string();
        let at = (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap();
        Sent::Text(text[..at].to_owned())
    });
    prop_oneof![
        6 => plausible,
        2 => cut,
        1 => ".{0,40}".prop_map(Sent::Text),
        1 => vec(any::<u8>(), 0..40).prop_map(Sent::Binary),
    ]
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn no_sequence_of_frames_ends_a_connection(frames in vec(frame(), 1..40)) {
        runtime().block_on(async {
            let test = TestHub::start().await;
            test.hub.register_function(spec("local::echo"), echo());
            let mut peer = test.peer().await;
            for frame in frames {
                let message = match frame {
                    Sent::Text(text) => Message::text(text),
                    Sent::Binary(bytes) => Message::binary(bytes),
                };
                peer.ws.send(message).await.expect("the connection is open");
            }
            peer.barrier().await;
            let mut other = test.peer().await;
            assert_eq!(other.call("local::echo", json!(1)).await["result"], 1);
        });
    }

    #[test]
    fn any_object_arrives_with_the_real_callers_id(pairs in vec(("[a-z_]{0,6}|_caller_worker_id", any_json()), 0..5), space in "[ \n\t]{0,3}") {
        // Builds the JSON by hand to cover spaces and repeated keys.
        let fields: Vec<String> = pairs.iter().map(|(key, value)| format!("{space}{}{space}:{value}", json!(key))).collect();
        let object = format!("{{{}{space}}}", fields.join(","));
        runtime().block_on(async {
            let test = TestHub::start().await;
            let mut worker = test.worker(&["w::f"]).await;
            let mut caller = test.peer().await;
            caller
                .send_text(format!(r#"{{"type":"invokefunction","function_id":"w::f","data":{space}{object}{space}}}"#))
                .await;
            // The parser keeps the last of repeated keys, as every SDK does.
            let invoke = worker.expect("invokefunction").await;
            let mut expected: Value = serde_json::from_str(&object).unwrap();
            expected["_caller_worker_id"] = json!(caller.id);
            assert_eq!(invoke["data"], expected);
        });
    }
}
