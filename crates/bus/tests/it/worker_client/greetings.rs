//! Greetings of engines from 0.11 to 0.26.

use serde_json::{Value, json};
use skills_bus::{Json, TriggerTypeSpec, client::ObserverEvent};

use super::{FakeServer, Worker, options};
use crate::test_hub::{DEADLINE, echo, spec};

fn observer(id: &str) -> Value {
    json!({"id": id, "args": {}, "filters": {}, "target": "x::changed", "capture": ["input"], "on": "success"})
}

fn event<'a>(observer_id: &'a str, data: &'a Json) -> ObserverEvent<'a> {
    ObserverEvent { function_id: "w::on-change", observer_id, event_id: uuid::Uuid::now_v7(), data }
}

/// First frames, and whether the engine has observers.
fn engines() -> Vec<(&'static str, Value, bool)> {
    let greeting = |rest: Value| {
        let mut frame = json!({"type": "workerregistered", "worker_id": "id-1"});
        frame.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        frame
    };
    vec![
        ("0.11", greeting(json!({})), false),
        ("0.23", greeting(json!({"reattach_token": "t"})), false),
        (
            "0.25",
            greeting(json!({"reattach_token": "t",
                "features": ["observe.v1", "local-dispatch.v1"]})),
            true,
        ),
        (
            "0.26",
            greeting(json!({"reattach_token": "t", "later": {"x": 1},
                "features": ["observe.v1", "observe.v2", "local-dispatch.v1"]})),
            true,
        ),
    ]
}

#[tokio::test]
async fn a_worker_works_on_engines_of_all_versions() {
    for (version, greeting, can_observe) in engines() {
        let server = FakeServer::start().await;
        let worker = Worker::start(options(&server.url()));
        let client = &worker.client;
        client.register_function(&spec("w::echo"), echo(), false);
        client.register_function(&spec("w::on-change"), echo(), true);
        let spec = TriggerTypeSpec { id: "w::on-change".into(), ..TriggerTypeSpec::default() };
        client.register_trigger_type(&spec);
        let mut link = server.accept().await;
        link.send(&greeting).await;
        let identity = link.next("invokefunction").await;
        assert_eq!(identity["function_id"], "engine::workers::register", "{version}");
        assert_eq!(identity["action"], json!({"type": "void"}));
        assert_eq!(
            (&identity["data"]["name"], &identity["data"]["version"]),
            (&json!("w"), &json!("1.2.3"))
        );
        assert_eq!(link.next("registertriggertype").await["id"], "w::on-change");
        assert_eq!(link.next("registerfunction").await["id"], "w::echo");
        assert_eq!(link.next("registerfunction").await["observe"], json!({"delivery": "owner"}));

        // Calls in both directions; an engine of 0.11 sends neither namespace nor metadata.
        let call = worker.call("state::get", Json::from(&json!({"key": "k"})), DEADLINE);
        let invoke = link.next_call().await;
        assert_eq!((invoke["data"]["key"].as_str(), invoke.get("namespace")), (Some("k"), None));
        link.answer(&invoke, json!({"v": 1})).await;
        assert_eq!(call.await.unwrap().unwrap().as_str(), r#"{"v":1}"#, "{version}");
        link.send(&json!({"type": "invokefunction", "invocation_id": "7d444840-9dc0-11d1-b245-5ffdce74fad2",
            "function_id": "w::echo", "data": {"_caller_worker_id": "c", "x": 1}}))
            .await;
        let answer = link.next("invocationresult").await;
        assert_eq!((&answer["result"], answer.get("error")), (&json!({"x": 1}), None));
        link.send(&json!({"type": "registertrigger", "id": "t1", "trigger_type": "w::on-change",
            "function_id": "x::changed", "config": null}))
            .await;
        let accepted = link.next("triggerregistrationresult").await;
        assert_eq!((&accepted["id"], accepted.get("error")), (&json!("t1"), None));
        link.send(&json!({"type": "ping"})).await;
        link.next("pong").await;

        if can_observe {
            let mut filtered = observer("o2");
            filtered["filters"] = json!({"input": {"x": 1}});
            link.send(
                &json!({"type": "functionregistered", "id": "w::on-change", "namespace": "default",
                "revision": 3, "local_dispatch": true, "observers": [observer("o1"), filtered]}),
            )
            .await;
            let ack = link.next("observerack").await;
            assert_eq!((&ack["id"], ack.get("error")), (&json!("o1"), None), "{version}");
            let refused = link.next("observerack").await;
            assert_eq!(refused["error"]["code"], "INVALID_FILTER");
            client.emit(&event("o1", &Json::from(&json!({"n": 1})))).await.unwrap();
            let observed = link.next("invocationsobserved").await;
            let item = &observed["items"][0];
            assert_eq!((&item["matched"], &item["input"]), (&json!(["o1"]), &json!({"n": 1})));
            assert_eq!(item["caller"], json!({"worker_id": "id-1", "worker_name": "w"}));
        }
        let error = client.emit(&event("o2", &Json::null())).await.unwrap_err();
        assert!(error.to_string().contains("not active"), "{error}");

        drop(link);
        let mut link = server.accept().await;
        link.send(&greeting).await;
        let reattach = link.recv().await;
        assert_eq!(reattach["type"], "reattach", "{version}");
        assert_eq!(reattach["previous_worker_id"], "id-1");
        assert_eq!(reattach.get("reattach_token"), greeting.get("reattach_token"));
        client.shutdown().await;
    }
}
