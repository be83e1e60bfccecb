//! Conversion between rows and the model.

use std::{str::FromStr as _, sync::Arc};

use rusqlite::{
    Connection, OptionalExtension as _, Row,
    types::{Type, ValueRef},
};
use skills_core::{EntryKey, EntryKind, Label, Layer, Timestamp};

use crate::{
    Action, EntryContent, LogRecord,
    content_json::{self, corrupt},
};

/// Columns of [`log_record`].
pub(super) const LOG_COLUMNS: &str = "c.revision, c.at, c.actor, c.kind, c.tier, c.owner, c.id, \
     c.action, c.version, c.is_new, c.label, c.previous, c.note, c.before, c.served";

/// Stored value that cannot be parsed.
#[derive(Debug, thiserror::Error)]
#[error("row {row} has a {column} that cannot be read")]
struct Unreadable {
    row: u64,
    column: &'static str,
}

pub(super) fn unreadable(row: u64, column: &'static str) -> rusqlite::Error {
    let error = Unreadable { row, column };
    rusqlite::Error::FromSqlConversionFailure(0, Type::Text, Box::new(error))
}

/// Converts kind, tier, owner and id, which are at `start`.
pub(super) fn key(row: &Row<'_>, start: usize, number: u64) -> rusqlite::Result<EntryKey> {
    let missing = |column| move || unreadable(number, column);
    let kind: EntryKind = row.get_ref(start)?.as_str()?.parse().map_err(|()| missing("kind")())?;
    let tier = row.get_ref(start + 1)?.as_str()?.parse().map_err(|()| missing("tier")())?;
    let layer = Layer::from_parts(tier, row.get_ref(start + 2)?.as_str()?);
    let layer = layer.ok_or_else(missing("owner"))?;
    Ok(EntryKey { kind, layer, id: row.get_ref(start + 3)?.as_str()?.into() })
}

/// Converts the columns [`LOG_COLUMNS`], which are at the start of a row.
pub(super) fn log_record(row: &Row<'_>) -> rusqlite::Result<LogRecord> {
    let revision = row.get(0)?;
    Ok(LogRecord {
        revision,
        at: Timestamp::from_micros(row.get(1)?),
        actor: row.get_ref(2)?.as_str()?.into(),
        key: key(row, 3, revision)?,
        action: action(row, revision)?,
        before: row.get(13)?,
        served: row.get(14)?,
    })
}

fn action(row: &Row<'_>, revision: u64) -> rusqlite::Result<Action> {
    let version = || row.get::<_, u64>(8);
    let reason = || row.get::<_, Option<String>>(12).map(Option::unwrap_or_default);
    let label = || -> rusqlite::Result<Label> {
        let label = Label::from_str(row.get_ref(10)?.as_str()?);
        label.map_err(|_| unreadable(revision, "label"))
    };
    Ok(match row.get_ref(7)?.as_str()? {
        "put" => {
            let (version, is_new, message) = (row.get(8)?, row.get(9)?, row.get(12)?);
            Action::Put { version, is_new, message }
        }
        "remove" => Action::Remove,
        "label" | "unlabel" => {
            Action::Label { label: label()?, from: row.get(11)?, to: row.get(8)? }
        }
        "yank" => Action::Yank { version: version()?, reason: reason()? },
        "unyank" => Action::Unyank { version: version()? },
        "purge" => Action::Purge { version: version()?, reason: reason()? },
        "collect" => Action::Collect { version: version()? },
        _ => return Err(unreadable(revision, "action")),
    })
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

/// Parses the content of a version, unless it was removed.
pub(super) fn optional_content(kind: EntryKind, stored: ValueRef<'_>) -> Option<EntryContent> {
    (stored != ValueRef::Null).then(|| content(kind, stored))
}

/// Parses the content of the served version. A row that cannot be read becomes a corrupt entry and does not stop the
/// start.
pub(super) fn served_content(kind: EntryKind, stored: ValueRef<'_>) -> Arc<EntryContent> {
    let missing = || corrupt(kind, "its metadata is missing".to_owned());
    Arc::new(optional_content(kind, stored).unwrap_or_else(missing))
}

fn content(kind: EntryKind, stored: ValueRef<'_>) -> EntryContent {
    match stored.as_str() {
        Ok(json) => content_json::parse(kind, json),
        Err(error) => corrupt(kind, error.to_string()),
    }
}

pub(super) fn content_to_json(content: &EntryContent) -> rusqlite::Result<String> {
    content_json::to_json(content)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))
}
