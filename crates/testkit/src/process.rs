//! Child processes and their output.

use std::{
    io::{BufRead as _, BufReader, Read, Write as _},
    process::{Child, Command, Stdio},
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use crate::{DEADLINE, select_store};

/// Environment variables that change the behaviour of the program.
const VARIABLES: [&str; 19] = [
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
    "SKILLS_STORE",
];

/// Builds a command without the variables of the caller's environment, and with a data folder that does not exist.
pub fn program(binary: &str) -> Command {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let mut command = Command::new(binary);
    for variable in VARIABLES {
        command.env_remove(variable);
    }
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let data_home = format!("skills-test-{}-{count}", std::process::id());
    command.env("XDG_DATA_HOME", std::env::temp_dir().join(data_home));
    command
}

/// Builds a command for a program without root's right to ignore file permissions, even if the tests run as root.
pub fn unprivileged_program(binary: &str) -> Command {
    let is_root =
        Command::new("id").arg("-u").output().is_ok_and(|captured| captured.stdout == b"0\n");
    if !is_root {
        return program(binary);
    }
    let mut command = program("setpriv");
    command.args(["--bounding-set", "-dac_override,-dac_read_search", binary]);
    command
}

#[derive(Default)]
struct StreamText {
    text: String,
    ended: bool,
}

/// Output stream of a process, read continuously so that the process never blocks.
#[derive(Clone)]
pub struct Transcript(Arc<(Mutex<StreamText>, Condvar)>);

impl Transcript {
    pub(crate) fn from_stream(stream: impl Read + Send + 'static) -> Self {
        let transcript = Self(Arc::default());
        let shared = Arc::clone(&transcript.0);
        thread::spawn(move || {
            let (captured, changed) = &*shared;
            let mut stream = BufReader::new(stream);
            let mut line = Vec::new();
            while matches!(stream.read_until(b'\n', &mut line), Ok(count) if count > 0) {
                captured.lock().unwrap().text.push_str(&String::from_utf8_lossy(&line));
                changed.notify_all();
                line.clear();
            }
            captured.lock().unwrap().ended = true;
            changed.notify_all();
        });
        transcript
    }

    /// Returns the output so far.
    pub fn contents(&self) -> String {
        self.0.0.lock().unwrap().text.clone()
    }

    /// Waits until the output contains some words.
    ///
    /// # Panics
    /// If the stream ends without them or the deadline passes.
    pub fn wait_for(&self, words: &str) -> String {
        self.wait(|captured| captured.text.contains(words) || captured.ended)
            .filter(|text| text.contains(words))
            .unwrap_or_else(|| panic!("{words:?} was not printed, only: {}", self.contents()))
    }

    /// Waits until the stream ends; `None` when the deadline passes first.
    pub(crate) fn wait_for_end(&self) -> Option<String> {
        self.wait(|captured| captured.ended)
    }

    fn wait(&self, enough: impl Fn(&StreamText) -> bool) -> Option<String> {
        let (captured, changed) = &*self.0;
        let guard = captured.lock().unwrap();
        let (captured, timeout) =
            changed.wait_timeout_while(guard, DEADLINE, |captured| !enough(captured)).unwrap();
        (!timeout.timed_out()).then(|| captured.text.clone())
    }
}

/// Exit code and output of a command.
#[derive(Debug)]
pub struct CommandOutput {
    /// Exit code; `None` after a signal.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// Runs a command to its end.
///
/// # Panics
/// If it does not end in time.
pub fn run(command: &mut Command) -> CommandOutput {
    run_with_input(command, b"")
}

/// Runs a command to its end with input on stdin.
///
/// # Panics
/// If it does not end in time.
pub fn run_with_input(command: &mut Command, input: &[u8]) -> CommandOutput {
    let (mut child, stdout, stderr) = spawn(command.stdin(Stdio::piped()));
    // The program may ignore its input.
    let _ = child.stdin.take().unwrap().write_all(input);
    let Some((stdout, stderr)) = stdout.wait_for_end().zip(stderr.wait_for_end()) else {
        let _ = child.kill();
        panic!("{command:?} did not end in time: {}{}", stdout.contents(), stderr.contents());
    };
    CommandOutput { code: child.wait().unwrap().code(), stdout, stderr }
}

pub(crate) fn spawn(command: &mut Command) -> (Child, Transcript, Transcript) {
    select_store(command);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let stdout = Transcript::from_stream(child.stdout.take().unwrap());
    let stderr = Transcript::from_stream(child.stderr.take().unwrap());
    (child, stdout, stderr)
}

/// Process that runs beside the test. Dropping it kills it.
pub struct Process {
    child: Child,
    /// Standard output.
    pub stdout: Transcript,
    /// Standard error.
    pub stderr: Transcript,
}

impl Process {
    /// Starts a command.
    pub fn start(command: &mut Command) -> Self {
        let (child, stdout, stderr) = spawn(command.stdin(Stdio::null()));
        Self { child, stdout, stderr }
    }

    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns whether the process is running.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Sends a signal by its name.
    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    /// Waits for the end of the process and returns exit code and stderr.
    ///
    /// # Panics
    /// If it does not end in time.
    pub fn wait(mut self) -> (Option<i32>, String) {
        let captured = self.stderr.wait_for_end().expect("the process did not end in time");
        (self.child.wait().unwrap().code(), captured)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
