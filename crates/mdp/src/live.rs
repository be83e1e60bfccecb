//! The clients of this host in the registry: what they have is listed there, and read and called from here.
//!
//! Only clients whose id may be that of a skill are told of, and of their paths only skills and prompts without
//! parameters: a pattern is no document. Everything else is still found by [`Question`]s.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use skills_core::{
    Caller, Content, PromptArgument, SkillId,
    limits::{MAX_PROMPT_BYTES, MAX_SUMMARY_CHARS},
    output::MARKDOWN,
};
use skills_registry::{
    Registry,
    live::{
        CallPath, CallPaths, LiveClient, LiveDocument, LiveError, LivePrompt, LiveSkill,
        LiveSource, LiveUpdate, PathCall, Question,
    },
};

use crate::{
    Answer, Call, CallError, Client, Host,
    wire::{Auth, Code, Descriptor, Kind, Method},
};

impl From<CallError> for LiveError {
    fn from(error: CallError) -> Self {
        Self { code: error.code().as_str(), message: error.to_string() }
    }
}

/// Keeps a registry in step with who is registered here, until one of them ends.
pub async fn follow(host: Host, registry: Arc<Registry>) {
    let mut news = host.changes();
    loop {
        let touched = host.take_touched();
        // Taken after: it is at least as new as what was touched.
        let roster = host.roster();
        let update = |id: &String| {
            let skill: SkillId = id.parse().ok()?;
            Some(match roster.client(id) {
                Some(client) => LiveUpdate::Here(live(skill, client)),
                None => LiveUpdate::Gone(skill),
            })
        };
        let updates: Vec<LiveUpdate> = touched.iter().filter_map(update).collect();
        if !updates.is_empty() && registry.set_live(updates).await.is_err() {
            return;
        }
        if news.changed().await.is_err() {
            return;
        }
    }
}

fn live(id: SkillId, client: &Client) -> LiveClient {
    let mut seen = HashSet::new();
    let listed = client.catalog.descriptors().iter().filter(|one| !one.path.contains(':'));
    // Of two at one path the first is asked.
    let listed = listed.filter(|one| one.kind == Kind::Skill || one.kind == Kind::Prompt);
    let listed: Vec<&Descriptor> = listed.filter(|one| seen.insert(one.path.as_str())).collect();
    let of = |kind| listed.iter().filter(move |one| one.kind == kind);
    LiveClient {
        id,
        order: client.number(),
        since: client.connected_at,
        skills: of(Kind::Skill).map(|one| skill(one)).collect(),
        prompts: of(Kind::Prompt).map(|one| prompt(one)).collect(),
    }
}

fn skill(descriptor: &Descriptor) -> LiveSkill {
    let title = descriptor.extra.get("title").and_then(Value::as_str);
    LiveSkill {
        path: descriptor.path.clone(),
        title: title.and_then(line),
        description: descriptor.description.as_deref().and_then(line),
    }
}

fn prompt(descriptor: &Descriptor) -> LivePrompt {
    let arguments = descriptor.input_schema.as_ref().map(arguments).unwrap_or_default();
    let bytes = arguments
        .iter()
        .map(|argument| argument.name.len() + argument.description.as_ref().map_or(0, String::len));
    // A listing carries them all.
    let fits = bytes.sum::<usize>() <= MAX_PROMPT_BYTES;
    LivePrompt {
        path: descriptor.path.clone(),
        description: descriptor.description.as_deref().and_then(line),
        arguments: if fits { arguments } else { vec![] },
    }
}

/// What a schema says a prompt takes.
fn arguments(schema: &Map<String, Value>) -> Vec<PromptArgument> {
    let required = schema.get("required").and_then(Value::as_array);
    let required: HashSet<&str> =
        required.into_iter().flatten().filter_map(Value::as_str).collect();
    let properties = schema.get("properties").and_then(Value::as_object);
    let argument = |(name, about): (&String, &Value)| PromptArgument {
        name: name.clone(),
        description: about.get("description").and_then(Value::as_str).and_then(line),
        required: required.contains(name.as_str()),
    };
    let named = properties.into_iter().flatten().filter(|(name, _)| !name.trim().is_empty());
    named.map(argument).collect()
}

/// A text on one line, and not too long for a listing.
fn line(text: &str) -> Option<String> {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let end = text.char_indices().nth(MAX_SUMMARY_CHARS).map_or(text.len(), |(end, _)| end);
    (!text.is_empty()).then(|| text[..end].to_owned())
}

#[async_trait]
impl LiveSource for Host {
    fn answer_within(&self) -> Duration {
        self.config().times.answer_within
    }

