//! The phases `write`, `read` and `stay`.

use std::io::Write;

use anyhow::{Context, Result, anyhow};
use serde_json::{Value, json};

use crate::Sdk;
use crate::checks::eventually;
use crate::client::*;

const SPARE: &str = "rust-spare";
const CHAT: &str = "rust-chat";
const SCOPE: &str = "rust-scope";

impl<S: Sdk> Client<S> {
    /// Registers everything, reads it back, watches the changes.
    pub async fn write(&mut self) -> Result<()> {
        self.register_functions();
        self.subscribe().await?;
        self.check_registration().await?;
        self.check_listings().await?;
        self.check_resources().await?;
        self.check_templates().await?;
        self.check_prompt_listing().await?;
        self.check_reads().await?;
        self.check_prompts().await?;
        self.check_errors().await?;
        self.check_removal().await?;
        self.check_events().await?;
        self.check_state().await?;
        self.check_introspection().await?;
        self.check_event_lists("later").await
    }

    /// Checks after a restart that everything is still there, and removes it.
    pub async fn read_again(&mut self) -> Result<()> {
        let body = self.read(&uri(SKILL)).await?;
        self.checks.equal(body, markdown(BODY), "body after the restart")?;
        let prompts = self.call("prompts::list", json!({})).await?;
        let names = column(rows(&prompts, "prompts")?, "name");
        self.checks.equal(names, vec![PROMPT.into()], "prompts after the restart")?;
        let kept = json!({ "scope": SCOPE, "key": "kept" });
        let value = self.call("state::get", kept.clone()).await?;
        self.checks.equal(value, json!({ "n": 1 }), "state after the restart")?;
        let value = self.call("state::delete", kept).await?;
        self.checks.equal(value, json!({ "n": 1 }), "state::delete")?;
        let gone = self.read(&section("guide")).await;
        self.checks.fails(gone, "rust::guide", "section of a worker that is gone")?;

        self.register_functions();
        self.check_sections().await?;
        let messages =
            self.render(json!({ "name": PROMPT, "arguments": { "who": "Ada" } })).await?;
        self.checks.equal(messages, user_says("Greet Ada."), "prompt after the restart")?;

        self.unregister_skill(SKILL, true).await?;
        self.unregister_prompt(PROMPT, true).await?;
        let skills = self.call("skills::list", json!({})).await?;
        self.checks.equal(skills, json!({ "skills": [] }), "skills at the end")?;
        let prompts = self.call("prompts::list", json!({})).await?;
        self.checks.equal(prompts, json!({ "prompts": [] }), "prompts at the end")?;
        let removed = self.read(&uri(SKILL)).await;
        self.checks.fails(removed, "not found", "a removed skill")
    }

