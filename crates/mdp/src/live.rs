//! Live clients as entries of the registry: the registry lists their skills and prompts, and reads and calls them here.
//!
//! Only clients whose id is a valid skill id are listed, with their skills and prompts without parameters: a pattern is
//! no document. All others are reachable by [`HostRequest`]s.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use skills_core::{
    Caller, Code, Coded, PromptArgument, SkillId,
    limits::{MAX_DESCRIPTION_CHARS, MAX_PROMPT_BYTES, MAX_SUMMARY_CHARS},
    output::{JSON, MARKDOWN},
    text::{one_line, truncate_within},
};
use skills_registry::{
    Registry, RegistryError,
    live::{
        LiveClient, LiveDocument, LiveError, LiveHost, LiveOperation, LivePrompt, LiveSkill,
        LiveUpdate,
    },
};

use crate::{
    CallPath, CallPaths, ClientCall, ClientCallError, ClientResponse, HostRequest, MdpHost,
    PathCall, RegisteredClient,
    wire::{AuthContext, Descriptor, DescriptorKind, Method},
};

impl From<ClientCallError> for LiveError {
    fn from(error: ClientCallError) -> Self {
        Self { code: error.code(), message: error.to_string() }
    }
}

/// Updates a registry with every change of the clients, until the host or the registry ends.
pub async fn follow(host: MdpHost, registry: Arc<Registry>) {
    let mut changes = host.changes();
    let mut had_clients = false;
    loop {
        let changed = host.take_changed_clients();
        // Loaded after: the snapshot is at least as new as the changes.
        let clients = host.client_table();
        let update = |id: &String| {
            let skill: SkillId = id.parse().ok()?;
            Some(match clients.client(id) {
                Some(client) => LiveUpdate::Connected(live_client(skill, client)),
                None => LiveUpdate::Disconnected(skill),
            })
        };
        let updates: Vec<LiveUpdate> = changed.iter().filter_map(update).collect();
        if !updates.is_empty() && registry.update_live(updates).await.is_err() {
            return;
        }
        let has_clients = clients.clients().next().is_some();
        if has_clients != had_clients {
            // Surfaces offer the tools for live clients only while there are any.
            registry.refresh_tools();
            had_clients = has_clients;
        }
        if changes.changed().await.is_err() {
            return;
        }
    }
}

fn live_client(id: SkillId, client: &RegisteredClient) -> LiveClient {
    let mut seen = HashSet::new();
    let listed = client.catalog.descriptors().iter().filter(|one| !one.path.contains(':'));
    // Of two entries with one path, calls reach the first.
    let listed = listed
        .filter(|one| one.kind == DescriptorKind::Skill || one.kind == DescriptorKind::Prompt);
    let listed: Vec<&Descriptor> = listed.filter(|one| seen.insert(one.path.as_str())).collect();
    let of_kind = |kind| listed.iter().filter(move |one| one.kind == kind);
    LiveClient {
        id,
        order: client.number(),
        since: client.connected_at,
        skills: of_kind(DescriptorKind::Skill).map(|one| skill(one)).collect(),
        prompts: of_kind(DescriptorKind::Prompt).map(|one| prompt(one)).collect(),
    }
}

fn skill(descriptor: &Descriptor) -> LiveSkill {
    let title = descriptor.extra.get("title").and_then(Value::as_str);
    LiveSkill {
        path: descriptor.path.clone(),
        title: title.and_then(summary_line),
        description: descriptor.description.as_deref().and_then(description_line),
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
        description: descriptor.description.as_deref().and_then(summary_line),
        arguments: if fits { arguments } else { vec![] },
    }
}

/// Returns the arguments of a prompt from its schema.
fn arguments(schema: &Map<String, Value>) -> Vec<PromptArgument> {
    let required = schema.get("required").and_then(Value::as_array);
    let required: HashSet<&str> =
        required.into_iter().flatten().filter_map(Value::as_str).collect();
    let properties = schema.get("properties").and_then(Value::as_object);
    let argument = |(name, about): (&String, &Value)| PromptArgument {
        name: name.clone(),
        description: about.get("description").and_then(Value::as_str).and_then(summary_line),
        required: required.contains(name.as_str()),
    };
    let named = properties.into_iter().flatten().filter(|(name, _)| !name.trim().is_empty());
    named.map(argument).collect()
}

/// Returns a text as one line, truncated for a listing; `None` if it is blank.
fn summary_line(text: &str) -> Option<String> {
    line(text, MAX_SUMMARY_CHARS)
}

/// Returns the description of a skill as one line, truncated as that of a stored skill; `None` if it is blank.
fn description_line(text: &str) -> Option<String> {
    line(text, MAX_DESCRIPTION_CHARS)
}

