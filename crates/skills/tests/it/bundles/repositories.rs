//! Repositories on this disk stand in for those of the internet.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;
use skills_testkit::{program, run};

use super::{answer, document, json_answer, put, put_bundles, skills, text};

use crate::support::{BINARY, TestServer, terminal::with_typed_line};

/// A repository `acme/skills` below a folder that stands in for a host.
struct Repository {
    dir: tempfile::TempDir,
}

impl Repository {
    fn new() -> Self {
        let repository = Self { dir: tempfile::tempdir().unwrap() };
        fs::create_dir_all(repository.path()).unwrap();
        repository.git(&["init", "--quiet", "--initial-branch=main"]);
        put(&repository.path(), "README.md", "# Skills of acme\n");
        put_bundles(&repository.path(), &["skills/pdf", "skills/xlsx"]);
        let script = repository.path().join("skills/pdf/run.sh");
        put(&repository.path(), "skills/pdf/run.sh", "echo 1\r\n");
        fs::set_permissions(script, fs::Permissions::from_mode(0o755)).unwrap();
        repository.commit("first");
        repository.git(&["tag", "v1"]);
        repository
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("host/acme/skills")
    }

    fn host(&self) -> String {
        format!("file://{}", text(&self.dir.path().join("host")))
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    fn git(&self, arguments: &[&str]) -> String {
        let mut git = Command::new("git");
        for setting in ["user.name=a", "user.email=a@example.com", "commit.gpgSign=false"] {
            git.args(["-c", setting]);
        }
        let output = git.args(arguments).current_dir(self.path()).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn commit(&self, message: &str) -> String {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "-m", message]);
        self.git(&["rev-parse", "HEAD"])
    }

    fn target<'a>(&self, data: &'a str, arguments: &[&'a str]) -> Vec<&'a str> {
        [&["--data-dir", data], arguments].concat()
    }

    fn answer(&self, arguments: &[&str]) -> String {
        let data = self.data();
        answer(&self.target(text(&data), arguments))
    }

    fn show(&self, id: &str) -> Value {
        let data = self.data();
        json_answer(&self.target(text(&data), &["show", id]))
    }
}

#[test]
fn a_repository_is_added_with_its_provenance() {
    let repository = Repository::new();
    let host = repository.host();
    let added = repository.answer(&["add", "acme/skills", "--host", &host]);
    assert!(added.ends_with("added 2, changed 0, unchanged 0, failed 0\n"), "{added}");
    let shown = repository.show("pdf");
    let source = &shown["source"];
    assert_eq!(source["kind"], "git");
    assert_eq!(source["location"], format!("{host}/acme/skills"));
    assert_eq!(source["path"], "skills/pdf");
    assert_eq!(source["commit"], repository.git(&["rev-parse", "HEAD"]));
    let out = repository.dir.path().join("out");
    repository.answer(&["export", "pdf", text(&out)]);
    // Bytes and bits are those of the repository.
    assert_eq!(fs::read(out.join("run.sh")).unwrap(), b"echo 1\r\n");
    assert_ne!(fs::metadata(out.join("run.sh")).unwrap().permissions().mode() & 0o100, 0);
    assert_eq!(fs::read(out.join("assets/raw.bin")).unwrap(), [0, 159, 146, 150]);
}

#[test]
fn a_path_and_a_reference_select_a_part() {
    let repository = Repository::new();
    put(&repository.path(), "skills/pdf/SKILL.md", document("pdf", "Second version."));
    let second = repository.commit("second");
    let host = repository.host();
    let first = ["add", "acme/skills/skills/pdf@v1", "--host", &host];
    assert!(repository.answer(&first).starts_with("registered iii://pdf ("));
    let shown = repository.show("pdf");
    assert!(!shown["skill"].as_str().unwrap().contains("Second version."));
    assert_eq!(shown["source"]["ref"], "v1");
    let url = format!("{host}/acme/skills@{second}");
    repository.answer(&["add", &url]);
    assert!(repository.show("pdf")["skill"].as_str().unwrap().contains("Second version."));
    let data = repository.data();
    for (source, code) in [
        ("acme/skills@absent", "fetch_failed"),
        ("acme/absent", "fetch_failed"),
        ("acme/skills/absent", "no_bundle"),
        ("acme/skills@--upload-pack=x", "fetch_failed"),
        ("ext::sh -c true", "unreadable"),
        ("http://example.com/a.zip", "bad_argument"),
    ] {
        let arguments = ["add", source, "--host", &host, "--json"];
        let ran = skills(&repository.target(text(&data), &arguments));
        let error: Value = serde_json::from_str(&ran.stderr).unwrap();
        assert_eq!(error["error"]["code"], code, "{source}: {error}");
    }
}

#[test]
fn update_shows_what_would_change_and_registers_it_on_request() {
    let repository = Repository::new();
    let host = repository.host();
    repository.answer(&["add", "acme/skills", "--host", &host, "--prefix", "acme-"]);
    let unchanged = repository.answer(&["update"]);
    assert!(unchanged.contains("added 0, changed 0, unchanged 2"), "{unchanged}");

    put(&repository.path(), "skills/pdf/SKILL.md", document("pdf", "Second version."));
    fs::remove_dir_all(repository.path().join("skills/xlsx")).unwrap();
    let second = repository.commit("second");
    let data = repository.data();
    let preview = skills(&repository.target(text(&data), &["update"]));
    assert_eq!(preview.code, Some(0), "{}", preview.stderr);
    assert!(preview.stdout.contains("changed iii://acme-pdf ("), "{}", preview.stdout);
    assert!(preview.stdout.contains("skipped iii://acme-xlsx: it is no longer in "));
    assert!(preview.stderr.contains("skills update --yes"), "{}", preview.stderr);
    assert!(!repository.show("acme-pdf")["skill"].as_str().unwrap().contains("Second"));

    let mut command = program(BINARY);
    command.args(["--data-dir", text(&data), "update", "acme-pdf"]);
    let (typed, _) = with_typed_line(command, "n");
    assert!(typed.contains("Register 1 changed skill? [y/N]"), "{typed}");
    assert!(!repository.show("acme-pdf")["skill"].as_str().unwrap().contains("Second"));

    let applied = repository.answer(&["update", "--yes"]);
    assert!(applied.contains("registered iii://acme-pdf ("), "{applied}");
    let shown = repository.show("acme-pdf");
    assert!(shown["skill"].as_str().unwrap().contains("Second version."));
    assert_eq!(shown["source"]["commit"], second);
}

#[test]
fn nothing_in_a_repository_is_executed() {
    let repository = Repository::new();
    let mark = repository.dir.path().join("mark");
    let script = format!("#!/bin/sh\ntouch {}\n", text(&mark));
    put(&repository.path(), ".gitattributes", "*.md filter=evil\n*.txt filter=lfs\n");
    put(&repository.path(), ".githooks/post-checkout", &script);
    put(&repository.path(), "skills/pdf/big.txt", "version https://git-lfs.github.com/spec/v1\n");
    put(
        &repository.path(),
        ".gitmodules",
        "[submodule \"s\"]\n\tpath = s\n\turl = ext::sh -c touch% evil\n",
    );
    repository.commit("attributes");
    // Settings of the user that a checkout would follow.
    let config = repository.dir.path().join("gitconfig");
    let filter = format!("touch {} && cat", text(&mark));
    let settings = format!(
        "[filter \"evil\"]\n\tsmudge = {filter}\n[filter \"lfs\"]\n\tsmudge = {filter}\n\trequired = true\n\
         [core]\n\thooksPath = {}\n\tfsmonitor = touch {}\n",
        text(&repository.path().join(".githooks")),
        text(&mark),
    );
    fs::write(&config, settings).unwrap();
    let mut command = program(BINARY);
    command.arg("--data-dir").arg(repository.data());
    command.args(["add", "acme/skills", "--host", &repository.host()]);
    command.env("GIT_CONFIG_GLOBAL", &config).env("GIT_DIR", "/nowhere");
    let ran = run(&mut command);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(!mark.exists(), "a program was started");
    let files = repository.show("pdf")["files"].as_array().unwrap().len();
    assert_eq!(files, 5);
}

#[test]
fn a_missing_git_is_reported_with_a_hint() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = program(BINARY);
    command.arg("--data-dir").arg(dir.path().join("data")).args(["add", "acme/skills"]);
    let ran = run(command.current_dir(dir.path()).env("PATH", dir.path()));
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("git is not installed"), "{}", ran.stderr);
    assert!(ran.stderr.contains("hint: install git"), "{}", ran.stderr);
}

