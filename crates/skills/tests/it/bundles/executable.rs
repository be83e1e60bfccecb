use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::json;
use skills_testkit::Request;

use super::{answer, document, json_answer, put, text};

use crate::support::TestServer;

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).unwrap().permissions().mode() & 0o100 != 0
}

fn make_executable(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Writes a skill with a program, a script that is no program, and a text.
fn put_scripts(dir: &Path) -> PathBuf {
    let bundle = dir.join("tool");
    put(&bundle, "SKILL.md", document("tool", ""));
    put(&bundle, "bin/run", "echo run\n");
    put(&bundle, "lib.sh", "#!/bin/sh\n");
    put(&bundle, "notes.md", "# Notes\n");
    make_executable(&bundle.join("bin/run"));
    bundle
}

fn check(dir: &Path, way: &str) {
    assert!(is_executable(&dir.join("bin/run")), "{way}");
    assert!(!is_executable(&dir.join("lib.sh")), "{way}");
    assert!(
        !is_executable(&dir.join("notes.md")) && !is_executable(&dir.join("SKILL.md")),
        "{way}"
    );
}

fn run(command: &mut Command) {
    assert!(command.status().unwrap().success(), "{command:?}");
}

#[test]
fn executable_bits_survive_every_way_through_the_registry() {
    let server = TestServer::new();
    let (url, dir) = (server.process.url.as_str(), server.dir());
    let bundle = put_scripts(dir);
    answer(&["--url", url, "add", text(&bundle)]);

    let out = dir.join("out");
    answer(&["--url", url, "export", "tool", text(&out)]);
    check(&out, "export");
    fs::set_permissions(out.join("bin/run"), fs::Permissions::from_mode(0o644)).unwrap();
    answer(&["--url", url, "export", "tool", text(&out)]);
    check(&out, "the bit is repaired");

    let synced = dir.join("synced");
    answer(&["--url", url, "sync", text(&synced)]);
    check(&synced.join("tool"), "sync");

    let archive = Request::get("/.well-known/agent-skills/tool.tar.gz").send(&server.process.http);
    let packed = dir.join("tool.tar.gz");
    fs::write(&packed, archive.body).unwrap();
    let unpacked = dir.join("unpacked");
    fs::create_dir(&unpacked).unwrap();
    run(Command::new("tar").arg("xzf").arg(&packed).arg("-C").arg(&unpacked));
    check(&unpacked, "discovery");

    for (name, flags) in [("a.tar", "cf"), ("a.tar.gz", "czf")] {
        let archive = dir.join(name);
        run(Command::new("tar").arg(flags).arg(&archive).arg("-C").arg(dir).arg("tool"));
        let data = dir.join(format!("{name}-data"));
        answer(&["--data-dir", text(&data), "add", text(&archive)]);
        let out = dir.join(format!("{name}-out"));
        answer(&["--data-dir", text(&data), "export", "tool", text(&out)]);
        check(&out, name);
    }

    // A changed bit is a change of the skill.
    make_executable(&bundle.join("lib.sh"));
    let changed = json_answer(&["--url", url, "add", text(&bundle)]);
    assert_eq!(changed["skills"][0]["status"], "changed");
    let synced_again = answer(&["--url", url, "sync", text(&synced)]);
    assert!(is_executable(&synced.join("tool/lib.sh")), "{synced_again}");
}

/// Content of earlier versions and of other workers has no bits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_stored_bit_scripts_are_executable() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let files = json!({ "run.sh": "#!/bin/sh\necho 1\n", "notes.md": "# Notes\n" });
    let input = json!({ "id": "old", "skill": document("old", ""), "files": files });
    worker.ok("skills::register", input).await;
    let out = server.dir().join("out");
    answer(&["--url", server.process.url.as_str(), "export", "old", text(&out)]);
    assert!(is_executable(&out.join("run.sh")) && !is_executable(&out.join("notes.md")));
    let input = json!({
        "id": "old", "skill": document("old", ""), "files": { "run.sh": "#!/bin/sh\n" },
        "executable": [],
    });
    worker.ok("skills::register", input).await;
    let out = server.dir().join("out-2");
    answer(&["--url", server.process.url.as_str(), "export", "old", text(&out)]);
    assert!(!is_executable(&out.join("run.sh")), "the caller says so");
}
