//! Content of entries as JSON, the same in all databases.

use std::io;

use skills_core::EntryKind;

use crate::EntryContent;

/// Parses stored content. Content that cannot be read becomes a corrupt entry and does not stop the start.
pub(crate) fn parse(kind: EntryKind, json: &str) -> EntryContent {
    let parsed = match kind {
        EntryKind::Skill => serde_json::from_str(json).map(EntryContent::Skill),
        EntryKind::Prompt => serde_json::from_str(json).map(EntryContent::Prompt),
        EntryKind::Collection => serde_json::from_str(json).map(EntryContent::Collection),
    };
    parsed.unwrap_or_else(|error| corrupt(kind, error.to_string()))
}

/// Returns the content of an entry that cannot be read.
pub(crate) const fn corrupt(kind: EntryKind, reason: String) -> EntryContent {
    EntryContent::Corrupt { kind, reason }
}

/// Serializes content.
pub(crate) fn to_json(content: &EntryContent) -> serde_json::Result<String> {
    match content {
        EntryContent::Skill(skill) => serde_json::to_string(skill),
        EntryContent::Prompt(prompt) => serde_json::to_string(prompt),
        EntryContent::Collection(collection) => serde_json::to_string(collection),
        EntryContent::Corrupt { reason, .. } => {
            Err(serde_json::Error::io(io::Error::other(reason.clone())))
        }
    }
}
