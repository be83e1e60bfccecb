//! MCP over standard input and output of `skills mcp`.

use std::{collections::VecDeque, process::Command, process::Stdio};

use serde_json::{Value, json};
use skills_testkit::{DEADLINE, program, select_store};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    process::{Child, ChildStdin, ChildStdout},
    sync::mpsc,
    time::timeout,
};

use super::{initialize, initialized, request, stateless_request};

use crate::support::BINARY;

/// A running `skills mcp`. Dropping it kills it.
pub(crate) struct Pipe {
    child: Child,
    input: Option<ChildStdin>,
    lines: mpsc::UnboundedReceiver<String>,
    /// Messages received while waiting for something else.
    aside: VecDeque<Value>,
    is_stateless: bool,
    asked: i64,
}

impl Pipe {
    /// Builds the command with arguments that select the registry.
    pub(crate) fn command(arguments: &[&str]) -> Command {
        let mut command = program(BINARY);
        command.arg("mcp").args(arguments).stderr(Stdio::null());
        command
    }

    /// Starts a command without sending anything.
    pub(crate) fn spawn(mut command: Command) -> Self {
        select_store(&mut command);
        let mut child = tokio::process::Command::from(command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let (sender, lines) = mpsc::unbounded_channel();
        tokio::spawn(read(child.stdout.take().unwrap(), sender));
        let input = child.stdin.take();
        Self { child, input, lines, aside: VecDeque::new(), is_stateless: false, asked: 0 }
    }

    /// Starts and initializes a session of the older revisions.
    pub(crate) async fn session(arguments: &[&str], version: &str) -> Self {
        let mut pipe = Self::spawn(Self::command(arguments));
        pipe.begin(version).await;
        pipe
    }

    pub(crate) async fn begin(&mut self, version: &str) {
        self.send(&initialize(version)).await;
        let answer = self.message().await;
        assert_eq!(answer["result"]["protocolVersion"], version, "{answer}");
        self.send(&initialized()).await;
    }

    /// Starts a client of the newest revision, which needs no initialization.
    pub(crate) fn stateless(arguments: &[&str]) -> Self {
        Self { is_stateless: true, ..Self::spawn(Self::command(arguments)) }
    }

    pub(crate) fn is_stateless(&self) -> bool {
        self.is_stateless
    }

    pub(crate) async fn send(&mut self, message: &Value) {
        self.write(&message.to_string()).await;
    }

    /// Writes an arbitrary line.
    pub(crate) async fn write(&mut self, line: &str) {
        let input = self.input.as_mut().unwrap();
        let line = format!("{line}\n");
        let written = timeout(DEADLINE, input.write_all(line.as_bytes()));
        written.await.expect("nobody reads").unwrap();
    }

    /// Reads the next line, which must be a message; `None` at the end.
    async fn line(&mut self) -> Option<Value> {
        let line = timeout(DEADLINE, self.lines.recv()).await.expect("nothing came in time")?;
        let message: Value = serde_json::from_str(&line)
            .unwrap_or_else(|error| panic!("not a message: {line:?}: {error}"));
        assert_eq!(message["jsonrpc"], "2.0", "{message}");
        Some(message)
    }

    /// Returns the next unread message.
    pub(crate) async fn message(&mut self) -> Value {
        match self.aside.pop_front() {
            Some(message) => message,
            None => self.line().await.expect("it has ended"),
        }
    }

    pub(crate) async fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.asked += 1;
        let asked = self.asked;
        let request = if self.is_stateless { stateless_request } else { request };
        self.send(&request(asked, method, params)).await;
        self.answer(asked).await
    }

    /// Waits for the answer to a request.
    pub(crate) async fn answer(&mut self, id: i64) -> Value {
        loop {
            let message = self.line().await.expect("it has ended");
            if message["id"] == json!(id) {
                return message;
            }
            self.aside.push_back(message);
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id().unwrap()
    }

    /// Closes standard input, as an ending host does.
    pub(crate) fn hang_up(&mut self) {
        self.input = None;
    }

    /// Waits for the end. Returns the exit code and the remaining messages.
    pub(crate) async fn ended(mut self) -> (Option<i32>, Vec<Value>) {
        let mut rest: Vec<Value> = self.aside.drain(..).collect();
        while let Some(message) = self.line().await {
            rest.push(message);
        }
        let status = timeout(DEADLINE, self.child.wait()).await.expect("it does not end");
        (status.unwrap().code(), rest)
    }
}

async fn read(output: ChildStdout, lines: mpsc::UnboundedSender<String>) {
    let mut output = BufReader::new(output).lines();
    while let Ok(Some(line)) = output.next_line().await {
        if lines.send(line).is_err() {
            return;
        }
    }
}
