//! Time until many `subscriptions/listen` clients are notified of a change.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::{Barrier, mpsc};

use crate::{
    content,
    load::Connection,
    servers::Ours,
    support::{Caller, Samples},
    wire::Dialect,
};

const ROUNDS: usize = 10;
const PATIENCE: Duration = Duration::from_secs(30);

/// Measures from the worker's call until the last client is notified.
pub(crate) async fn last_notified(ours: &Ours, clients: usize) -> Samples {
    let address = ours.address();
    let request = Dialect::Stateless.request(
        &address,
        1,
        "subscriptions/listen",
        "",
        r#""notifications":{"resourcesListChanged":true}"#,
    );
    let (notified, mut notifications) = mpsc::unbounded_channel();
    let acknowledged = Arc::new(Barrier::new(clients + 1));
    for _ in 0..clients {
        let (address, request) = (address.clone(), request.clone());
        let (acknowledged, notified) = (Arc::clone(&acknowledged), notified.clone());
        tokio::spawn(async move {
            let mut connection = Connection::open(&address).await;
            connection.send(&request).await;
            while count(connection.more().await, "subscriptions/acknowledged") == 0 {}
            acknowledged.wait().await;
            let mut seen = 0;
            loop {
                let now = count(connection.more().await, "resources/list_changed");
                for _ in seen..now {
                    notified.send(Instant::now()).unwrap();
                }
                seen = now;
            }
        });
    }
    let waiting = tokio::time::timeout(PATIENCE, acknowledged.wait());
    waiting.await.expect("not every listener was acknowledged");

    let mut caller = Caller::connect(&ours.server().url);
    let mut samples = Samples::default();
    for round in 0..ROUNDS {
        let skill =
            serde_json::json!({ "id": format!("new-{round}"), "skill": content::body(round) });
        let (sent, call) = (Instant::now(), skill.to_string());
        caller = tokio::task::spawn_blocking(move || {
            caller.call("skills::register", &call);
            caller
        })
        .await
        .unwrap();
        let mut last = sent;
        for _ in 0..clients {
            let received = tokio::time::timeout(PATIENCE, notifications.recv());
            last = received.await.expect("a client was not notified").unwrap();
        }
        samples.push(last - sent);
    }
    samples
}

fn count(haystack: &[u8], needle: &str) -> usize {
    haystack.windows(needle.len()).filter(|window| *window == needle.as_bytes()).count()
}
