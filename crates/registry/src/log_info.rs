//! Requests and records of the change log: one shape for the bus, HTTP and the command line.

use serde::{Deserialize, Serialize};
use skills_core::{EntryKey, EntryKind, Tier, Timestamp};
use skills_store::{Action, Change, LogRecord};

/// Request for a page of the change log.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LogRequest {
    /// `skill`, `prompt` or `collection`; `None` for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<EntryKindName>,
    /// Id or name.
    #[serde(default, alias = "name", skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Tier; `None` for all that the caller sees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<Tier>,
    /// Earliest time in RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Text that the actor contains.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Most records on the page; 50 if absent, at most 500.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// `next` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// Kind of an entry as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EntryKindName {
    /// Skill.
    Skill,
    /// Prompt.
    Prompt,
    /// Collection of skills.
    Collection,
}

impl From<EntryKindName> for EntryKind {
    fn from(name: EntryKindName) -> Self {
        match name {
            EntryKindName::Skill => Self::Skill,
            EntryKindName::Prompt => Self::Prompt,
            EntryKindName::Collection => Self::Collection,
        }
    }
}

impl From<EntryKind> for EntryKindName {
    fn from(kind: EntryKind) -> Self {
        match kind {
            EntryKind::Skill => Self::Skill,
            EntryKind::Prompt => Self::Prompt,
            EntryKind::Collection => Self::Collection,
        }
    }
}

/// Record of the change log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogInfo {
    /// Number of the record.
    pub number: u64,
    /// Time in RFC 3339.
    pub at: String,
    /// Actor.
    pub by: String,
    /// Act, such as `skill.put`, `skill.remove`, `skill.label` or `prompt.yank`.
    pub action: String,
    /// Tier of the entry.
    pub tier: Tier,
    /// Owner of a private entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Id or name.
    pub id: String,
    /// Version that the act is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// Label that was set or removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Message of a version, or reason of a yank.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Version that the plain id read after the act.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served: Option<u64>,
}

impl From<LogRecord> for LogInfo {
    fn from(record: LogRecord) -> Self {
        let LogRecord { revision, at, actor, key, action, served, .. } = record;
        Self::new(revision, at, &actor, &key, &action, served)
    }
}

impl From<Change> for LogInfo {
    fn from(change: Change) -> Self {
        let Change { revision, at, actor, key, action, served, .. } = change;
        let served = served.and_then(|served| served.heads).map(|heads| heads.served);
        Self::new(revision, at, &actor, &key, &action, served)
    }
}

impl LogInfo {
    /// Returns the changed entry as text: tier, owner of a private entry, and id.
    #[must_use]
    pub fn subject(&self) -> String {
        let Self { tier, owner, id, .. } = self;
        match owner {
            Some(owner) => format!("{tier}/{owner}/{id}"),
            None => format!("{tier}/{id}"),
        }
    }

    fn new(
        number: u64,
        at: Timestamp,
        actor: &str,
        key: &EntryKey,
        action: &Action,
        served: Option<u64>,
    ) -> Self {
        let label = match action {
            Action::Label { label, .. } => Some(label.to_string()),
            _ => None,
        };
        Self {
            number,
            at: at.to_string(),
            by: actor.to_owned(),
            action: format!("{}.{}", key.kind.as_str(), action.as_str()),
            tier: key.layer.tier(),
            owner: Some(key.layer.owner().to_owned()).filter(|owner| !owner.is_empty()),
            id: key.id.to_string(),
            version: action.version(),
            label,
            message: action.note().map(str::to_owned),
            served,
        }
    }
}

/// Page of the change log, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogPage {
    /// Records.
    pub data: Vec<LogInfo>,
    /// Cursor of the next page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}
