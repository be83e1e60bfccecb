//! Peers of the bus can neither exhaust it nor fill its log.

use serde_json::json;
use skills_testkit::Peer;

use crate::support::TestServer;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_peers_do_not_fill_the_log() {
    let server = TestServer::new();
    for _ in 0..100 {
        let refused =
            Peer::connect_with(&server.process.url, &[("origin", "https://evil.example")]);
        assert_eq!(refused.await.err(), Some(403));
    }
    let worker = server.worker().await;
    for _ in 0..100 {
        worker.send(&json!({ "type": "registerfunction", "id": "skills::register" }));
        worker
            .send(&json!({ "type": "reattach", "previous_worker_id": "x", "reattach_token": "y" }));
    }
    for _ in 0..2000 {
        let line = json!({ "message": "flood".repeat(10_000) });
        worker.send(&json!({
            "type": "invokefunction", "function_id": "engine::log::error", "data": line,
            "action": { "type": "void" },
        }));
    }
    worker.flush().await;
    drop(worker);
    let (_, _, output) = server.process.stop();
    let count = |words: &str| output.lines().filter(|line| line.contains(words)).count();
    assert!(count("evil.example") <= 2, "{}", count("evil.example"));
    assert!(count("the id is taken") <= 2, "{}", count("the id is taken"));
    // Logging everything would take 100 MB.
    assert!(output.len() < 20_000_000, "{} bytes", output.len());
}
