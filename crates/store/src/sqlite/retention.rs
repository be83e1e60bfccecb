//! Versions that retention no longer keeps.

use std::{collections::HashSet, ops::ControlFlow};

use rusqlite::{Connection, OptionalExtension as _};
use skills_core::{EntryKey, Timestamp};

use super::{
    entry_rows::{self, EntryVersions, key_params},
    rows,
};
use crate::{CollectionSize, ExpiredVersions, Retention, selection::protected_versions};

pub(super) fn expired(
    connection: &Connection,
    retention: &Retention,
    now: Timestamp,
    from: Option<&EntryKey>,
    limit: usize,
) -> rusqlite::Result<ExpiredVersions> {
    let mut expired = ExpiredVersions::default();
    for_each_expired(connection, retention, now, from, |key, number, _| {
        if expired.versions.len() == limit {
            expired.has_more = true;
            return ControlFlow::Break(());
        }
        expired.versions.push((key.clone(), number));
        ControlFlow::Continue(())
    })?;
    Ok(expired)
}

pub(super) fn expired_size(
    connection: &Connection,
    retention: &Retention,
    now: Timestamp,
) -> rusqlite::Result<CollectionSize> {
    let mut expired = HashSet::new();
    for_each_expired(connection, retention, now, None, |_, _, seq| {
        expired.insert(seq);
        ControlFlow::Continue(())
    })?;
    let mut bytes = 0;
    for_each_unused_blob(connection, &expired, |blob| {
        let sql = "SELECT length(bytes) FROM blob WHERE number = ?1";
        let mut statement = connection.prepare_cached(sql)?;
        let size: Option<u64> = statement.query_row([blob], |row| row.get(0)).optional()?;
        bytes += size.unwrap_or(0);
        Ok(())
    })?;
    Ok(CollectionSize { versions: expired.len() as u64, bytes })
}

/// Visits the versions that retention no longer keeps, with their rows, in the order of keys.
fn for_each_expired(
    connection: &Connection,
    retention: &Retention,
    now: Timestamp,
    from: Option<&EntryKey>,
    mut visit: impl FnMut(&EntryKey, u64, i64) -> ControlFlow<()>,
) -> rusqlite::Result<()> {
    let oldest = retention.oldest_kept(now);
    let sql = "SELECT kind, tier, owner, id, number, is_present, latest, served, kept FROM entry
               WHERE kept > 1 AND (kind, tier, owner, id) >= (?1, ?2, ?3, ?4)
               ORDER BY kind, tier, owner, id";
    let mut entries = connection.prepare_cached(sql)?;
    let sql = "SELECT number, seq, registered_at FROM version
               WHERE entry = ?1 AND removal IS NULL ORDER BY number DESC";
    let mut versions = connection.prepare_cached(sql)?;
    let mut entries = entries.query(from.map_or([""; 4], key_params))?;
    while let Some(entry) = entries.next()? {
        let row = entry_rows::entry_row(entry, 4)?;
        let key = rows::key(entry, 0, row.latest)?;
        let protected = protected_versions(&EntryVersions { connection, entry: &row })?;
        let mut rows = versions.query([row.number])?;
        let mut newer = 0;
        while let Some(row) = rows.next()? {
            let version = row.get(0)?;
            let is_surplus = retention.versions.is_none_or(|most| newer >= most);
            let registered_at = Timestamp::from_micros(row.get(2)?);
            let is_old = oldest.is_none_or(|oldest| registered_at < oldest);
            newer += 1;
            if is_surplus
                && is_old
                && !protected.contains(&version)
                && visit(&key, version, row.get(1)?).is_break()
            {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Visits the blobs that only expired versions have.
fn for_each_unused_blob(
    connection: &Connection,
    expired: &HashSet<i64>,
    mut visit: impl FnMut(i64) -> rusqlite::Result<()>,
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare("SELECT blob, version FROM blob_use ORDER BY blob")?;
    let mut rows = statement.query([])?;
    let mut current: Option<(i64, bool)> = None;
    while let Some(row) = rows.next()? {
        let (blob, is_expired) = (row.get(0)?, expired.contains(&row.get(1)?));
        current = match current {
            Some((same, are_expired)) if same == blob => Some((blob, are_expired && is_expired)),
            finished => {
                if let Some((unused, true)) = finished {
                    visit(unused)?;
                }
                Some((blob, is_expired))
            }
        };
    }
    if let Some((unused, true)) = current {
        visit(unused)?;
    }
    Ok(())
}
