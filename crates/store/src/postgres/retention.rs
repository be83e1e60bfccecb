//! Versions that retention no longer keeps.

use std::collections::HashMap;

use skills_core::{EntryKey, Timestamp};
use skills_postgres::{PgError, PgSession, column};

use super::{log, rows};
use crate::{CollectionSize, ExpiredVersions, Retention, tables::Entry};

/// Entries that are examined at once.
const PAGE: i64 = 500;

/// Entries with more than one version, in the order of their keys.
struct EntryPages<'a> {
    session: &'a PgSession,
    /// Key after the last page, or at the start, and whether it is included.
    from: ([String; 4], bool),
    is_done: bool,
}

impl<'a> EntryPages<'a> {
    fn new(session: &'a PgSession, from: Option<&EntryKey>) -> Self {
        let from =
            from.map_or_else(Default::default, |key| rows::key_parts(key).map(str::to_owned));
        Self { session, from: (from, true), is_done: false }
    }

    /// Returns the next entries with their numbers and versions, without content; none at the end.
    fn next(&mut self) -> Result<Vec<(EntryKey, i64, Entry)>, PgError> {
        if self.is_done {
            return Ok(vec![]);
        }
        let comparison = if self.from.1 { ">=" } else { ">" };
        let sql = format!(
            "SELECT kind, tier, owner, id, number, is_present FROM entry
             WHERE (kept > 1 OR (kept = 1 AND served IS DISTINCT FROM latest))
                 AND (kind, tier, owner, id) {comparison} ($1, $2, $3, $4)
             ORDER BY kind, tier, owner, id LIMIT {PAGE}"
        );
        let [kind, tier, owner, id] = &self.from.0;
        let rows = self.session.query(&sql, &[kind, tier, owner, id])?;
        self.is_done = (rows.len() as i64) < PAGE;
        let mut page = vec![];
        let mut numbers = vec![];
        for row in &rows {
            let entry = Entry { is_present: column(row, 5)?, ..Entry::default() };
            let number: i64 = column(row, 4)?;
            numbers.push(number);
            page.push((rows::key(row, 0)?, number, entry));
        }
        if let Some((key, ..)) = page.last() {
            self.from = (rows::key_parts(key).map(str::to_owned), false);
        }
        let sql = format!(
            "SELECT {} FROM version v WHERE v.entry = ANY($1) ORDER BY v.entry, v.number",
            rows::VERSION_COLUMNS
        );
        let mut versions: HashMap<i64, Vec<_>> = HashMap::new();
        for row in self.session.query(&sql, &[&numbers])? {
            versions.entry(column(&row, 0)?).or_default().push(rows::version(&row)?);
        }
        let mut labels = log::labels(self.session, &numbers)?;
        for (_, number, entry) in &mut page {
            entry.versions = versions.remove(number).unwrap_or_default();
            let labels = labels.remove(number);
            entry.labels = labels.iter().flat_map(|labels| labels.iter().cloned()).collect();
        }
        Ok(page)
    }
}

pub(super) fn expired(
    session: &PgSession,
    retention: &Retention,
    now: Timestamp,
    from: Option<&EntryKey>,
    limit: usize,
) -> Result<ExpiredVersions, PgError> {
    let mut expired = ExpiredVersions::default();
    let mut pages = EntryPages::new(session, from);
    loop {
        let page = pages.next()?;
        if page.is_empty() {
            return Ok(expired);
        }
        for (key, _, entry) in page {
            for version in entry.expired(retention, now) {
                if expired.versions.len() == limit {
                    expired.has_more = true;
                    return Ok(expired);
                }
                expired.versions.push((key.clone(), version));
            }
        }
    }
}

pub(super) fn expired_size(
    session: &PgSession,
    retention: &Retention,
    now: Timestamp,
) -> Result<CollectionSize, PgError> {
    let (mut entries, mut versions) = (vec![], vec![]);
    let mut pages = EntryPages::new(session, None);
    loop {
        let page = pages.next()?;
        if page.is_empty() {
            break;
        }
        for (_, number, entry) in page {
            for version in entry.expired(retention, now) {
                entries.push(number);
                versions.push(rows::to_i64(version));
            }
        }
    }
    let sql =
        "WITH gone AS (SELECT * FROM unnest($1::bigint[], $2::bigint[]) AS g (entry, version)),
         touched AS (SELECT DISTINCT u.digest FROM blob_use u
             JOIN gone g ON g.entry = u.entry AND g.version = u.version)
         SELECT coalesce(sum(b.size), 0)::bigint FROM blob b JOIN touched t ON t.digest = b.digest
         WHERE NOT EXISTS (SELECT FROM blob_use u
             LEFT JOIN gone g ON g.entry = u.entry AND g.version = u.version
             WHERE u.digest = b.digest AND g.entry IS NULL)";
    let bytes = rows::number(&session.query_one(sql, &[&entries, &versions])?, 0)?;
    Ok(CollectionSize { versions: versions.len() as u64, bytes })
}
