//! The binary as a server process.

use std::{
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use crate::process::{Transcript, program, spawn};

/// A running `skills serve`. Dropping it kills it.
pub struct ServerProcess {
    child: Child,
    /// `ws://…`
    pub url: String,
    /// `http://…`
    pub http: String,
    /// Standard output, which must stay empty.
    pub stdout: Transcript,
    /// Standard error: banner and log.
    pub stderr: Transcript,
}

impl ServerProcess {
    /// Builds the command that starts a server on free ports.
    pub fn command(binary: &str, data_dir: &Path) -> Command {
        let mut command = program(binary);
        command
            .args(["serve", "--bus", "127.0.0.1:0", "--http", "127.0.0.1:0", "--data-dir"])
            .arg(data_dir);
        command
    }

    /// Starts a server on free ports and waits until it serves.
    pub fn start(binary: &str, data_dir: &Path) -> Self {
        Self::start_with(binary, data_dir, &[])
    }

    /// Starts a server with additional arguments and waits until it serves.
    pub fn start_with(binary: &str, data_dir: &Path, arguments: &[&str]) -> Self {
        Self::spawn(Self::command(binary, data_dir).args(arguments))
    }

    /// Runs a command that becomes a server and waits until it serves.
    ///
    /// # Panics
    /// If it does not.
    pub fn spawn(command: &mut Command) -> Self {
        let (child, stdout, stderr) = spawn(command.stdin(Stdio::null()));
        // The line about the data is the last of the banner.
        let said = stderr.wait_for("\n  data  ");
        let address = |scheme: &str| {
            let start = said.find(scheme).unwrap();
            said[start..].split_whitespace().next().unwrap().to_owned()
        };
        Self { child, url: address("ws://"), http: address("http://"), stdout, stderr }
    }

    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills the server with SIGKILL, as a power cut would.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Stops the server with SIGTERM; see [`Self::wait`].
    pub fn stop(self) -> (Option<i32>, Duration, String) {
        self.signal("TERM");
        self.wait()
    }

    /// Waits for the end of the server. Returns exit code, duration and stderr.
    ///
    /// # Panics
    /// If it does not end in time.
    pub fn wait(mut self) -> (Option<i32>, Duration, String) {
        let started = Instant::now();
        let said = self.stderr.wait_for_end().expect("the server did not stop in time");
        let status = self.child.wait().unwrap();
        (status.code(), started.elapsed(), said)
    }

    /// Sends a signal by its name.
    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
