//! Versions through the client `registry` of the Model Drive Protocol.

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
}
