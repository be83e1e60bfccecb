//! Entries of live clients: skills and prompts that are not stored and disappear with their client.
//!
//! - [`LiveClient`], [`LiveUpdate`]: current entries of a client, for the catalog
//! - [`LiveHost`]: reads, renders and calls them; the host of the clients implements it
//! - [`LiveChange`]: change notification for a live entry
//! - [`LiveOperation`]: the operations on clients and their paths that surfaces offer
//!
//! This module does not know the protocol of the clients. A client is listed only if its id is a valid skill id: its
//! skills are at `iii://{client}/{path}`.

mod operation;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::{Map, Value};
use skills_core::{Caller, Code, EntryKind, PromptArgument, PromptName, SkillId, Timestamp};

pub use self::operation::{LiveOperation, OperationDefinition};
use crate::RegistryError;

/// Function that listings name as the handler of a live client's prompt.
pub(crate) const LIVE_PROMPT_FUNCTION: &str = LiveOperation::CallPath.function_id();

/// A connected client with its public entries.
#[derive(Debug, Clone)]
pub struct LiveClient {
    /// Client id.
    pub id: SkillId,
    /// Order of registration. The first client that claims a name has it.
    pub order: u64,
    /// Time of registration.
    pub since: Timestamp,
    /// Skills with concrete paths.
    pub skills: Vec<LiveSkill>,
    /// Prompts with concrete paths.
    pub prompts: Vec<LivePrompt>,
}

/// Skill of a live client.
#[derive(Debug, Clone, Default)]
pub struct LiveSkill {
    /// Path with its leading slash.
    pub path: String,
    /// Human-readable title.
    pub title: Option<String>,
    /// Purpose.
    pub description: Option<String>,
}

/// Prompt of a live client.
#[derive(Debug, Clone, Default)]
pub struct LivePrompt {
    /// Path with its leading slash.
    pub path: String,
    /// Purpose.
    pub description: Option<String>,
    /// Arguments.
    pub arguments: Vec<PromptArgument>,
}

/// Update of a live client.
#[derive(Debug, Clone)]
pub enum LiveUpdate {
    /// The client is connected and has these entries.
    Connected(LiveClient),
    /// The client is not connected any more.
    Disconnected(SkillId),
}

/// Entry of a live client that was added, removed, or may have another body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveChange {
    /// Kind of the entry.
    pub kind: EntryKind,
    /// Skill id or prompt name.
    pub id: Arc<str>,
    /// True if the entry exists now.
    pub is_present: bool,
    /// Time of the change.
    pub at: Timestamp,
}

/// Client and path of a live entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveOrigin {
    /// Client id.
    pub client: Arc<str>,
    /// Path with its leading slash.
    pub path: Arc<str>,
}

/// Document of a live client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveDocument {
    /// Media type.
    pub media_type: String,
    /// Content.
    pub body: Bytes,
}

/// Failed request to a live client.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct LiveError {
    /// Stable error code.
    pub code: Code,
    /// Human-readable message.
    pub message: String,
}

/// Host of live clients.
#[async_trait]
pub trait LiveHost: Send + Sync {
    /// Returns how long a client may take to answer.
    fn answer_timeout(&self) -> Duration;
    /// Returns whether a client is connected.
    fn has_clients(&self) -> bool;
    /// Reads a skill; `None` when the client has none at that path.
    async fn read(&self, client: &str, path: &str) -> Result<Option<LiveDocument>, LiveError>;
    /// Renders a prompt. The result has the form that the client chose.
    async fn render(&self, client: &str, path: &str, arguments: Value) -> Result<Value, LiveError>;
    /// Carries out an operation on behalf of a caller. A client that answers with an error is a success.
    ///
    /// # Errors
    /// When the arguments do not fit the operation, or no client can be asked.
    async fn call_operation(
        &self,
        caller: &Caller,
        operation: LiveOperation,
        arguments: Map<String, Value>,
    ) -> Result<Value, RegistryError>;
}

/// Returns the id of a live skill.
#[must_use]
pub(crate) fn skill_id(client: &SkillId, path: &str) -> Arc<str> {
    format!("{client}/{}", path.trim_start_matches('/')).into()
}

/// Returns the name of a live entry where names have no slashes: the id of the client and the folders of the path,
/// joined by hyphens and without leading dots. `None` when it would be too long.
#[must_use]
pub fn prompt_name(client: &SkillId, path: &str) -> Option<PromptName> {
    let folders = path.rsplit_once('/').map_or("", |(folders, _)| folders);
    let folders = folders.split('/').filter(|folder| !folder.is_empty());
    let folders = folders.map(|folder| folder.trim_start_matches('.'));
    let parts: Vec<&str> = std::iter::once(client.as_str()).chain(folders).collect();
    parts.join("-").parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn named(client: &str, path: &str) -> Option<String> {
        prompt_name(&client.parse().unwrap(), path).map(|name| name.to_string())
    }

    #[test]
    fn a_name_consists_of_the_client_and_the_folders() {
        assert_eq!(named("desk", "/team/review/prompt.md").as_deref(), Some("desk-team-review"));
        assert_eq!(named("desk", "/prompt.md").as_deref(), Some("desk"));
        assert_eq!(named("desk", "/.ai/x_y/PROMPT.md").as_deref(), Some("desk-ai-x_y"));
        assert_eq!(
            named("desk", &format!("/{}/prompt.md", "a".repeat(59))).map(|n| n.len()),
            Some(64)
        );
        assert_eq!(named("desk", &format!("/{}/prompt.md", "a".repeat(60))), None);
    }

    proptest! {
        #[test]
        fn a_path_without_parameters_has_a_name_unless_it_is_too_long(
            client in "[a-z0-9_-]{1,8}", folders in prop::collection::vec("\\.?[a-z0-9][a-z0-9_-]{0,8}", 0..4),
        ) {
            prop_assume!(client != "skills");
            let path = format!("/{}", folders.iter().map(|f| format!("{f}/")).collect::<String>());
            let name = named(&client, &format!("{path}prompt.md"));
            prop_assert!(name.is_some());
        }
    }
}
