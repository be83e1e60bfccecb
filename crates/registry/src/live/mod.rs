//! What live clients have: skills and prompts that are not stored, and are gone when their client goes.
//!
//! - [`LiveClient`], [`LiveUpdate`]: what a client has now, for the shelf of the catalog
//! - [`LiveSource`]: where it is read, rendered and called; whoever hosts the clients implements it
//! - [`LiveChange`]: what is told of it
//! - [`Question`]: what hosts ask about clients and their paths
//!
//! It does not know by which protocol clients are connected. A client joins this world only if its id may be
//! that of a skill: its skills are then at `iii://{client}/{path}`.

mod method;
mod question;
pub mod schema;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::Value;
use skills_core::{Caller, Kind, PromptArgument, PromptName, SkillId, Timestamp};

pub use self::{
    method::Method,
    question::{CallPath, CallPaths, ListClients, ListPaths, PathCall, Question},
};

/// What a listing says renders a prompt of a live client.
pub const RENDERED_BY: &str = "mdp::call-path";

/// A client with all that it has for everyone.
#[derive(Debug, Clone)]
pub struct LiveClient {
    /// Its id.
    pub id: SkillId,
    /// Grows with every registration: of two that claim the same name the first has it.
    pub order: u64,
    /// When it came.
    pub since: Timestamp,
    /// Its skills, of which none is a pattern.
    pub skills: Vec<LiveSkill>,
    /// Its prompts, of which none is a pattern.
    pub prompts: Vec<LivePrompt>,
}

/// A skill of a client.
#[derive(Debug, Clone, Default)]
pub struct LiveSkill {
    /// Where it is, with the slash it begins with.
    pub path: String,
    /// What a person calls it.
    pub title: Option<String>,
    /// What it is for.
    pub description: Option<String>,
}

/// A prompt of a client.
#[derive(Debug, Clone, Default)]
pub struct LivePrompt {
    /// Where it is, with the slash it begins with.
    pub path: String,
    /// What it is for.
    pub description: Option<String>,
    /// What it asks for.
    pub arguments: Vec<PromptArgument>,
}

/// What became of a client.
#[derive(Debug, Clone)]
pub enum LiveUpdate {
    /// It is here, and this is all that it has.
    Here(LiveClient),
    /// It is not here.
    Gone(SkillId),
}

/// One entry of a live client that came, went, or may have another body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveChange {
    /// Skill or prompt.
    pub kind: Kind,
    /// The id or name.
    pub id: Arc<str>,
    /// Whether it is there.
    pub is_here: bool,
    /// When that was.
    pub at: Timestamp,
}

/// Where a live entry comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The client.
    pub client: Arc<str>,
    /// The path, with the slash it begins with.
    pub path: Arc<str>,
}

/// A document of a live client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveDocument {
    /// Its media type.
    pub media_type: String,
    /// What it holds.
    pub body: Bytes,
}

/// Why a client gave nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct LiveError {
    /// Stable, for machines.
    pub code: &'static str,
    /// For people.
    pub message: String,
}

/// Whoever hosts the clients.
#[async_trait]
pub trait LiveSource: Send + Sync {
    /// How long a client may take to answer.
    fn answer_within(&self) -> Duration;
    /// Reads a skill; `None` when the client has none there.
    async fn read(&self, client: &str, path: &str) -> Result<Option<LiveDocument>, LiveError>;
    /// What a prompt renders to, in whichever shape the client gives it.
    async fn render(&self, client: &str, path: &str, arguments: Value) -> Result<Value, LiveError>;
    /// Answers a question of a host on behalf of a caller. That a client answered with an error is an answer.
    async fn ask(&self, caller: &Caller, question: Question) -> Result<Value, LiveError>;
}

/// The id of a live skill.
#[must_use]
pub(crate) fn skill_id(client: &SkillId, path: &str) -> Arc<str> {
    format!("{client}/{}", path.trim_start_matches('/')).into()
}

/// What an entry is called where names have no slashes: the id of the client and the folders of the path, with
/// hyphens between them and without the dots that folders may begin with. `None` when that is too long.
#[must_use]
pub fn name(client: &SkillId, path: &str) -> Option<PromptName> {
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
        name(&client.parse().unwrap(), path).map(|name| name.to_string())
    }

    #[test]
    fn names_are_made_of_client_and_folders() {
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
