//! Git remotes and other addresses of installers on a server with a token.

use skills_testkit::Request;

use super::{Project, commit, document, git};
use crate::support::TestServer;

#[test]
fn a_server_with_a_token_asks_every_installer_for_it() {
    let server = TestServer::with_args(&["--token", "s3cret-of-16-bytes"]);
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
    let listed =
        git(&dir, &["ls-remote", &format!("http://x:s3cret-of-16-bytes@{address}/git/all.git")]);
    assert!(listed.contains("refs/heads/main"), "{listed}");
    let clone = [
        "clone",
        "--quiet",
        &format!("http://x:s3cret-of-16-bytes@{address}/git/skill/pdf.git"),
        "pdf",
    ];
    git(&dir, &clone);
    assert!(dir.join("pdf/skills/pdf/SKILL.md").exists());
}

#[test]
fn one_skill_breaks_no_checked_clone_whatever_its_source() {
    let project = Project::new();
    // Git of the person who adds: it checks what it fetches, converts text, and has a filter that leaves a file behind.
    let marker = project.path("filtered");
    let filter = format!("touch {}; cat", marker.display());
    project.put(
        "home/.gitconfig",
        format!(
            "[transfer]\n\tfsckObjects = true\n[core]\n\tautocrlf = true\n\
             [filter \"evil\"]\n\tsmudge = \"{filter}\"\n\tclean = \"{filter}\"\n"
        ),
    );
    let url = project.repository("host/acme/skills", &["pdf", "xlsx"]);
    let attributes =
        format!("* text eol=crlf ident filter=evil\n*.md export-ignore\n* {}\n", "x".repeat(3000));
    let submodules = "[submodule \"../x\"]\n\tpath = -a\n\turl = -u./payload\n";
    let folder = "host/acme/skills/skills/pdf";
    project.put(&format!("{folder}/text.txt"), "One.\n$Id$\n");
    for (path, text) in [
        (".gitattributes", attributes.as_str()),
        ("sub/.GITATTRIBUTES", &attributes),
        ("sub/gitmod~1", submodules),
        ("sub/.git\u{200c}modules", submodules),
        (".gitmodules", submodules),
    ] {
        project.put(&format!("{folder}/{path}"), text);
    }
    commit(&project.path("host/acme/skills"), "second");

    let server = TestServer::new();
    let added = project.run(&["--url", &server.process.url, "add", &url]);
    assert_eq!(added.code, Some(0), "{}", added.stderr);
    assert!(!marker.exists(), "a filter ran");
    let notices = added.stderr.lines().filter(|line| line.contains("git reads"));
    assert_eq!(notices.count(), 5, "{}", added.stderr);
    // The bytes are those of the repository, whatever its attributes say.
    let out = project.path("out");
    project.ok(&["--url", &server.process.url, "export", "pdf", out.to_str().unwrap()]);
    assert_eq!(project.read("out/text.txt"), "One.\n$Id$\n");
    assert_eq!(project.read("out/.gitattributes"), attributes);
    assert_eq!(project.read("out/.gitmodules"), submodules);

    let remote = format!("{}/git/all.git", server.process.http);
    let dir = project.path("project");
    git(&dir, &["-c", "transfer.fsckObjects=true", "clone", "--quiet", &remote, "checked"]);
    git(&dir.join("checked"), &["fsck", "--strict"]);
    assert_eq!(project.read("project/checked/skills/pdf/text.txt"), "One.\n$Id$\n");
    assert!(dir.join("checked/skills/xlsx/SKILL.md").exists());
    let listed = git(&dir.join("checked"), &["ls-files", "skills/pdf"]);
    assert_eq!(listed.lines().count(), 3, "{listed}");
}
