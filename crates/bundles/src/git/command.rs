//! Runs `git` on a bare repository.

use std::{
    fs, io,
    io::Read as _,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use skills_core::GitProtocol;

use super::FetchLimits;

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
/// Interval at which a running fetch is checked against its limits.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// Checks between two measurements of the repository's size.
const CHECKS_PER_MEASUREMENT: u32 = 10;
/// Time for git to end after it was asked to.
const END_TIMEOUT: Duration = Duration::from_secs(2);
/// Most bytes of git's messages that are read.
const MAX_MESSAGE_BYTES: u64 = 64 << 10;
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
        Ok(Err(reason(&output.stderr, output.status)))
    }

    /// Runs a command that transfers data, within limits.
    pub(super) fn run_bounded(
        &self,
        arguments: &[&str],
        limits: &FetchLimits,
    ) -> Result<(), Stopped> {
        let mut command = self.command();
        command.args(arguments).stdout(Stdio::null());
        if self.interactive {
            // In the group of this process, which alone may use the terminal.
            command.stderr(Stdio::inherit());
        } else {
            command.stderr(Stdio::piped()).process_group(0);
        }
        let mut child = command.spawn().map_err(Stopped::Io)?;
        let messages = child.stderr.take().map(|stderr| {
            thread::spawn(move || {
                let mut text = Vec::new();
                // The rest is read too, so that git does not wait for a reader.
                let mut stderr = stderr;
                let _ = (&mut stderr).take(MAX_MESSAGE_BYTES).read_to_end(&mut text);
                let _ = io::copy(&mut stderr, &mut io::sink());
                text
            })
        });
        let ended = self.wait(&mut child, limits);
        if ended.is_err() {
            self.stop(&mut child);
        }
        let text = messages.and_then(|messages| messages.join().ok()).unwrap_or_default();
        match ended? {
            status if status.success() => Ok(()),
            status => Err(Stopped::Failed(reason(&text, status))),
        }
    }

    fn wait(&self, child: &mut Child, limits: &FetchLimits) -> Result<ExitStatus, Stopped> {
        let deadline = Instant::now() + limits.timeout;
        for check in 0_u32.. {
            if let Some(status) = child.try_wait().map_err(Stopped::Io)? {
                // A small fetch may have ended before it was measured.
                if folder_size(&self.dir) > limits.max_bytes {
                    return Err(Stopped::TooLarge);
                }
                return Ok(status);
            }
            if limits.is_cancelled() {
                return Err(Stopped::Cancelled);
            }
            if Instant::now() >= deadline {
                return Err(Stopped::TimedOut);
            }
            if check.is_multiple_of(CHECKS_PER_MEASUREMENT)
                && folder_size(&self.dir) > limits.max_bytes
            {
                return Err(Stopped::TooLarge);
            }
            thread::sleep(CHECK_INTERVAL);
        }
        Err(Stopped::TimedOut)
    }

    /// Ends git and the programs that it started. It may have ended already.
    fn stop(&self, child: &mut Child) {
        let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) else { return };
        let send = |signal| {
            let _ = if self.interactive {
                kill_process(pid, signal)
            } else {
                kill_process_group(pid, signal)
            };
        };
        send(Signal::TERM);
        let deadline = Instant::now() + END_TIMEOUT;
        while Instant::now() < deadline {
            if !matches!(child.try_wait(), Ok(None)) {
                break;
            }
            thread::sleep(CHECK_INTERVAL);
        }
        if !self.interactive {
            send(Signal::KILL);
        }
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// Reason why a transfer did not succeed.
#[derive(Debug)]
pub(super) enum Stopped {
    Io(io::Error),
    /// Messages of git.
    Failed(String),
    TooLarge,
    TimedOut,
    Cancelled,
}

/// Returns the messages of a command that failed.
fn reason(stderr: &[u8], status: ExitStatus) -> String {
    let text = String::from_utf8_lossy(stderr);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    match lines.as_slice() {
        [] => format!("git failed ({status})"),
        lines => lines.join("; ").chars().take(MAX_REASON_CHARS).collect(),
    }
}

/// Returns the bytes of all files below a folder. Files that vanish meanwhile do not count.
fn folder_size(dir: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(dir) else { return 0 };
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => folder_size(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    };
    entries.flatten().map(size).sum()
}
