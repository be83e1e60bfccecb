//! Versions as commands of an editor.

use serde_json::json;

use crate::support::{TestServer, acp_client::Client, register};

#[tokio::test]
async fn a_command_may_name_a_version() {
    let server = TestServer::new();
    let worker = server.worker().await;
    register(&worker, "alpha", "# Alpha\n\nOne.\n").await;
    register(&worker, "alpha", "# Alpha\n\nTwo.\n").await;
    register(&worker, "alpha", "# Alpha\n\nThree.\n").await;
    let yank = json!({ "id": "alpha", "version": 1, "reason": "wrong" });
    worker.ok("skills::yank", yank).await;
    let (mut client, session) = Client::session(&server).await;
    client.command("alpha").await;
    for (typed, words) in [
        ("/alpha", "Three."),
        ("/alpha@2", "Two."),
        ("/alpha@latest", "Three."),
        ("/alpha@1", "One."),
        ("/alpha@1", "`alpha@1` is yanked: wrong"),
        ("/alpha@9", "failed"),
        ("/alpha@", "failed"),
    ] {
        let said = client.turn(&session, typed).await;
        assert!(said.contains(words), "{typed}: {said}");
    }
    for version in [2, 3] {
        worker
            .ok("skills::yank", json!({ "id": "alpha", "version": version, "reason": "r" }))
            .await;
    }
    for (typed, words) in [
        ("/alpha@2", "Two."),
        ("/alpha@2", "`alpha@2` is yanked: r"),
        ("/alpha@9", "it has 3, 2, 1"),
        ("/alpha@latest", "yanked"),
        ("/beta@1", "There is no prompt or skill"),
    ] {
        let said = client.turn(&session, typed).await;
        assert!(said.contains(words), "all versions are yanked, {typed}: {said}");
    }
}