/// The archive that another registry publishes.
#[test]
fn an_archive_is_downloaded_and_updated() {
    let server = TestServer::new();
    let dir = server.dir().to_owned();
    put_bundles(&dir, &["pdf"]);
    let bundle = dir.join("pdf");
    answer(&["--url", &server.process.url, "add", text(&bundle)]);
    let url = format!("{}/.well-known/agent-skills/pdf.tar.gz", server.process.http);
    let data = dir.join("other-data");
    let target = |arguments: &[&str]| -> Vec<String> {
        let all = [&["--data-dir", text(&data)], arguments].concat();
        all.into_iter().map(str::to_owned).collect()
    };
    let run = |arguments: &[&str]| {
        let arguments = target(arguments);
        answer(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
    };
    assert!(run(&["add", &url]).starts_with("registered iii://pdf (3 files, "));
    let shown: Value = serde_json::from_str(&run(&["show", "pdf", "--json"])).unwrap();
    assert_eq!(
        (&shown["source"]["kind"], &shown["source"]["location"]),
        (&"url".into(), &url.into())
    );
    put(&dir, "pdf/references/deep/notes.md", "# Changed\n");
    answer(&["--url", &server.process.url, "add", text(&bundle)]);
    assert!(run(&["update", "--yes"]).contains("registered iii://pdf ("));
    let notes = run(&["read", "iii://pdf/references/deep/notes.md"]);
    assert_eq!(notes, "# Changed\n");
    let absent = format!("{}/absent.zip", server.process.http);
    let arguments = target(&["add", &absent, "--json"]);
    let ran = skills(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    let error: Value = serde_json::from_str(&ran.stderr).unwrap();
    assert_eq!(error["error"]["code"], "fetch_failed", "{error}");
    assert!(Path::new(&bundle).exists());
}