    /// Stays connected through a restart.
    pub async fn stay(&mut self) -> Result<()> {
        self.register_functions();
        self.subscribe().await?;
        self.register_skill(SKILL, BODY).await?;
        let events = self.skill_events.when(1).await;
        self.checks.equal(events, vec![registered("id", SKILL)], "event before the restart")?;
        println!("ready");
        std::io::stdout().flush()?;
        tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new()))
            .await?
            .context("waiting for the restart")?;

        let guide = json!({ "uri": section("guide") });
        eventually(|| self.call("skills::resources-read", guide.clone())).await?;
        let read = self.read(&section("guide")).await?;
        self.checks.equal(read, markdown(GUIDE), "section after reconnecting")?;
        self.register_skill(SKILL, BODY).await?;
        self.unregister_skill(SKILL, true).await?;
        let wanted =
            vec![registered("id", SKILL), registered("id", SKILL), unregistered("id", SKILL)];
        let events = self.skill_events.when(wanted.len()).await;
        self.checks.equal(events, wanted, "events after reconnecting")
    }

    async fn check_registration(&mut self) -> Result<()> {
        let first = self.register_skill(SKILL, BODY).await?;
        let second = self.register_skill(SKILL, BODY).await?;
        self.checks.that(
            second > first,
            &format!("skills::register again: {second} is not later than {first}"),
        )?;
        let first = self.register_greet().await?;
        let second = self.register_greet().await?;
        self.checks.that(
            second > first,
            &format!("prompts::register again: {second} is not later than {first}"),
        )?;
        self.register_skill(SPARE, "# Spare\n\nGone soon.\n").await?;
        self.register_prompt(CHAT, "rust::chat", json!([])).await?;
        Ok(())
    }

    async fn register_greet(&mut self) -> Result<String> {
        let who = json!({ "name": "who", "description": "Who to greet", "required": true });
        self.register_prompt(PROMPT, "rust::greet", json!([who, { "name": "tone" }])).await
    }

    async fn check_listings(&mut self) -> Result<()> {
        let skills = self.call("skills::list", json!({})).await?;
        let skills = rows(&skills, "skills")?;
        self.checks.equal(
            column(skills, "id"),
            vec![SKILL.into(), SPARE.into()],
            "skills::list",
        )?;
        self.checks.keys(&skills[0], &["id", "bytes", "registered_at"], &[], "skills::list row")?;
        self.checks.equal(&skills[0]["bytes"], &json!(BODY.len()), "skills::list bytes")?;

        let prompts = self.call("prompts::list", json!({})).await?;
        let prompts = rows(&prompts, "prompts")?;
        let fields = ["name", "function_id", "arguments", "registered_at"];
        self.checks.equal(
            column(prompts, "name"),
            vec![CHAT.into(), PROMPT.into()],
            "prompts::list",
        )?;
        self.checks.keys(&prompts[1], &fields, &[], "prompts::list row")?;
        self.checks.equal(
            &prompts[1]["function_id"],
            &json!("rust::greet"),
            "prompts::list function_id",
        )?;
        self.checks.equal(&prompts[1]["arguments"], &json!(2), "prompts::list arguments")
    }

    async fn check_resources(&mut self) -> Result<()> {
        let envelope = self.call("skills::resources-list", json!({})).await?;
        self.checks.keys(&envelope, &["resources"], &[], "resources-list")?;
        let resources = rows(&envelope, "resources")?;
        let mut uris = column(resources, "uri");
        uris.sort();
        self.checks.equal(uris, vec![uri(SKILL), uri(SPARE), uri("skills")], "resources-list")?;
        for resource in resources {
            let optional = ["title", "description", "size"];
            self.checks.keys(resource, &["uri", "name", "mimeType"], &optional, "resource")?;
            self.checks.equal(
                &resource["mimeType"],
                &json!("text/markdown"),
                "resource mimeType",
            )?;
        }
        let resource = find(resources, "uri", &uri(SKILL))?;
        for (key, wanted) in [
            ("title", json!(TITLE)),
            ("description", json!(DESCRIPTION)),
            ("size", json!(BODY.len())),
        ] {
            self.checks.equal(
                resource.get(key).unwrap_or(&wanted),
                &wanted,
                &format!("resource {key}"),
            )?;
        }
        Ok(())
    }

    async fn check_templates(&mut self) -> Result<()> {
        let envelope = self.call("skills::resources-templates", json!({})).await?;
        self.checks.keys(&envelope, &["resourceTemplates"], &[], "resources-templates")?;
        let templates = rows(&envelope, "resourceTemplates")?;
        self.checks.that(!templates.is_empty(), "resources-templates is empty")?;
        for template in templates {
            let fields = ["uriTemplate", "name", "description", "mimeType"];
            self.checks.keys(template, &fields, &[], "template")?;
            let uri = text(template, "uriTemplate");
            self.checks.that(uri.starts_with("iii://{"), &format!("template {uri}"))?;
        }
        Ok(())
    }

    async fn check_prompt_listing(&mut self) -> Result<()> {
        let envelope = self.call("prompts::mcp-list", json!({})).await?;
        self.checks.keys(&envelope, &["prompts"], &[], "mcp-list")?;
        let arguments = json!([
            { "name": "who", "description": "Who to greet", "required": true },
            { "name": "tone", "required": false },
        ]);
        let wanted = json!({ "name": PROMPT, "description": "Greets.", "arguments": arguments });
        self.checks.equal(find(rows(&envelope, "prompts")?, "name", PROMPT)?, &wanted, "mcp-list")
    }

    async fn check_reads(&mut self) -> Result<()> {
        let (mime, index) = self.read("iii://skills").await?;
        self.checks.equal(mime.as_str(), "text/markdown", "index mimeType")?;
        for words in [TITLE, DESCRIPTION, &uri(SKILL), &uri(SPARE)] {
            self.checks
                .that(index.contains(words), &format!("the index lacks {words:?}:\n{index}"))?;
        }
        let body = self.read(&uri(SKILL)).await?;
        self.checks.equal(body, markdown(BODY), "body")?;
        self.check_sections().await
    }

    async fn check_sections(&mut self) -> Result<()> {
        let pretty = serde_json::to_string_pretty(&facts())?;
        let read = self.read(&section("guide")).await?;
        self.checks.equal(read, markdown(GUIDE), "section {content}")?;
        let read = self.read(&section("plain")).await?;
        self.checks.equal(read, markdown(PLAIN), "section string")?;
        let read = self.read(&section("facts")).await?;
        self.checks.equal(read, ("application/json".into(), pretty), "section object")
    }

    async fn check_prompts(&mut self) -> Result<()> {
        let messages =
            self.render(json!({ "name": PROMPT, "arguments": { "who": "Ada" } })).await?;
        self.checks.equal(messages, user_says("Greet Ada."), "mcp-get")?;
        let messages = self.render(json!({ "name": PROMPT })).await?;
        self.checks.equal(messages, user_says("Greet world."), "mcp-get without arguments")?;
        let messages = self.render(json!({ "name": PROMPT, "arguments": null })).await?;
        self.checks.equal(messages, user_says("Greet world."), "mcp-get with null arguments")?;
        let messages = self.render(json!({ "name": CHAT })).await?;
        self.checks.equal(messages, chat_messages(), "mcp-get of {messages}")
    }

    async fn check_errors(&mut self) -> Result<()> {
        let prompt = |name: &str, description: &str, arguments: Value| json!({ "name": name, "description": description, "function_id": "f", "arguments": arguments });
        let refused = [
            ("skills::register", json!({ "id": "No Good", "skill": "x" }), "lowercase"),
            ("skills::register", json!({ "id": "x", "skill": "" }), "skill must be non-empty"),
            ("prompts::register", prompt("No Good", "d", json!([])), "lowercase"),
            ("prompts::register", prompt("x", " ", json!([])), "description must be non-empty"),
            (
                "prompts::register",
                prompt("x", "d", json!([{ "name": "a" }, { "name": "a" }])),
                "duplicate argument name",
            ),
            ("skills::resources-read", json!({ "uri": "iii://rust-nobody" }), "not found"),
            ("prompts::mcp-get", json!({ "name": "rust-nobody" }), "not found"),
            (
                "skills::resources-read",
                json!({ "uri": uri(SKILL) + "/state::get" }),
                "internal namespace",
            ),
            ("skills::resources-read", json!({ "uri": section("absent") }), "rust::absent"),
            ("skills::resources-read", json!({ "uri": section("broken") }), "deliberately broken"),
        ];
        for (function_id, payload, words) in refused {
            let what = format!("{function_id} {payload}");
            let outcome = self.call(function_id, payload).await;
            self.checks.fails(outcome, words, &what)?;
        }
        Ok(())
    }

    async fn check_removal(&mut self) -> Result<()> {
        self.unregister_skill(SPARE, true).await?;
        self.unregister_skill(SPARE, false).await?;
        self.unregister_prompt(CHAT, true).await?;
        self.unregister_prompt(CHAT, false).await
    }

    async fn check_events(&mut self) -> Result<()> {
        // One more change of each kind: events come in order, so whatever was sent before it is here when it is.
        self.register_skill(SKILL, BODY).await?;
        self.register_greet().await?;
        self.check_event_lists("at once").await
    }

    async fn check_event_lists(&mut self, when: &str) -> Result<()> {
        let changes = |key, main, spare| {
            vec![
                registered(key, main),
                registered(key, main),
                registered(key, spare),
                unregistered(key, spare),
                registered(key, main),
            ]
        };
        let events = self.skill_events.when(5).await;
        self.checks.equal(
            events,
            changes("id", SKILL, SPARE),
            &format!("skills::on-change, {when}"),
        )?;
        let events = self.prompt_events.when(5).await;
        self.checks.equal(
            events,
            changes("name", PROMPT, CHAT),
            &format!("prompts::on-change, {when}"),
        )
    }

    async fn check_state(&mut self) -> Result<()> {
        let item = json!({ "scope": SCOPE, "key": "k" });
        let one = json!({ "scope": SCOPE, "key": "k", "value": [1] });
        let two = json!({ "scope": SCOPE, "key": "k", "value": "two" });
        let scope = json!({ "scope": SCOPE });
        let steps = [
            ("state::get", item.clone(), Value::Null),
            ("state::set", one, json!({ "old_value": null, "new_value": [1] })),
            ("state::set", two, json!({ "old_value": [1], "new_value": "two" })),
            ("state::get", item.clone(), json!("two")),
            ("state::list", scope.clone(), json!(["two"])),
            ("state::delete", item, json!("two")),
            ("state::list", scope, json!([])),
        ];
        for (function_id, payload, wanted) in steps {
            let answer = self.call(function_id, payload).await?;
            self.checks.equal(answer, wanted, function_id)?;
        }
        self.call("state::set", json!({ "scope": SCOPE, "key": "kept", "value": { "n": 1 } }))
            .await?;
        Ok(())
    }

    async fn check_introspection(&mut self) -> Result<()> {
        let listing = self.call("engine::functions::list", json!({})).await?;
        let functions = rows(&listing, "functions")?;
        let own = find(functions, "function_id", "rust::guide");
        self.checks.that(own.is_ok(), "engine::functions::list lacks rust::guide")?;
        let register = find(functions, "function_id", "skills::register")?;
        let title = text(&register["request_format"], "title");
        self.checks.equal(title.as_str(), "RegisterSkillInput", "schema of skills::register")
    }
}

fn uri(id: &str) -> String {
    format!("iii://{id}")
}

fn section(function: &str) -> String {
    format!("iii://{SKILL}/rust::{function}")
}

fn registered(key: &str, value: &str) -> Value {
    json!({ "op": "register", key: value })
}

fn unregistered(key: &str, value: &str) -> Value {
    json!({ "op": "unregister", key: value })
}

fn find<'a>(rows: &'a [Value], key: &str, value: &str) -> Result<&'a Value> {
    rows.iter()
        .find(|row| row[key] == value)
        .ok_or_else(|| anyhow!("no row with {key} = {value:?}"))
}
