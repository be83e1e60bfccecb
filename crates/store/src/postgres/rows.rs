//! Conversion between rows and the model.

use std::{str::FromStr as _, sync::Arc, time::Duration};

use skills_core::{Digest, EntryKey, EntryKind, Label, Layer, Timestamp};
use skills_postgres::{PgError, Row, column};

use crate::{
    Action, BatchId, EntryContent, LogRecord, Removal, StoredVersion, content_json, tables::Version,
};

/// Columns of [`version`], followed by the content.
pub(super) const VERSION_COLUMNS: &str = "v.entry, v.number, v.digest, v.identity, v.created_at, \
     v.actor, v.registered_at, v.revision, v.bytes, v.files, v.author_version, v.message, \
     v.yanked, v.removal";

/// Columns of [`log_record`].
pub(super) const LOG_COLUMNS: &str = "c.revision, c.at, c.actor, c.kind, c.tier, c.owner, c.id, \
     c.action, c.version, c.is_new, c.label, c.previous, c.note, c.before, c.served";

/// Returns a random stamp for the head.
pub(super) fn new_stamp() -> i64 {
    let [.., a, b, c, d, e, f, g, h] = *BatchId::new().as_bytes();
    i64::from_be_bytes([a, b, c, d, e, f, g, h])
}

pub(super) fn unreadable(column: &str, row: impl std::fmt::Display) -> PgError {
    PgError::Corrupt(format!("row {row} has a {column} that cannot be read"))
}

/// Converts a number to the type of the database.
pub(super) fn to_i64(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Converts a time to microseconds.
pub(super) fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

/// Converts a number that is never negative.
pub(super) fn to_u64(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}

pub(super) fn number(row: &Row, index: usize) -> Result<u64, PgError> {
    column::<i64>(row, index).map(to_u64)
}

pub(super) fn optional_number(row: &Row, index: usize) -> Result<Option<u64>, PgError> {
    Ok(column::<Option<i64>>(row, index)?.map(to_u64))
}

pub(super) fn timestamp(row: &Row, index: usize) -> Result<Timestamp, PgError> {
    column(row, index).map(Timestamp::from_micros)
}

pub(super) fn digest(row: &Row, index: usize) -> Result<Digest, PgError> {
    let bytes: &[u8] = column(row, index)?;
    let bytes = bytes.try_into().map_err(|_| unreadable("digest", index))?;
    Ok(Digest::from_bytes(bytes))
}

/// Returns kind, tier, owner and id as they are stored.
pub(super) fn key_parts(key: &EntryKey) -> [&str; 4] {
    [key.kind.as_str(), key.layer.tier().as_str(), key.layer.owner(), &key.id]
}

/// Converts kind, tier, owner and id, which are at `start`.
pub(super) fn key(row: &Row, start: usize) -> Result<EntryKey, PgError> {
    let id: &str = column(row, start + 3)?;
    let text = |at: usize| column::<&str>(row, start + at);
    let kind: EntryKind = text(0)?.parse().map_err(|()| unreadable("kind", id))?;
    let tier = text(1)?.parse().map_err(|()| unreadable("tier", id))?;
    let layer = Layer::from_parts(tier, text(2)?).ok_or_else(|| unreadable("owner", id))?;
    Ok(EntryKey { kind, layer, id: id.into() })
}

/// Converts a label and its version, which are at `start`.
pub(super) fn label(row: &Row, start: usize) -> Result<(Label, u64), PgError> {
    let name: &str = column(row, start)?;
    let label = Label::from_str(name).map_err(|_| unreadable("label", name))?;
    Ok((label, number(row, start + 1)?))
}

pub(super) fn content(
    kind: EntryKind,
    row: &Row,
    index: usize,
) -> Result<Option<Arc<EntryContent>>, PgError> {
    let json: Option<&str> = column(row, index)?;
    Ok(json.map(|json| Arc::new(content_json::parse(kind, json))))
}

/// Converts the columns [`VERSION_COLUMNS`], which are at the start of a row. The content is left out.
pub(super) fn version(row: &Row) -> Result<Version, PgError> {
    let removal = match column::<Option<&str>>(row, 13)? {
        None => None,
        Some("purged") => Some(Removal::Purged),
        Some("collected") => Some(Removal::Collected),
        Some(_) => return Err(unreadable("removal", number(row, 0)?)),
    };
    let info = StoredVersion {
        number: number(row, 1)?,
        digest: digest(row, 2)?,
        created_at: timestamp(row, 4)?,
        registered_at: timestamp(row, 6)?,
        actor: column::<&str>(row, 5)?.into(),
        message: column(row, 11)?,
        author_version: column(row, 10)?,
        bytes: number(row, 8)?,
        files: number(row, 9)?,
        yanked: column(row, 12)?,
        removal,
    };
    Ok(Version { info, identity: digest(row, 3)?, revision: number(row, 7)?, content: None })
}

/// Returns a version that stands for one that was not loaded. It is never served.
pub(super) fn placeholder(number: u64, actor: &Arc<str>) -> Version {
    let (digest, at) = (Digest::from_bytes([0; 32]), Timestamp::from_micros(0));
    let info = StoredVersion {
        number,
        digest,
        created_at: at,
        registered_at: at,
        actor: Arc::clone(actor),
        message: None,
        author_version: None,
        bytes: 0,
        files: 0,
        yanked: None,
        removal: Some(Removal::Collected),
    };
    Version { info, identity: digest, revision: 0, content: None }
}

/// Converts the columns [`LOG_COLUMNS`], which are at the start of a row.
pub(super) fn log_record(row: &Row) -> Result<LogRecord, PgError> {
    Ok(LogRecord {
        revision: number(row, 0)?,
        at: timestamp(row, 1)?,
        actor: column::<&str>(row, 2)?.into(),
        key: key(row, 3)?,
        action: action(row)?,
        before: optional_number(row, 13)?,
        served: optional_number(row, 14)?,
    })
}

fn action(row: &Row) -> Result<Action, PgError> {
    let revision = number(row, 0)?;
    let version = || number(row, 8);
    let reason = || column::<Option<String>>(row, 12).map(Option::unwrap_or_default);
    Ok(match column::<&str>(row, 7)? {
        "put" => {
            let (is_new, message) = (column(row, 9)?, column(row, 12)?);
            Action::Put { version: optional_number(row, 8)?, is_new, message }
        }
        "remove" => Action::Remove,
        "label" | "unlabel" => {
            let label = Label::from_str(column(row, 10)?);
            let label = label.map_err(|_| unreadable("label", revision))?;
            let (from, to) = (optional_number(row, 11)?, optional_number(row, 8)?);
            Action::Label { label, from, to }
        }
        "yank" => Action::Yank { version: version()?, reason: reason()? },
        "unyank" => Action::Unyank { version: version()? },
        "purge" => Action::Purge { version: version()?, reason: reason()? },
        "collect" => Action::Collect { version: version()? },
        _ => return Err(unreadable("action", revision)),
    })
}
