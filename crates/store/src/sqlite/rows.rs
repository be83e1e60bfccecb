//! From rows to the model and back.

use std::{io, sync::Arc};

use rusqlite::{
    Connection, OptionalExtension as _, Row,
    types::{Type, ValueRef},
};
use skills_core::{Digest, EntryKey, Kind, Layer, Timestamp};

use crate::{Change, Entry, EntryContent};

/// A stored value that does not mean anything to us.
#[derive(Debug, thiserror::Error)]
#[error("revision {revision} has a {column} that cannot be read")]
struct Unreadable {
    revision: u64,
    column: &'static str,
}

fn unreadable(revision: u64, column: &'static str) -> rusqlite::Error {
    let error = Unreadable { revision, column };
    rusqlite::Error::FromSqlConversionFailure(0, Type::Text, Box::new(error))
}

/// A row of `change`: revision, at, actor, kind, tier, owner, id, before, content.
pub(super) fn change(row: &Row<'_>) -> rusqlite::Result<Change> {
    let revision = row.get(0)?;
    let missing = |column| move || unreadable(revision, column);
    let kind: Kind = row.get_ref(3)?.as_str()?.parse().map_err(|()| missing("kind")())?;
    let tier = row.get_ref(4)?.as_str()?.parse().map_err(|()| missing("tier")())?;
    let layer = Layer::from_parts(tier, row.get_ref(5)?.as_str()?).ok_or_else(missing("owner"))?;
    let content = match row.get_ref(8)? {
        ValueRef::Null => None,
        stored => Some(content(kind, stored)),
    };
    Ok(Change {
        revision,
        at: Timestamp::from_micros(row.get(1)?),
        actor: row.get_ref(2)?.as_str()?.into(),
        key: EntryKey { kind, layer, id: row.get_ref(6)?.as_str()?.into() },
        before: row.get::<_, Option<[u8; 32]>>(7)?.map(Digest::from_bytes),
        content: content.map(Arc::new),
    })
}

/// The same row as the newest version of an entry.
pub(super) fn entry(row: &Row<'_>) -> rusqlite::Result<Entry> {
    let Change { revision, at, key, content, .. } = change(row)?;
    let corrupt = || Arc::new(corrupt(key.kind, "what is known of it is missing".to_owned()));
    let content = content.unwrap_or_else(corrupt);
    Ok(Entry { key, revision, registered_at: at, content })
}

pub(super) fn state_value(
    connection: &Connection,
    scope: &str,
    key: &str,
) -> rusqlite::Result<Option<String>> {
    let mut statement =
        connection.prepare_cached("SELECT value FROM state WHERE scope = ?1 AND key = ?2")?;
    statement.query_row([scope, key], |row| row.get(0)).optional()
}

/// What a row holds. One that cannot be read spoils neither the others nor the start.
fn content(kind: Kind, stored: ValueRef<'_>) -> EntryContent {
    let parsed = match stored.as_str() {
        Ok(json) => content_from_json(kind, json).map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    parsed.unwrap_or_else(|reason| corrupt(kind, reason))
}

fn corrupt(kind: Kind, reason: String) -> EntryContent {
    EntryContent::Corrupt { kind, reason }
}

fn content_from_json(kind: Kind, json: &str) -> serde_json::Result<EntryContent> {
    match kind {
        Kind::Skill => serde_json::from_str(json).map(EntryContent::Skill),
        Kind::Prompt => serde_json::from_str(json).map(EntryContent::Prompt),
    }
}

pub(super) fn content_to_json(content: &EntryContent) -> serde_json::Result<String> {
    match content {
        EntryContent::Skill(skill) => serde_json::to_string(skill),
        EntryContent::Prompt(prompt) => serde_json::to_string(prompt),
        EntryContent::Corrupt { reason, .. } => {
            Err(serde_json::Error::io(io::Error::other(reason.clone())))
        }
    }
}
