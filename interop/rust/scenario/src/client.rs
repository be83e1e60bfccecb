//! The contract's functions as methods that check the shape of every answer.

use anyhow::{Result, anyhow};
use serde_json::{Value, json};

use crate::checks::{Checks, Events, instant};
use crate::{Handler, Sdk};

pub const SKILL: &str = "rust-skill";
pub const PROMPT: &str = "rust-greet";

pub const TITLE: &str = "Intérop 漢字 🎈";
pub const DESCRIPTION: &str = "First line, second line.";
/// Everything a careless store would change: CRLF, non-ASCII, a tab, trailing blanks, no final newline.
pub const BODY: &str = "# Intérop 漢字 🎈\r\n\r\nFirst line,\r\nsecond line.\r\n\r\n\
                        ```sh\n# not a title\n```\n\ttab and blanks  ";
pub const GUIDE: &str = "# Guide\n\nLong-form text.\n";
pub const PLAIN: &str = "Just a string.\n";

pub fn facts() -> Value {
    json!({ "answer": 42, "nested": { "list": [1, 2], "text": "é" } })
}

pub fn chat_messages() -> Value {
    json!([
        { "role": "user", "content": { "type": "text", "text": "Ping" } },
        { "role": "assistant", "content": { "type": "text", "text": "Pong" } },
    ])
}

pub struct Client<S> {
    sdk: S,
    pub checks: Checks,
    pub skill_events: Events,
    pub prompt_events: Events,
}

impl<S: Sdk> Client<S> {
    pub fn new(sdk: S) -> Self {
        Client {
            sdk,
            checks: Checks::default(),
            skill_events: Events::new(),
            prompt_events: Events::new(),
        }
    }

    pub async fn call(&self, function_id: &str, payload: Value) -> Result<Value> {
        self.sdk.call(function_id, payload).await.map_err(|error| anyhow!("{function_id}: {error}"))
    }

    /// Reads MIME type and text at `uri`.
    pub async fn read(&mut self, uri: &str) -> Result<(String, String)> {
        let envelope = self.call("skills::resources-read", json!({ "uri": uri })).await?;
        self.checks.keys(&envelope, &["contents"], &[], "resources-read")?;
        let contents = rows(&envelope, "contents")?;
        self.checks.equal(contents.len(), 1, "contents")?;
        self.checks.keys(&contents[0], &["uri", "mimeType", "text"], &[], "content")?;
        self.checks.equal(&contents[0]["uri"], &json!(uri), "content uri")?;
        Ok((text(&contents[0], "mimeType"), text(&contents[0], "text")))
    }

    /// Renders a prompt and returns its messages.
    pub async fn render(&mut self, request: Value) -> Result<Value> {
        let envelope = self.call("prompts::mcp-get", request).await?;
        self.checks.keys(&envelope, &["messages"], &["description"], "mcp-get")?;
        Ok(envelope["messages"].clone())
    }

    pub async fn register_skill(&mut self, id: &str, body: &str) -> Result<String> {
        let answer = self.call("skills::register", json!({ "id": id, "skill": body })).await?;
        self.checks.keys(&answer, &["id", "registered_at"], &[], "skills::register")?;
        self.checks.equal(&answer["id"], &json!(id), "skills::register: id")?;
        instant(&answer["registered_at"])
    }

    pub async fn register_prompt(
        &mut self,
        name: &str,
        function_id: &str,
        arguments: Value,
    ) -> Result<String> {
        let prompt = json!({
            "name": name, "description": "Greets.", "arguments": arguments, "function_id": function_id,
        });
        let answer = self.call("prompts::register", prompt).await?;
        self.checks.keys(&answer, &["name", "registered_at"], &[], "prompts::register")?;
        self.checks.equal(&answer["name"], &json!(name), "prompts::register: name")?;
        instant(&answer["registered_at"])
    }

    pub async fn unregister_skill(&mut self, id: &str, removed: bool) -> Result<()> {
        let answer = self.call("skills::unregister", json!({ "id": id })).await?;
        self.checks.equal(answer, json!({ "id": id, "removed": removed }), "skills::unregister")
    }

    pub async fn unregister_prompt(&mut self, name: &str, removed: bool) -> Result<()> {
        let answer = self.call("prompts::unregister", json!({ "name": name })).await?;
        self.checks.equal(
            answer,
            json!({ "name": name, "removed": removed }),
            "prompts::unregister",
        )
    }

    pub fn register_functions(&self) {
        let register =
            |function_id: &str, handler: Handler| self.sdk.register_function(function_id, handler);
        register("rust::guide", Box::new(|_| Ok(json!({ "content": GUIDE }))));
        register("rust::plain", Box::new(|_| Ok(json!(PLAIN))));
        register("rust::facts", Box::new(|_| Ok(facts())));
        register("rust::broken", Box::new(|_| Err("deliberately broken".into())));
        register("rust::chat", Box::new(|_| Ok(json!({ "messages": chat_messages() }))));
        register(
            "rust::greet",
            Box::new(|arguments| {
                let who = arguments["who"].as_str().unwrap_or("world");
                Ok(json!({ "content": format!("Greet {who}.") }))
            }),
        );
    }

    pub async fn subscribe(&self) -> Result<()> {
        let skills =
            self.sdk.subscribe("skills::on-change", "rust::on_skill", self.skill_events.sink());
        skills.await.map_err(|error| anyhow!("subscribing to skills::on-change: {error}"))?;
        let prompts =
            self.sdk.subscribe("prompts::on-change", "rust::on_prompt", self.prompt_events.sink());
        prompts.await.map_err(|error| anyhow!("subscribing to prompts::on-change: {error}"))
    }
}

/// Expected content of a section or document.
pub fn markdown(text: &str) -> (String, String) {
    ("text/markdown".into(), text.into())
}

pub fn user_says(text: &str) -> Value {
    json!([{ "role": "user", "content": { "type": "text", "text": text } }])
}

pub fn rows<'a>(envelope: &'a Value, key: &str) -> Result<&'a Vec<Value>> {
    envelope[key].as_array().ok_or_else(|| anyhow!("no list {key:?} in {envelope}"))
}

pub fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_owned()
}

/// Returns the values of `key` in every row.
pub fn column(rows: &[Value], key: &str) -> Vec<String> {
    rows.iter().map(|row| text(row, key)).collect()
}