    async fn read(&self, client: &str, path: &str) -> Result<Option<LiveDocument>, LiveError> {
        let Ok(client) = self.client(client) else { return Ok(None) };
        let (media_type, params) = match self.find(&client, Method::Get, path) {
            Ok((found, params)) if found.kind == Kind::Skill => {
                (found.content_type.clone(), params)
            }
            _ => return Ok(None),
        };
        let call = Call { headers: Some(vec![]), ..Call::new(Method::Get, path) };
        let answer = self.ask(&client, &params, &call).await?;
        Ok(Some(document(&client.info.id, media_type, &answer)?))
    }

    async fn render(&self, client: &str, path: &str, arguments: Value) -> Result<Value, LiveError> {
        let query = match arguments {
            Value::Object(arguments) => arguments,
            _ => Map::new(),
        };
        let call =
            Call { query: Some(query), headers: Some(vec![]), ..Call::new(Method::Get, path) };
        let answer = self.call(client, &call).await?;
        Ok(answer.value(client)?.map(with_text_blocks).unwrap_or_default())
    }

    async fn ask(&self, caller: &Caller, question: Question) -> Result<Value, LiveError> {
        let host = self.seen_by(caller)?;
        let answer = match question {
            Question::ListClients(asked) => host.list_clients(&asked).await,
            Question::ListPaths(asked) => host.list_paths(&asked).await,
            Question::CallPath(CallPath { client_id, call: asked }) => {
                match host.call_path(&client_id, &call(asked)?).await {
                    Err(CallError::Handler(error)) => Ok(json!({ "ok": false, "error": error })),
                    answer => answer,
                }
            }
            Question::CallPaths(CallPaths { client_ids, call: asked }) => {
                host.call_paths(&client_ids, &call(asked)?).await
            }
        };
        Ok(answer?)
    }
}

/// A text is what the client says it is, anything else is shown as JSON.
fn document(
    client: &str,
    media_type: Option<String>,
    answer: &Answer,
) -> Result<LiveDocument, LiveError> {
    if let Some(text) = answer.text() {
        let media_type = media_type.unwrap_or_else(|| MARKDOWN.to_owned());
        return Ok(LiveDocument { media_type, body: text.into() });
    }
    let Content { mime_type, text } =
        Content::from_output(answer.value(client)?.unwrap_or_default());
    Ok(LiveDocument { media_type: mime_type.to_owned(), body: text.into() })
}

/// A client may give plain text as the content of a message.
fn with_text_blocks(mut output: Value) -> Value {
    let messages = output.get_mut("messages").and_then(Value::as_array_mut);
    for message in messages.into_iter().flatten() {
        if let Some(content) = message.get_mut("content")
            && let Some(text) = content.as_str()
        {
            *content = json!({ "type": "text", "text": text });
        }
    }
    output
}

fn call(asked: PathCall) -> Result<Call, LiveError> {
    let PathCall { method, path, query, body, headers, auth } = asked;
    let wrong = |error: serde_json::Error| LiveError {
        code: Code::BadRequest.as_str(),
        message: format!("auth cannot be passed on: {error}"),
    };
    let auth: Option<Auth> =
        auth.map(|auth| serde_json::from_value(Value::Object(auth))).transpose().map_err(wrong)?;
    let headers: BTreeMap<String, String> = headers
        .unwrap_or_default()
        .into_iter()
        .map(|(name, value)| (name.to_lowercase(), value))
        .collect();
    let headers = Some(headers.into_iter().collect());
    Ok(Call { query, body, headers, auth, ..Call::new(method, path) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_come_from_the_schema() {
        let schema = json!({
            "properties": {"a": {"description": " one\n two "}, "b": true, " ": {}},
            "required": ["b", 7],
        });
        let found = arguments(schema.as_object().unwrap());
        let shown: Vec<_> = found
            .iter()
            .map(|one| (one.name.as_str(), one.description.as_deref(), one.required))
            .collect();
        assert_eq!(shown, [("a", Some("one two"), false), ("b", None, true)]);
        assert!(arguments(json!({"properties": 7}).as_object().unwrap()).is_empty());
    }

    #[test]
    fn a_line_is_short() {
        assert_eq!(line(&"é ".repeat(200)).unwrap().chars().count(), MAX_SUMMARY_CHARS);
        assert_eq!(line(" \n "), None);
    }

    #[test]
    fn plain_content_becomes_a_text_block() {
        let given = json!({"messages": [{"role": "user", "content": "hi"}, 7]});
        let block = json!({"type": "text", "text": "hi"});
        assert_eq!(with_text_blocks(given)["messages"][0]["content"], block);
    }
}
