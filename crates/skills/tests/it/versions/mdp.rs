//! Versions through the client `registry` of the Model Drive Protocol.

use serde_json::json;

use crate::{
    mdp::{get, text},
    support::{TestServer, register},
};

#[tokio::test]
async fn a_path_may_name_a_version() {
    let server = TestServer::new();
    let worker = server.worker().await;
    register(&worker, "pdf", "# One\n").await;
    register(&worker, "pdf", "# Two\n").await;
    for (address, words) in [
        ("/skills/registry/pdf", "# Two\n"),
        ("/skills/registry/pdf@1", "# One\n"),
        ("/skills/registry/pdf%401/skill.md", "# One\n"),
        ("/registry/skills/pdf@latest", "# Two\n"),
    ] {
        let answer = get(&server, address).await;
        assert_eq!((answer.status, text(&answer)), (200, words), "{address}");
    }
    for address in ["/skills/registry/pdf@9", "/skills/registry/pdf@", "/skills/registry/no@1"] {
        assert_eq!(get(&server, address).await.status, 404, "{address}");
    }
    let missing = get(&server, "/skills/registry/pdf@9").await;
    assert!(text(&missing).contains("it has 2, 1"), "{}", text(&missing));
}

#[tokio::test]
async fn a_yanked_version_comes_with_a_warning() {
    let server = TestServer::new();
    let worker = server.worker().await;
    register(&worker, "pdf", "# One\n").await;
    register(&worker, "pdf", "# Two\n").await;
    let yank = json!({ "id": "pdf", "version": 1, "reason": "wrong page" });
    worker.ok("skills::yank", yank).await;
    let answer = get(&server, "/skills/registry/pdf@1").await;
    assert_eq!((answer.status, text(&answer)), (200, "# One\n"));
    assert_eq!(answer.header("x-skill-yanked").as_deref(), Some("wrong%20page"));
    assert_eq!(get(&server, "/skills/registry/pdf").await.header("x-skill-yanked"), None);
    let purge = json!({ "id": "pdf", "version": 1, "reason": "leak", "purge": true });
    worker.ok("skills::yank", purge).await;
    let gone = get(&server, "/skills/registry/pdf@1").await;
    assert_eq!(gone.status, 404);
    assert!(text(&gone).contains("leak"), "{}", text(&gone));
}
