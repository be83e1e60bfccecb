//! A client that speaks JSON-RPC by hand, so that it sees every line as it is.

use std::process::Stdio;

use serde_json::{Value, json};
use skills_testkit::{DEADLINE, program};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::timeout,
};

use crate::support::{BINARY, Home};

/// The capabilities of a client that wants the list of skills.
pub(crate) fn opted_in() -> Value {
    json!({ "_meta": { "agentskills.io": { "availableSkillsUpdate": true } } })
}

/// A process that speaks ACP. Dropping it kills it.
pub(crate) fn start(arguments: &[&str]) -> Child {
    let mut command = program(BINARY);
    command.arg("acp").args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    Command::from(command).kill_on_drop(true).spawn().unwrap()
}

/// What a turn said, and why it stopped.
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
    /// Updates that came while something else was waited for.
    updates: Vec<Value>,
}

impl Client {
    /// One that has not said anything yet.
    pub(crate) fn silent(arguments: &[&str]) -> Self {
        let mut child = start(arguments);
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, input, output, last_id: 0, updates: vec![] }
    }

    /// One that has greeted.
    pub(crate) async fn greeted(arguments: &[&str], capabilities: Value) -> Self {
        let mut client = Self::silent(arguments);
        let params = json!({ "protocolVersion": 1, "clientCapabilities": capabilities });
        client.ok("initialize", params).await;
        client
    }

    /// One with a session on a server's registry.
    pub(crate) async fn session(home: &Home) -> (Self, String) {
        let mut client = Self::greeted(&["--url", &home.server.url], json!({})).await;
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

    /// Asks, without waiting for the answer.
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

    /// The answer to a question. Updates that come before it are kept.
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

    /// The code of the error that a request fails with.
    pub(crate) async fn fails(&mut self, method: &str, params: Value) -> i64 {
        let id = self.ask(method, params).await;
        let answer = self.answer(id).await;
        answer["error"]["code"].as_i64().unwrap_or_else(|| panic!("{method}: {answer}"))
    }

    /// The next update of a kind that fits.
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

    /// The first update of commands that has one of this name.
    pub(crate) async fn command(&mut self, name: &str) -> Value {
        let named = |update: &Value| find(&update["availableCommands"], name);
        let update = self.update("available_commands_update", |update| named(update).is_some());
        named(&update.await).unwrap()
    }

    /// The kinds of updates that came and were not asked for.
    pub(crate) fn kinds(&self) -> Vec<&str> {
        let updates = self.updates.iter();
        updates.map(|params| params["update"]["sessionUpdate"].as_str().unwrap()).collect()
    }

    /// Starts a turn.
    pub(crate) async fn say(&mut self, session: &str, text: &str) -> u64 {
        let prompt = json!([{ "type": "text", "text": text }]);
        self.ask("session/prompt", json!({ "sessionId": session, "prompt": prompt })).await
    }

    /// What a turn says until its end.
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

    /// A whole turn that ends by itself.
    pub(crate) async fn turn(&mut self, session: &str, text: &str) -> String {
        let id = self.say(session, text).await;
        let turn = self.hear(id).await;
        assert_eq!(turn.stopped, "end_turn");
        turn.text
    }

    /// Closes standard input: the rest of what comes, and whether the process ended well.
    pub(crate) async fn end(mut self) -> (Vec<Value>, bool) {
        self.input = None;
        let mut rest = vec![];
        while let Some(line) = timeout(DEADLINE, self.output.next_line()).await.unwrap().unwrap() {
            rest.push(serde_json::from_str(&line).unwrap());
        }
        (rest, timeout(DEADLINE, self.child.wait()).await.unwrap().unwrap().success())
    }
}

/// What has a name in a list.
pub(crate) fn find(list: &Value, name: &str) -> Option<Value> {
    list.as_array().unwrap().iter().find(|item| item["name"] == name).cloned()
}
