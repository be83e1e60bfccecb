//! `BusClient`, which calls functions and serves none.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use skills_bus::{Bus as _, BusClient, CallError, ClientError, FunctionCall, HubConfig, Json};
use skills_core::{Code, Coded as _};
use skills_testkit::ReservedPort;

use crate::test_hub::*;

#[tokio::test]
async fn the_client_identifies_itself_and_makes_concurrent_calls() {
    let test = TestHub::start().await;
    test.hub.register_function(spec("local::echo"), echo());
    let client = BusClient::connect(&test.url(), None, DEADLINE).await.unwrap();
    let calls = (0..100).map(|n| {
        let client = client.clone();
        async move {
            client
                .call("local::echo", payload(&json!(n)), DEADLINE)
                .await
                .unwrap()
                .parse::<u64>()
                .unwrap()
        }
    });
    assert_eq!(futures_util::future::join_all(calls).await, (0..100).collect::<Vec<_>>());
    let list: Value = client
        .call("engine::workers::list", Json::null(), DEADLINE)
        .await
        .unwrap()
        .parse()
        .unwrap();
    assert_eq!(list["workers"][0]["name"], "skills-cli");
    let big = payload(&json!("x".repeat(20 * MIB)));
    let back = client.call("local::echo", big, DEADLINE).await.unwrap();
    assert_eq!(back.as_str().len(), 20 * MIB + 2);
}

#[tokio::test]
async fn the_client_distinguishes_kinds_of_failure() {
    let test = TestHub::with(HubConfig {
        drain_timeout: Duration::from_millis(50),
        ..HubConfig::default()
    })
    .await;
    let begun = Arc::new(tokio::sync::Notify::new());
    let slow = {
        let begun = begun.clone();
        move |_: FunctionCall| {
            begun.notify_one();
            std::future::pending::<Result<Json, CallError>>()
        }
    };
    test.hub.register_function(spec("local::slow"), Arc::new(slow));
    let client = BusClient::connect(&test.url(), None, DEADLINE).await.unwrap();
    let missing = client.call("no::such", Json::null(), DEADLINE).await.unwrap_err();
    assert_eq!(missing.code().as_str(), "function_not_found");
    let slow =
        client.call("local::slow", Json::null(), Duration::from_millis(20)).await.unwrap_err();
    assert!(matches!(slow, CallError::Timeout { .. }));
    begun.notified().await;
    let huge = payload(&json!("x".repeat(65 * MIB)));
    assert_eq!(
        client.call("x", huge, DEADLINE).await.unwrap_err().code().as_str(),
        "payload_too_large"
    );
    let (lost, ()) = tokio::join!(client.call("local::slow", Json::null(), DEADLINE), async {
        begun.notified().await;
        test.shutdown.cancel();
    });
    assert_eq!(lost.unwrap_err().code().as_str(), "connection_lost");
    assert_eq!(
        client.call("x", Json::null(), DEADLINE).await.unwrap_err().code().as_str(),
        "connection_lost"
    );
}

#[tokio::test]
async fn a_failed_connection_is_reported_with_its_reason() {
    let connect = |url: String, token: Option<&'static str>| async move {
        BusClient::connect(&url, token, DEADLINE).await.map(|_| ()).unwrap_err()
    };
    for url in ["", "not a url", "http://127.0.0.1:1", "127.0.0.1:1"] {
        let error = connect(url.into(), None).await;
        assert!(matches!(error, ClientError::BadUrl { .. }), "{url}: {error}");
    }
    let unused = ReservedPort::new();
    assert!(matches!(
        connect(format!("ws://{}", unused.address()), None).await,
        ClientError::Unreachable { .. }
    ));

    let test =
        TestHub::with(HubConfig { token: Some("t0ken".into()), ..HubConfig::default() }).await;
    assert!(matches!(connect(test.url(), None).await, ClientError::Unauthorized { .. }));
    assert!(matches!(connect(test.url(), Some("wrong")).await, ClientError::Unauthorized { .. }));
    assert!(BusClient::connect(&test.url(), Some("t0ken"), DEADLINE).await.is_ok());
    assert!(
        BusClient::connect(&format!("{}/?token=t0ken", test.url()), None, DEADLINE).await.is_ok()
    );

    let config = HubConfig {
        token: Some("t0ken".into()),
        unavailable: Some("it waits for its store"),
        ..HubConfig::default()
    };
    let waiting = TestHub::with(config).await;
    assert!(matches!(connect(waiting.url(), None).await, ClientError::Unauthorized { .. }));
    let error = connect(waiting.url(), Some("t0ken")).await;
    let code = Code::StoreUnavailable;
    assert!(
        matches!(&error, ClientError::Unavailable { code: found, .. } if *found == code),
        "{error}"
    );
    assert!(error.to_string().contains("it waits for its store"), "{error}");

    // A listener that accepts connections and never answers.
    let mute = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}", mute.local_addr().unwrap());
    let error = BusClient::connect(&url, None, Duration::from_millis(50)).await.unwrap_err();
    assert!(matches!(error, ClientError::Unreachable { .. }), "{error}");
}