fn line(text: &str, max_chars: usize) -> Option<String> {
    let text = truncate_within(one_line(text), max_chars);
    (!text.is_empty()).then(|| text.into_owned())
}

#[async_trait]
impl LiveHost for MdpHost {
    fn answer_timeout(&self) -> Duration {
        self.config().times.answer_within
    }

    fn has_clients(&self) -> bool {
        self.client_table().clients().next().is_some()
    }

    async fn read(&self, client: &str, path: &str) -> Result<Option<LiveDocument>, LiveError> {
        let Ok(client) = self.client(client) else { return Ok(None) };
        let (media_type, params) = match self.find(&client, Method::Get, path) {
            Ok((found, params)) if found.kind == DescriptorKind::Skill => {
                (found.content_type.clone(), params)
            }
            _ => return Ok(None),
        };
        let call = ClientCall { headers: Some(vec![]), ..ClientCall::new(Method::Get, path) };
        let response = self.call_client(&client, &params, &call, &call.payload()).await?;
        Ok(Some(document(media_type, response)?))
    }

    async fn render(&self, client: &str, path: &str, arguments: Value) -> Result<Value, LiveError> {
        let query = match arguments {
            Value::Object(arguments) => arguments,
            _ => Map::new(),
        };
        let call = ClientCall {
            query: Some(query),
            headers: Some(vec![]),
            ..ClientCall::new(Method::Get, path)
        };
        let mut response = self.call(client, &call).await?;
        Ok(response.value(client)?.map(with_text_blocks).unwrap_or_default())
    }

    async fn call_operation(
        &self,
        caller: &Caller,
        operation: LiveOperation,
        arguments: Map<String, Value>,
    ) -> Result<Value, RegistryError> {
        let request = HostRequest::parse(operation, arguments)
            .map_err(|reason| RegistryError::LiveArguments { operation, reason })?;
        let host = self.view(caller).map_err(LiveError::from)?;
        let call =
            |asked| Ok::<_, LiveError>(ClientCall { caller: caller.clone(), ..call(asked)? });
        let _listing = match request {
            HostRequest::ListClients(_) | HostRequest::ListPaths(_) => {
                Some(self.reserve_page(caller).map_err(LiveError::from)?)
            }
            HostRequest::CallPath(_) | HostRequest::CallPaths(_) => None,
        };
        let answer = match request {
            HostRequest::ListClients(asked) => host.list_clients(&asked).await,
            HostRequest::ListPaths(asked) => host.list_paths(&asked).await,
            HostRequest::CallPath(CallPath { client_id, call: asked }) => {
                match host.call_path(&client_id, &call(asked)?).await {
                    Err(ClientCallError::Handler(error)) => {
                        Ok(json!({ "ok": false, "error": error }))
                    }
                    answer => answer,
                }
            }
            HostRequest::CallPaths(CallPaths { client_ids, call: asked }) => {
                host.call_paths(&client_ids, &call(asked)?).await
            }
        };
        Ok(answer.map_err(LiveError::from)?)
    }
}

/// Converts a response to a document: text of the declared media type, or JSON.
fn document(
    media_type: Option<String>,
    response: ClientResponse,
) -> Result<LiveDocument, LiveError> {
    let (is_text, body) = response.into_document()?;
    let media_type =
        if is_text { media_type.unwrap_or_else(|| MARKDOWN.to_owned()) } else { JSON.to_owned() };
    Ok(LiveDocument { media_type, body })
}

/// Replaces plain text in the content of messages by text blocks.
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

fn call(asked: PathCall) -> Result<ClientCall, LiveError> {
    let PathCall { method, path, query, body, headers, auth } = asked;
    let wrong = |error: serde_json::Error| LiveError {
        code: Code::BadRequest,
        message: format!("auth cannot be passed on: {error}"),
    };
    let auth: Option<AuthContext> =
        auth.map(|auth| serde_json::from_value(Value::Object(auth))).transpose().map_err(wrong)?;
    let headers: BTreeMap<String, String> = headers
        .unwrap_or_default()
        .into_iter()
        .map(|(name, value)| (name.to_lowercase(), value))
        .collect();
    let headers = Some(headers.into_iter().collect());
    Ok(ClientCall { query, body, headers, auth, ..ClientCall::new(method, path) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompt_arguments_come_from_the_schema() {
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
    fn a_summary_line_is_truncated() {
        assert_eq!(summary_line(&"é ".repeat(200)).unwrap().chars().count(), MAX_SUMMARY_CHARS);
        assert_eq!(summary_line(" \n "), None);
    }

    #[test]
    fn plain_content_becomes_a_text_block() {
        let given = json!({"messages": [{"role": "user", "content": "hi"}, 7]});
        let block = json!({"type": "text", "text": "hi"});
        assert_eq!(with_text_blocks(given)["messages"][0]["content"], block);
    }
}
