//! Rows of an entry: the entry itself, its labels and its versions. Reads only, for readers and the writer alike.

use std::{str::FromStr as _, sync::Arc};

use rusqlite::{Connection, OptionalExtension as _, Row, ToSql, params, types::ValueRef};
use skills_core::{
    AvailableVersions, Digest, EntryKey, EntryKind, Label, Timestamp, VersionSelector,
    version::STABLE,
};

use super::rows::{self, unreadable};
use crate::{
    EntryContent, FoundVersion, Labels, Removal, StoredVersion, VersionPage,
    selection::{
        RequiredContent, RequiredState, SelectedNumber, SelectionPurpose, VersionCriteria,
        VersionIndex, select_version,
    },
};

/// Columns of [`version`].
pub(super) const VERSION_COLUMNS: &str = "v.number, v.digest, v.created_at, v.registered_at, \
     v.actor, v.message, v.author_version, v.bytes, v.files, v.yanked, v.removal";

/// Row of `entry`.
#[derive(Debug, Clone, Copy)]
pub(super) struct EntryRow {
    pub(super) number: i64,
    pub(super) is_present: bool,
    pub(super) latest: u64,
    pub(super) served: Option<u64>,
    pub(super) kept: u64,
}

/// Version with its row number.
pub(super) struct VersionRow {
    pub(super) seq: i64,
    pub(super) info: StoredVersion,
    pub(super) content: Option<Arc<EntryContent>>,
}

/// Result of selecting a version.
pub(super) enum Selection {
    Found(Box<VersionRow>),
    AllYanked,
    Missing,
}

impl From<Selection> for FoundVersion {
    fn from(selection: Selection) -> Self {
        match selection {
            Selection::Found(row) => Self::Found { version: row.info, content: row.content },
            Selection::AllYanked => Self::AllYanked,
            Selection::Missing => Self::Missing,
        }
    }
}

pub(super) fn key_params(key: &EntryKey) -> [&str; 4] {
    [key.kind.as_str(), key.layer.tier().as_str(), key.layer.owner(), &key.id]
}

pub(super) fn entry(connection: &Connection, key: &EntryKey) -> rusqlite::Result<Option<EntryRow>> {
    let sql = "SELECT number, is_present, latest, served, kept FROM entry
               WHERE kind = ?1 AND tier = ?2 AND owner = ?3 AND id = ?4";
    let mut statement = connection.prepare_cached(sql)?;
    statement.query_row(key_params(key), |row| entry_row(row, 0)).optional()
}

/// Converts number, presence, newest, served and kept versions, which are at `start`.
pub(super) fn entry_row(row: &Row<'_>, start: usize) -> rusqlite::Result<EntryRow> {
    Ok(EntryRow {
        number: row.get(start)?,
        is_present: row.get(start + 1)?,
        latest: row.get(start + 2)?,
        served: row.get(start + 3)?,
        kept: row.get(start + 4)?,
    })
}

pub(super) fn labels(connection: &Connection, entry: i64) -> rusqlite::Result<Labels> {
    let sql = "SELECT name, version FROM label WHERE entry = ?1 ORDER BY name";
    let mut statement = connection.prepare_cached(sql)?;
    let labels = statement.query_map([entry], |row| label(row, 0))?;
    labels.collect()
}

/// Converts a label and its version, which are at `start`.
pub(super) fn label(row: &Row<'_>, start: usize) -> rusqlite::Result<(Label, u64)> {
    let version = row.get(start + 1)?;
    let label = Label::from_str(row.get_ref(start)?.as_str()?);
    Ok((label.map_err(|_| unreadable(version, "label"))?, version))
}

pub(super) fn stable(labels: &Labels) -> Option<u64> {
    labels.iter().find(|(label, _)| label.as_str() == STABLE).map(|(_, number)| *number)
}

pub(super) fn removal(number: u64, stored: ValueRef<'_>) -> rusqlite::Result<Option<Removal>> {
    let text = match stored {
        ValueRef::Null => return Ok(None),
        text => text.as_str()?,
    };
    let all = [Removal::Purged, Removal::Collected];
    let known = all.into_iter().find(|removal| removal.as_str() == text);
    known.map(Some).ok_or_else(|| unreadable(number, "removal"))
}

/// Converts the columns [`VERSION_COLUMNS`], which are at the start of a row.
pub(super) fn version(row: &Row<'_>) -> rusqlite::Result<StoredVersion> {
    let number = row.get(0)?;
    let removal = removal(number, row.get_ref(10)?)?;
    Ok(StoredVersion {
        number,
        digest: Digest::from_bytes(row.get(1)?),
        created_at: Timestamp::from_micros(row.get(2)?),
        registered_at: Timestamp::from_micros(row.get(3)?),
        actor: row.get_ref(4)?.as_str()?.into(),
        message: row.get(5)?,
        author_version: row.get(6)?,
        bytes: row.get(7)?,
        files: row.get(8)?,
        yanked: row.get(9)?,
        removal,
    })
}

