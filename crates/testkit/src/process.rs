//! Running a program and keeping what it says.

use std::{
    io::{BufRead as _, BufReader, Read, Write as _},
    process::{Child, Command, Stdio},
    sync::{Arc, Condvar, Mutex},
    thread,
};

use crate::DEADLINE;

/// Variables that would change what the program does.
const VARIABLES: [&str; 18] = [
    "ADMIN_KEY",
    "INTERNAL_API_SECRET",
    "MASTER_ENCRYPTION_KEY",
    "MASTER_ENCRYPTION_KEY_PREVIOUS",
    "III_CONFIG",
    "III_ENGINE_URL",
    "III_NAMESPACE",
    "III_TOKEN",
    "III_URL",
    "III_WORKER_NAME",
    "CLICOLOR_FORCE",
    "NO_COLOR",
    "RUST_BACKTRACE",
    "RUST_LOG",
    "SKILLS_BUS",
    "SKILLS_DATA_DIR",
    "SKILLS_HTTP",
    "SKILLS_HTTP_TOKEN",
];

/// A command that the caller's environment does not influence.
pub fn program(binary: &str) -> Command {
    let mut command = Command::new(binary);
    for variable in VARIABLES {
        command.env_remove(variable);
    }
    command
}

/// The same for a program that may not read what permissions forbid, also when tests run as root, who may.
pub fn restricted(binary: &str) -> Command {
    let is_root = Command::new("id").arg("-u").output().is_ok_and(|said| said.stdout == b"0\n");
    if !is_root {
        return program(binary);
    }
    let mut command = program("setpriv");
    command.args(["--bounding-set", "-dac_override,-dac_read_search", binary]);
    command
}

#[derive(Default)]
struct Said {
    text: String,
    ended: bool,
}

/// What a process says on one of its streams. It is read as it comes, so the process never waits.
#[derive(Clone)]
pub struct Transcript(Arc<(Mutex<Said>, Condvar)>);

impl Transcript {
    pub(crate) fn of(stream: impl Read + Send + 'static) -> Self {
        let transcript = Self(Arc::default());
        let shared = Arc::clone(&transcript.0);
        thread::spawn(move || {
            let (said, changed) = &*shared;
            let mut stream = BufReader::new(stream);
            let mut line = Vec::new();
            while matches!(stream.read_until(b'\n', &mut line), Ok(count) if count > 0) {
                said.lock().unwrap().text.push_str(&String::from_utf8_lossy(&line));
                changed.notify_all();
                line.clear();
            }
            said.lock().unwrap().ended = true;
            changed.notify_all();
        });
        transcript
    }

    /// Everything so far.
    pub fn so_far(&self) -> String {
        self.0.0.lock().unwrap().text.clone()
    }

    /// Waits until something is said.
    ///
    /// # Panics
    /// When the stream ends without it, or the deadline passes.
    pub fn wait_for(&self, words: &str) -> String {
        self.wait(|said| said.text.contains(words) || said.ended)
            .filter(|text| text.contains(words))
            .unwrap_or_else(|| panic!("{words:?} was never said, only: {}", self.so_far()))
    }

    /// Waits until the stream ends; `None` when the deadline passes first.
    pub(crate) fn to_the_end(&self) -> Option<String> {
        self.wait(|said| said.ended)
    }

    fn wait(&self, enough: impl Fn(&Said) -> bool) -> Option<String> {
        let (said, changed) = &*self.0;
        let guard = said.lock().unwrap();
        let (said, timeout) =
            changed.wait_timeout_while(guard, DEADLINE, |said| !enough(said)).unwrap();
        (!timeout.timed_out()).then(|| said.text.clone())
    }
}

/// How a program ended, and what it said.
#[derive(Debug)]
pub struct Ran {
    /// Its exit code; `None` after a signal.
    pub code: Option<i32>,
    /// The answer.
    pub stdout: String,
    /// The complaints.
    pub stderr: String,
}

/// Runs a command to its end.
///
/// # Panics
/// When it does not end in time.
pub fn run(command: &mut Command) -> Ran {
    run_with_input(command, b"")
}

/// The same with something on standard input.
///
/// # Panics
/// When it does not end in time.
pub fn run_with_input(command: &mut Command, input: &[u8]) -> Ran {
    let (mut child, stdout, stderr) = spawn(command.stdin(Stdio::piped()));
    // A program that does not read its input is none of our business.
    let _ = child.stdin.take().unwrap().write_all(input);
    let Some((stdout, stderr)) = stdout.to_the_end().zip(stderr.to_the_end()) else {
        let _ = child.kill();
        panic!("{command:?} did not end in time: {}{}", stdout.so_far(), stderr.so_far());
    };
    Ran { code: child.wait().unwrap().code(), stdout, stderr }
}

pub(crate) fn spawn(command: &mut Command) -> (Child, Transcript, Transcript) {
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let stdout = Transcript::of(child.stdout.take().unwrap());
    let stderr = Transcript::of(child.stderr.take().unwrap());
    (child, stdout, stderr)
}

/// A program that runs beside the test. Dropping it kills it.
pub struct Process {
    child: Child,
    /// Where answers belong.
    pub stdout: Transcript,
    /// The log.
    pub stderr: Transcript,
}

impl Process {
    /// Starts a command.
    pub fn start(command: &mut Command) -> Self {
        let (child, stdout, stderr) = spawn(command.stdin(Stdio::null()));
        Self { child, stdout, stderr }
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has not ended.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Sends a signal by its name.
    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    /// Waits for its end: its exit code and all that it said on stderr.
    ///
    /// # Panics
    /// When it does not end in time.
    pub fn wait(mut self) -> (Option<i32>, String) {
        let said = self.stderr.to_the_end().expect("the process did not end in time");
        (self.child.wait().unwrap().code(), said)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
