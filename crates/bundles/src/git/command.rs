//! Runs `git` on a bare repository.

use std::{
    io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use skills_core::GitProtocol;

/// Settings that override those of the user: nothing of a repository is executed, and no other program is started.
const SETTINGS: [&str; 9] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.alternateRefsCommand=",
    "submodule.recurse=false",
    "fetch.recurseSubmodules=false",
    "fetch.writeCommitGraph=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "transfer.bundleURI=false",
];
/// Variables that would lead git to another repository, such as those that git sets for its hooks.
const REPOSITORY_VARIABLES: [&str; 8] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_NAMESPACE",
    "GIT_TEMPLATE_DIR",
];
/// Most characters of git's messages in an error.
const MAX_REASON_CHARS: usize = 600;

/// Access of git to a source.
#[derive(Debug, Clone, Copy)]
pub(super) struct GitAccess {
    pub(super) protocol: GitProtocol,
    /// False if a server must not lead git to another one.
    pub(super) may_redirect: bool,
}

impl GitAccess {
    /// Returns the protocols that may be used, also after a rewrite of the URL by the user's settings.
    fn protocols(self) -> &'static str {
        match self.protocol {
            GitProtocol::Https | GitProtocol::Ssh => "https:ssh",
            GitProtocol::Http => "https:ssh:http",
            GitProtocol::File => "https:ssh:file",
        }
    }
}

/// The user's `git` for one bare repository.
pub(super) struct Git {
    dir: PathBuf,
    source: GitAccess,
    interactive: bool,
}

impl Git {
    pub(super) fn new(dir: &Path, source: GitAccess, interactive: bool) -> Self {
        Self { dir: dir.to_owned(), source, interactive }
    }

    /// Returns a command without arguments.
    pub(super) fn command(&self) -> Command {
        let mut command = Command::new("git");
        for setting in SETTINGS {
            command.args(["-c", setting]);
        }
        for variable in REPOSITORY_VARIABLES {
            command.env_remove(variable);
        }
        if !self.source.may_redirect {
            command.args(["-c", "http.followRedirects=false"]);
        }
        command.env("GIT_DIR", &self.dir).env("GIT_ALLOW_PROTOCOL", self.source.protocols());
        if !self.interactive {
            command.env("GIT_TERMINAL_PROMPT", "0");
        }
        command.current_dir(&self.dir).stdin(Stdio::null());
        command
    }

    /// Runs a command and returns its output, or git's messages if it fails.
    pub(super) fn run(&self, arguments: &[&str]) -> io::Result<Result<Vec<u8>, String>> {
        let mut command = self.command();
        command.args(arguments);
        if self.interactive {
            command.stderr(Stdio::inherit());
        }
        let output = command.output()?;
        if output.status.success() {
            return Ok(Ok(output.stdout));
        }
        let text = String::from_utf8_lossy(&output.stderr);
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        let reason = match lines.as_slice() {
            [] => format!("git failed ({})", output.status),
            lines => lines.join("; ").chars().take(MAX_REASON_CHARS).collect(),
        };
        Ok(Err(reason))
    }
}