pub(super) fn page(
    connection: &Connection,
    key: &EntryKey,
    before: Option<u64>,
    limit: usize,
) -> rusqlite::Result<VersionPage> {
    let Some(entry) = entry(connection, key)? else { return Ok(VersionPage::default()) };
    let sql = format!(
        "SELECT {VERSION_COLUMNS} FROM version v
         WHERE v.entry = ?1 AND v.number < ?2 AND v.removal IS NOT 'collected'
         ORDER BY v.number DESC LIMIT ?3"
    );
    let before = before.and_then(|before| i64::try_from(before).ok()).unwrap_or(i64::MAX);
    let mut statement = connection.prepare_cached(&sql)?;
    let versions = statement.query_map(params![entry.number, before, limit], version)?;
    Ok(VersionPage {
        versions: versions.collect::<Result<_, _>>()?,
        count: entry.kept,
        served: entry.served,
        labels: labels(connection, entry.number)?,
        is_present: entry.is_present,
    })
}

/// Returns the newest versions of an entry for an error; `None` if it never existed.
pub(super) fn available(
    connection: &Connection,
    key: &EntryKey,
) -> rusqlite::Result<Option<AvailableVersions>> {
    let page = page(connection, key, None, AvailableVersions::LISTED)?;
    let numbers = page.versions.iter().map(|version| version.number).collect();
    Ok((page.count > 0).then(|| AvailableVersions::new(numbers, page.count)))
}

/// Selects a version of an entry.
pub(super) fn select(
    connection: &Connection,
    kind: EntryKind,
    entry: &EntryRow,
    selector: &VersionSelector,
    purpose: SelectionPurpose,
) -> rusqlite::Result<Selection> {
    let index = EntryVersions { connection, entry };
    match select_version(&index, selector, purpose)? {
        SelectedNumber::Number(number) => version_row(connection, kind, entry.number, number),
        SelectedNumber::AllYanked => Ok(Selection::AllYanked),
        SelectedNumber::Missing => Ok(Selection::Missing),
    }
}

/// Versions of an entry in the database.
pub(super) struct EntryVersions<'a> {
    pub(super) connection: &'a Connection,
    pub(super) entry: &'a EntryRow,
}

impl VersionIndex for EntryVersions<'_> {
    type Error = rusqlite::Error;

    fn is_present(&self) -> bool {
        self.entry.is_present
    }

    fn latest(&self) -> u64 {
        self.entry.latest
    }

    fn labels(&self) -> rusqlite::Result<Labels> {
        labels(self.connection, self.entry.number)
    }

    fn newest(&self, criteria: &VersionCriteria<'_>) -> rusqlite::Result<Option<u64>> {
        newest(self.connection, self.entry.number, criteria)
    }
}

/// Returns the newest version of an entry that meets some conditions. Each form of the query uses an index, so that its
/// cost does not depend on the number of versions.
pub(super) fn newest(
    connection: &Connection,
    entry: i64,
    criteria: &VersionCriteria<'_>,
) -> rusqlite::Result<Option<u64>> {
    let VersionCriteria { limit, content, state } = criteria;
    let limit = limit.and_then(|limit| i64::try_from(limit).ok()).unwrap_or(i64::MAX);
    let state = match state {
        RequiredState::Servable => "AND yanked IS NULL AND removal IS NULL",
        RequiredState::Kept => "AND removal IS NOT 'collected'",
        RequiredState::Any => "",
    };
    let query = |table: &str, content: &str, params: &[&dyn ToSql]| {
        let sql = format!(
            "SELECT number FROM {table} WHERE entry = ?1 AND number <= ?2 {content} {state}
             ORDER BY number DESC LIMIT 1"
        );
        connection.prepare_cached(&sql)?.query_row(params, |row| row.get(0)).optional()
    };
    match content {
        RequiredContent::Any => query("version", "", &[&entry, &limit]),
        RequiredContent::Digest(prefix) => {
            let (low, high) = prefix.bounds();
            let params: [&dyn ToSql; 4] = [&entry, &limit, low.as_bytes(), high.as_bytes()];
            let table = "version INDEXED BY version_by_digest";
            query(table, "AND digest BETWEEN ?3 AND ?4", &params)
        }
        RequiredContent::AuthorVersion(text) => {
            let table = "version INDEXED BY version_by_author_version";
            query(table, "AND author_version = ?3", &[&entry, &limit, text])
        }
    }
}

pub(super) fn version_row(
    connection: &Connection,
    kind: EntryKind,
    entry: i64,
    number: u64,
) -> rusqlite::Result<Selection> {
    let sql = format!(
        "SELECT {VERSION_COLUMNS}, v.seq, v.content FROM version v
         WHERE v.entry = ?1 AND v.number = ?2"
    );
    // A number from an address may be larger than any that is stored.
    let Ok(number) = i64::try_from(number) else { return Ok(Selection::Missing) };
    let row = |row: &Row<'_>| {
        let content = rows::optional_content(kind, row.get_ref(12)?);
        Ok(VersionRow { seq: row.get(11)?, info: version(row)?, content: content.map(Arc::new) })
    };
    let found =
        connection.prepare_cached(&sql)?.query_row(params![entry, number], row).optional()?;
    Ok(found.map_or(Selection::Missing, |row| Selection::Found(Box::new(row))))
}
