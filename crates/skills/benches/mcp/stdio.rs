//! MCP over standard input and output, one request at a time.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use skills_testkit::program;

use crate::{SERVER, servers::bare_command, wire};

/// Process that has answered `initialize`. Dropping it kills it.
pub(crate) struct Pipes {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    line: Vec<u8>,
}

impl Drop for Pipes {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Pipes {
    /// Spawns a process and waits for its first answer.
    pub(crate) fn spawn(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take().unwrap();
        let stdout = BufReader::with_capacity(1 << 16, child.stdout.take().unwrap());
        let mut session = Self { child, stdin, stdout, line: Vec::new() };
        let answer = session.request(wire::INITIALIZE);
        assert!(answer.starts_with(b"{"), "{}", String::from_utf8_lossy(answer));
        session
    }

    pub(crate) fn bare(skills: usize) -> Self {
        Self::spawn(bare_command("rmcp-stdio", skills))
    }

    /// Starts this server on a data directory.
    pub(crate) fn on_directory(dir: &Path) -> Self {
        let mut command = program(&SERVER);
        command.args(["mcp", "--data-dir"]).arg(dir);
        Self::spawn(command)
    }

    /// Starts this server as a bridge to a running one.
    pub(crate) fn on_bus(url: &str) -> Self {
        let mut command = program(&SERVER);
        command.args(["mcp", "--url", url]);
        Self::spawn(command)
    }

    pub(crate) fn initialized(mut self) -> Self {
        self.send(wire::INITIALIZED);
        self
    }

    fn send(&mut self, message: &str) {
        self.stdin.write_all(format!("{message}\n").as_bytes()).unwrap();
    }

    /// Sends a request and returns the line of its answer, skipping notifications.
    pub(crate) fn request(&mut self, message: &str) -> &[u8] {
        self.send(message);
        loop {
            self.line.clear();
            self.stdout.read_until(b'\n', &mut self.line).unwrap();
            assert!(!self.line.is_empty(), "the process ended");
            let start = &self.line[..self.line.len().min(200)];
            if !start.windows(14).any(|part| part == b"\"notifications") {
                return &self.line;
            }
        }
    }
}
