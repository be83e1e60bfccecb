//! ACP client that speaks JSON-RPC by hand and sees every line.

use std::process::Stdio;

use serde_json::{Value, json};
use skills_testkit::{DEADLINE, program, select_store};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::timeout,
};

use crate::support::{BINARY, TestServer};

/// Capabilities of a client that wants the list of skills.
pub(crate) fn opted_in() -> Value {
    json!({ "_meta": { "agentskills.io": { "availableSkillsUpdate": true } } })
}

/// Starts `skills acp`. Dropping the process kills it.
pub(crate) fn start(arguments: &[&str]) -> Child {
    let mut command = program(BINARY);
    command.arg("acp").args(arguments);
    select_store(&mut command);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    Command::from(command).kill_on_drop(true).spawn().unwrap()
}

/// Text and stop reason of a turn.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) text: String,
    pub(crate) stopped: String,
}

pub(crate) struct Client {
    child: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
    last_id: u64,
    /// Updates received while waiting for something else.
    updates: Vec<Value>,
}

impl Client {
    /// Starts a process without initializing it.
    pub(crate) fn spawn(arguments: &[&str]) -> Self {
        let mut child = start(arguments);
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, input, output, last_id: 0, updates: vec![] }
    }

    /// Starts a process and initializes it.
    pub(crate) async fn initialized(arguments: &[&str], capabilities: Value) -> Self {
        let mut client = Self::spawn(arguments);
        let params = json!({ "protocolVersion": 1, "clientCapabilities": capabilities });
        client.ok("initialize", params).await;
        client
    }

    /// Opens a session on the registry of a server.
    pub(crate) async fn session(server: &TestServer) -> (Self, String) {
        let mut client = Self::initialized(&["--url", &server.process.url], json!({})).await;
        let session = client.open().await;
        (client, session)
    }

    /// Opens a session and returns its id.
    pub(crate) async fn open(&mut self) -> String {
        let opened = self.ok("session/new", json!({ "cwd": "/", "mcpServers": [] })).await;
        opened["sessionId"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn send(&mut self, message: &Value) {
        self.send_line(&message.to_string()).await;
    }

    pub(crate) async fn send_line(&mut self, line: &str) {
        let input = self.input.as_mut().unwrap();
        timeout(DEADLINE, input.write_all(format!("{line}\n").as_bytes())).await.unwrap().unwrap();
    }

    pub(crate) async fn message(&mut self) -> Value {
        let line = timeout(DEADLINE, self.output.next_line()).await.expect("nothing came");
        let line = line.unwrap().expect("the agent has ended");
        let message: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(message["jsonrpc"], "2.0", "{line}");
        message
    }

    /// Sends a request and returns its id.
    pub(crate) async fn ask(&mut self, method: &str, params: Value) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.send(&message).await;
        id
    }

    pub(crate) async fn notify(&mut self, method: &str, params: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params })).await;
    }

    /// Waits for the answer to a request and keeps updates that arrive before it.
    pub(crate) async fn answer(&mut self, id: u64) -> Value {
        loop {
            let message = self.message().await;
            if message["id"] == id {
                return message;
            }
            assert_eq!(message["method"], "session/update", "{message}");
            self.updates.push(message["params"].clone());
        }
    }

    pub(crate) async fn ok(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params).await;
        let answer = self.answer(id).await;
        assert!(answer["error"].is_null(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// Sends a request that must fail and returns the error code.
    pub(crate) async fn fails(&mut self, method: &str, params: Value) -> i64 {
        let id = self.ask(method, params).await;
        let answer = self.answer(id).await;
        answer["error"]["code"].as_i64().unwrap_or_else(|| panic!("{method}: {answer}"))
    }

    /// Waits for an update of a kind that matches.
    pub(crate) async fn update(&mut self, kind: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let mut seen = 0;
        loop {
            while let Some(params) = self.updates.get(seen) {
                let update = &params["update"];
                if update["sessionUpdate"] == kind && fits(update) {
                    return self.updates.remove(seen)["update"].clone();
                }
                seen += 1;
            }
            let message = self.message().await;
            assert_eq!(message["method"], "session/update", "{message}");
            self.updates.push(message["params"].clone());
        }
    }

    /// Waits for a command list with this name and returns the command.
    pub(crate) async fn command(&mut self, name: &str) -> Value {
        let named = |update: &Value| find(&update["availableCommands"], name);
        let update = self.update("available_commands_update", |update| named(update).is_some());
        named(&update.await).unwrap()
    }

    /// Returns the kinds of unread updates.
    pub(crate) fn kinds(&self) -> Vec<&str> {
        let updates = self.updates.iter();
        updates.map(|params| params["update"]["sessionUpdate"].as_str().unwrap()).collect()
    }

    /// Starts a turn.
    pub(crate) async fn say(&mut self, session: &str, text: &str) -> u64 {
        let prompt = json!([{ "type": "text", "text": text }]);
        self.ask("session/prompt", json!({ "sessionId": session, "prompt": prompt })).await
    }

    /// Waits for the end of a turn.
    pub(crate) async fn hear(&mut self, id: u64) -> Turn {
        let answer = self.answer(id).await;
        let stopped = answer["result"]["stopReason"].as_str().unwrap_or_else(|| panic!("{answer}"));
        let is_chunk = |params: &Value| params["update"]["sessionUpdate"] == "agent_message_chunk";
        let chunks = self.updates.extract_if(.., |params| is_chunk(params));
        let text = chunks
            .map(|params| params["update"]["content"]["text"].as_str().unwrap().to_owned())
            .collect();
        Turn { text, stopped: stopped.to_owned() }
    }

    /// Runs a turn to its regular end and returns its text.
    pub(crate) async fn turn(&mut self, session: &str, text: &str) -> String {
        let id = self.say(session, text).await;
        let turn = self.hear(id).await;
        assert_eq!(turn.stopped, "end_turn");
        turn.text
    }

    /// Closes standard input. Returns the remaining messages and whether the process ended with success.
    pub(crate) async fn end(mut self) -> (Vec<Value>, bool) {
        self.input = None;
        let mut rest = vec![];
        while let Some(line) = timeout(DEADLINE, self.output.next_line()).await.unwrap().unwrap() {
            rest.push(serde_json::from_str(&line).unwrap());
        }
        (rest, timeout(DEADLINE, self.child.wait()).await.unwrap().unwrap().success())
    }
}

/// Finds an element by name.
pub(crate) fn find(list: &Value, name: &str) -> Option<Value> {
    list.as_array().unwrap().iter().find(|item| item["name"] == name).cloned()
}
