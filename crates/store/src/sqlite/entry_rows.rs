//! Rows of an entry: the entry itself, its labels and its versions. Reads only, for readers and the writer alike.

use std::{str::FromStr as _, sync::Arc};

use rusqlite::{Connection, OptionalExtension as _, Row, params, types::ValueRef};
use skills_core::{
    AvailableVersions, Digest, EntryKey, EntryKind, Label, Timestamp, VersionSelector,
    version::STABLE,
};

use super::rows::{self, unreadable};
use crate::{
    EntryContent, FoundVersion, Labels, Removal, StoredVersion, VersionPage, versions::is_selected,
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
    let row = |row: &Row<'_>| {
        Ok(EntryRow {
            number: row.get(0)?,
            is_present: row.get(1)?,
            latest: row.get(2)?,
            served: row.get(3)?,
            kept: row.get(4)?,
        })
    };
    connection.prepare_cached(sql)?.query_row(key_params(key), row).optional()
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

/// Returns the version that an entry serves without a label, or the one that a label at `limit` serves.
pub(super) fn newest_servable(
    connection: &Connection,
    entry: i64,
    limit: Option<u64>,
) -> rusqlite::Result<Option<u64>> {
    let sql = "SELECT number FROM version
               WHERE entry = ?1 AND number <= ?2 AND yanked IS NULL AND removal IS NULL
               ORDER BY number DESC LIMIT 1";
    let limit = limit.and_then(|limit| i64::try_from(limit).ok()).unwrap_or(i64::MAX);
    connection.prepare_cached(sql)?.query_row(params![entry, limit], |row| row.get(0)).optional()
}

pub(super) fn stable(labels: &Labels) -> Option<u64> {
    labels.iter().find(|(label, _)| label.as_str() == STABLE).map(|(_, number)| *number)
}

/// Converts the columns [`VERSION_COLUMNS`], which are at the start of a row.
pub(super) fn version(row: &Row<'_>) -> rusqlite::Result<StoredVersion> {
    let number = row.get(0)?;
    let removal = match row.get_ref(10)? {
        ValueRef::Null => None,
        text => {
            let all = [Removal::Purged, Removal::Collected];
            let text = text.as_str()?;
            let known = all.into_iter().find(|removal| removal.as_str() == text);
            Some(known.ok_or_else(|| unreadable(number, "removal"))?)
        }
    };
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
) -> rusqlite::Result<Selection> {
    let servable = |limit| match newest_servable(connection, entry.number, limit)? {
        Some(number) => version_row(connection, kind, entry.number, number),
        None => Ok(Selection::AllYanked),
    };
    match selector {
        VersionSelector::Number(number) => version_row(connection, kind, entry.number, *number),
        VersionSelector::Latest if entry.is_present => servable(None),
        VersionSelector::Latest => Ok(Selection::Missing),
        VersionSelector::Digest(_) => select_newest(connection, kind, entry.number, selector),
        VersionSelector::Name(name) => {
            let sql = "SELECT version FROM label WHERE entry = ?1 AND name = ?2";
            let mut statement = connection.prepare_cached(sql)?;
            let labelled: Option<u64> =
                statement.query_row(params![entry.number, name], |row| row.get(0)).optional()?;
            match labelled {
                Some(number) => servable(Some(number)),
                None => select_newest(connection, kind, entry.number, selector),
            }
        }
    }
}

/// Selects by digest or the author's version: the newest that is not yanked, or else the newest.
fn select_newest(
    connection: &Connection,
    kind: EntryKind,
    entry: i64,
    selector: &VersionSelector,
) -> rusqlite::Result<Selection> {
    let sql = format!(
        "SELECT {VERSION_COLUMNS} FROM version v
         WHERE v.entry = ?1 AND v.removal IS NOT 'collected' ORDER BY v.number DESC"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query([entry])?;
    let mut newest = None;
    while let Some(row) = rows.next()? {
        let info = version(row)?;
        if !is_selected(&info, selector) {
            continue;
        }
        if info.is_servable() {
            return version_row(connection, kind, entry, info.number);
        }
        newest = newest.or(Some(info.number));
    }
    newest.map_or(Ok(Selection::Missing), |number| version_row(connection, kind, entry, number))
}

fn version_row(
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
