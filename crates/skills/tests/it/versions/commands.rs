//! Commands on one registry: a data directory, or a server.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;
use skills_testkit::{CommandOutput, program, run};
use tempfile::TempDir;

use crate::support::{BINARY, TestServer};

/// Runs `skills` on one registry.
pub(super) struct Commands {
    target: [String; 2],
}

impl Commands {
    /// Uses a data directory that no server has open.
    pub(super) fn on_data(dir: &Path) -> Self {
        Self { target: ["--data-dir".to_owned(), dir.to_str().unwrap().to_owned()] }
    }

    /// Uses a server over its bus.
    pub(super) fn on_server(server: &TestServer) -> Self {
        Self { target: ["--url".to_owned(), server.process.url.clone()] }
    }

    pub(super) fn run(&self, arguments: &[&str]) -> CommandOutput {
        let mut command = program(BINARY);
        command.args(&self.target).args(arguments).current_dir(std::env::temp_dir());
        run(&mut command)
    }

    /// Runs a command that must succeed and returns its output.
    pub(super) fn ok(&self, arguments: &[&str]) -> String {
        let ran = self.run(arguments);
        assert_eq!(ran.code, Some(0), "{arguments:?}: {}", ran.stderr);
        ran.stdout
    }

    /// Runs a command that must succeed and returns its JSON.
    pub(super) fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.ok(&[arguments, &["--json"]].concat())).unwrap()
    }

    /// Runs a command that must fail and returns its error.
    pub(super) fn error(&self, arguments: &[&str]) -> Value {
        let ran = self.run(&[arguments, &["--json"]].concat());
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{arguments:?}: {ran:?}");
        let last = ran.stderr.lines().last().unwrap_or_default();
        let error: Value = serde_json::from_str(last).unwrap_or_else(|_| panic!("{ran:?}"));
        error["error"].clone()
    }

    /// Returns the code of a command that must fail.
    pub(super) fn code(&self, arguments: &[&str]) -> String {
        self.error(arguments)["code"].as_str().unwrap().to_owned()
    }

    /// Returns the versions of a skill, newest first.
    pub(super) fn history(&self, id: &str) -> Vec<Value> {
        self.json(&["history", id])["data"].as_array().unwrap().clone()
    }
}

/// Folder of a skill whose versions a test publishes.
pub(super) struct SkillFolder {
    dir: TempDir,
    pub(super) id: &'static str,
}

impl SkillFolder {
    pub(super) fn new(id: &'static str) -> Self {
        Self { dir: tempfile::tempdir().unwrap(), id }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.dir.path().join(self.id)
    }

    /// Writes the files of a numbered version.
    pub(super) fn write(&self, number: usize) {
        fs::create_dir_all(self.path().join("data")).unwrap();
        fs::write(self.path().join("SKILL.md"), document(self.id, number)).unwrap();
        fs::write(self.path().join("data/raw.bin"), binary(number)).unwrap();
    }

    /// Writes and registers a numbered version, and returns the row of the answer.
    pub(super) fn publish(&self, commands: &Commands, number: usize) -> Value {
        self.write(number);
        let message = format!("message {number}");
        let answer = commands.json(&["add", self.path().to_str().unwrap(), "-m", message.as_str()]);
        answer["skills"][0].clone()
    }
}

/// Returns the root document of a numbered version.
pub(super) fn document(id: &str, number: usize) -> String {
    format!(
        "---\nname: {id}\ndescription: Does {id}. Use when asked to.\nmetadata:\n  version: \"1.0.{number}\"\n---\n# {id}\n\nText {number}.\n"
    )
}

/// Returns the bytes of the binary file of a numbered version.
pub(super) fn binary(number: usize) -> Vec<u8> {
    vec![0, 159, 146, 150, u8::try_from(number).unwrap()]
}
