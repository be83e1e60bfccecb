//! Skills from elsewhere, and into projects: lockfiles, sources, collections.
//!
//! - `lockfile`: `lock`, `install`, `verify`, `outdated` and `update` with `skills-lock.json`
//! - `sources`: sources of the configuration; `collections`: named lists of skills
//! - `clawhub`: the API of ClawHub clients; `git_remotes`: servers with a token
//! - `installers`: the lines of `skills connect` for installers
//! - `add_sources`: `skills add` from sites, servers, marketplaces and repositories over http
//!
//! Repositories on this disk and servers on this machine stand in for the internet.

mod add_sources;
mod clawhub;
mod collections;
mod git_remotes;
mod installers;
mod lockfile;
mod sources;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;
use skills_testkit::{CommandOutput, program, run};

use crate::support::BINARY;

/// A folder with a project, its data directory, and repositories.
pub(super) struct Project {
    dir: tempfile::TempDir,
}

impl Project {
    pub(super) fn new() -> Self {
        let project = Self { dir: tempfile::tempdir().unwrap() };
        fs::create_dir_all(project.path("project")).unwrap();
        project
    }

    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    /// Returns `skills` in the project, with a data directory and a home of its own.
    pub(super) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = program(BINARY);
        command.args(arguments).current_dir(self.path("project"));
        command.env("SKILLS_DATA_DIR", self.path("data")).env("HOME", self.path("home"));
        command
    }

    /// Runs `skills` in the project.
    pub(super) fn run(&self, arguments: &[&str]) -> CommandOutput {
        run(&mut self.command(arguments))
    }

    /// Runs a command that must succeed and returns its output.
    pub(super) fn ok(&self, arguments: &[&str]) -> String {
        let ran = self.run(arguments);
        assert_eq!(ran.code, Some(0), "{arguments:?}: {}{}", ran.stdout, ran.stderr);
        ran.stdout
    }

    /// Runs a command that must succeed and parses its output.
    pub(super) fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.ok(&[arguments, &["--json"]].concat())).unwrap()
    }

    /// Runs a command that must fail and returns the code of its error.
    pub(super) fn error_code(&self, arguments: &[&str]) -> String {
        let ran = self.run(&[arguments, &["--json"]].concat());
        assert_eq!(ran.code, Some(1), "{arguments:?}: {}{}", ran.stdout, ran.stderr);
        let last = ran.stderr.lines().last().unwrap_or_default();
        let error: Value = serde_json::from_str(last).unwrap_or_else(|_| panic!("{}", ran.stderr));
        error["error"]["code"].as_str().unwrap().to_owned()
    }

    pub(super) fn put(&self, path: &str, bytes: impl AsRef<[u8]>) {
        put(&self.path(path), bytes);
    }

    pub(super) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap()
    }

    /// Creates a repository with skills in `skills/NAME`, and returns its file URL.
    pub(super) fn repository(&self, path: &str, skills: &[&str]) -> String {
        fs::create_dir_all(self.path(path)).unwrap();
        git(&self.path(path), &["init", "--quiet", "--initial-branch=main"]);
        for name in skills {
            self.put(&format!("{path}/skills/{name}/SKILL.md"), document(name, "First."));
            self.put(&format!("{path}/skills/{name}/notes/a.md"), format!("# Notes of {name}\n"));
        }
        commit(&self.path(path), "first");
        format!("file://{}", self.path(path).display())
    }
}

pub(super) fn put(path: &Path, bytes: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

/// Builds a root document.
pub(super) fn document(name: &str, body: &str) -> String {
    format!(
        "---\nname: {name}\ndescription: Does {name}. Use when asked to.\n---\n# {name}\n\n{body}\n"
    )
}

pub(super) fn git(dir: &Path, arguments: &[&str]) -> String {
    let mut git = Command::new("git");
    for setting in ["user.name=a", "user.email=a@example.com", "commit.gpgSign=false"] {
        git.args(["-c", setting]);
    }
    let output = git.args(arguments).current_dir(dir).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

pub(super) fn commit(dir: &Path, message: &str) -> String {
    git(dir, &["add", "--all"]);
    git(dir, &["commit", "--quiet", "--allow-empty", "-m", message]);
    git(dir, &["rev-parse", "HEAD"])
}
