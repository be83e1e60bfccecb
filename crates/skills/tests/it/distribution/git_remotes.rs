//! Git remotes and other addresses of installers on a server with a token.

use skills_testkit::Request;

use super::{Project, document, git};
use crate::support::TestServer;

#[test]
fn a_server_with_a_token_asks_every_installer_for_it() {
    let server = TestServer::with_args(&["--token", "s3cret"]);
    let project = Project::new();
    project.put("own/pdf/SKILL.md", document("pdf", "Text."));
    let own = project.path("own");
    project.ok(&["--data-dir", server.data_dir().to_str().unwrap(), "add", own.to_str().unwrap()]);
    let http = &server.process.http;
    let refs = |remote: &str| format!("/git/{remote}.git/info/refs?service=git-upload-pack");
    for remote in ["all", "official", "market", "private", "mine", "skill/pdf", "collection/x"] {
        let refused = Request::get(&refs(remote)).send(http);
        assert_eq!(refused.status, 401, "{remote}");
        let challenge = refused.header("WWW-Authenticate").unwrap_or_default();
        assert!(challenge.contains("Basic"), "{remote}: git needs a Basic challenge: {challenge}");
    }
    for path in [
        "/.claude-plugin/marketplace.json",
        "/archive/official/pdf/1.zip",
        "/.well-known/agent-skills/index.json",
        "/skill/pdf/.well-known/agent-skills/index.json",
        "/api/search?q=pdf",
        "/.well-known/clawhub.json",
        "/api/v1/skills/pdf",
        "/v1/collections",
    ] {
        assert_eq!(Request::get(path).send(http).status, 401, "{path}");
    }
    let address = http.trim_start_matches("http://");
    let dir = project.path("project");
    let listed = git(&dir, &["ls-remote", &format!("http://x:s3cret@{address}/git/all.git")]);
    assert!(listed.contains("refs/heads/main"), "{listed}");
    let clone =
        ["clone", "--quiet", &format!("http://x:s3cret@{address}/git/skill/pdf.git"), "pdf"];
    git(&dir, &clone);
    assert!(dir.join("pdf/skills/pdf/SKILL.md").exists());
}
