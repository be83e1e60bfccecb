//! Runs `git` on a bare repository.

use std::{
    fs, io,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use skills_core::GitProtocol;

use super::{
    FetchLimits, GitRoute, environment,
    messages::{self, FetchDisplay, HiddenText, Messages},
};

/// Settings that override those of the user: nothing of a repository is executed, and no other program is started. Nothing is
/// checked out either, so that a check of all objects would protect nothing, and one faulty file would make the others
/// unreachable.
const SETTINGS: [&str; 11] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.alternateRefsCommand=",
    "submodule.recurse=false",
    "fetch.fsckObjects=false",
    "fetch.recurseSubmodules=false",
    "fetch.writeCommitGraph=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "transfer.bundleURI=false",
    // Servers that the repository names.
    "fetch.uriProtocols=",
];
/// Interval at which a running fetch is checked against its limits.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// Checks between two measurements of the repository's size.
const CHECKS_PER_MEASUREMENT: u32 = 10;
/// Time for git to end after it was asked to, and for its last messages to arrive after it has ended.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// The user's `git` for one bare repository.
pub(super) struct Git<'a> {
    dir: PathBuf,
    protocol: GitProtocol,
    route: &'a GitRoute,
    /// Terminal, on which git may ask for credentials.
    display: Option<Arc<dyn FetchDisplay>>,
    hidden: HiddenText,
}

impl<'a> Git<'a> {
    pub(super) fn new(dir: &Path, protocol: GitProtocol) -> Self {
        Self {
            dir: dir.to_owned(),
            protocol,
            route: &GitRoute::Any,
            display: None,
            hidden: HiddenText::default(),
        }
    }

    /// Limits the servers that git may contact.
    pub(super) fn on_route(self, route: &'a GitRoute) -> Self {
        Self { route, ..self }
    }

    /// Shows messages on a display, and never the hidden text.
    pub(super) fn showing(
        self,
        display: Option<Arc<dyn FetchDisplay>>,
        hidden: HiddenText,
    ) -> Self {
        Self { display, hidden, ..self }
    }

    /// Returns the protocols that may be used, also after a rewrite of the URL by the user's settings.
    fn protocols(&self) -> &'static str {
        match (self.route, self.protocol) {
            (GitRoute::Pinned(pinned), _) => pinned.protocol().as_str(),
            (_, GitProtocol::Https | GitProtocol::Ssh) => "https:ssh",
            (_, GitProtocol::Http) => "https:ssh:http",
            (_, GitProtocol::File) => "https:ssh:file",
        }
    }

    /// Returns a command without arguments.
    pub(super) fn command(&self) -> Command {
        let mut command = environment::command("git");
        for setting in SETTINGS {
            command.args(["-c", setting]);
        }
        command.env("GIT_DIR", &self.dir).env("GIT_ALLOW_PROTOCOL", self.protocols());
        if self.display.is_none() {
            command.env("GIT_TERMINAL_PROMPT", "0");
        }
        match self.route {
            GitRoute::Any => {}
            GitRoute::WithoutRedirects => {
                command.args(["-c", "http.followRedirects=false"]);
            }
            GitRoute::Pinned(pinned) => pinned.apply(&mut command),
        }
        command.current_dir(&self.dir).stdin(Stdio::null());
        command
    }

    /// Runs a command that needs no network, and returns its output, or git's messages if it fails.
    pub(super) fn run(&self, arguments: &[&str]) -> io::Result<Result<Vec<u8>, String>> {
        let output = self.command().args(arguments).output()?;
        if output.status.success() {
            return Ok(Ok(output.stdout));
        }
        let messages = Messages::read(io::Cursor::new(output.stderr), None, self.hidden.clone());
        Ok(Err(messages::reason(&messages.take(END_TIMEOUT), output.status)))
    }

    /// Runs a command that transfers data, within limits.
    pub(super) fn run_bounded(
        &self,
        arguments: &[&str],
        limits: &FetchLimits,
    ) -> Result<(), Stopped> {
        let mut command = self.command();
        // Never the terminal itself: a server may write control sequences.
        command.args(arguments).stdout(Stdio::null()).stderr(Stdio::piped());
        if self.display.is_none() {
            // Otherwise it stays in the group of this process, which alone may use the terminal.
            command.process_group(0);
        }
        let mut child = command.spawn().map_err(Stopped::Io)?;
        let messages = child
            .stderr
            .take()
            .map(|stderr| Messages::read(stderr, self.display.clone(), self.hidden.clone()));
        let ended = self.wait(&mut child, limits);
        if ended.is_err() {
            self.stop(&mut child);
        }
        let lines = messages.map(|messages| messages.take(END_TIMEOUT)).unwrap_or_default();
        match ended? {
            status if status.success() => Ok(()),
            status => Err(Stopped::Failed(messages::reason(&lines, status))),
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
            let _ = if self.display.is_some() {
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
        if self.display.is_none() {
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
