//! Writing of the differences that a group of batches made.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use skills_core::{Digest, EntryKey};
use skills_postgres::{PgError, Session, ToSql};

use super::{
    load::Loaded,
    rows::{key_parts, to_i64},
};
use crate::{
    Action, StateEntry, content_json,
    tables::{Tables, Version},
};

/// Size from which a blob is stored in chunks, and of each chunk.
pub(super) const CHUNK_BYTES: usize = 1 << 20;

const ERASE_BLOBS: &str = "DELETE FROM blob WHERE digest = ANY($1)";
const ERASE_USES: &str = "DELETE FROM blob_use u
     USING unnest($1::bigint[], $2::bigint[]) AS g (entry, version)
     WHERE u.entry = g.entry AND u.version = g.version";
const PUT_BLOBS: &str = "INSERT INTO blob (digest, crc32, size, bytes)
     SELECT * FROM unnest($1::bytea[], $2::bigint[], $3::bigint[], $4::bytea[])
     ON CONFLICT DO NOTHING";
const PUT_CHUNK: &str = "INSERT INTO blob_chunk (digest, part, bytes) VALUES ($1, $2, $3)
     ON CONFLICT DO NOTHING";
const PUT_ENTRIES: &str = "INSERT INTO entry AS e
         (number, kind, tier, owner, id, is_present, latest, served, kept)
     SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[],
         $6::boolean[], $7::bigint[], $8::bigint[], $9::bigint[])
     ON CONFLICT (number) DO UPDATE SET is_present = excluded.is_present,
         latest = excluded.latest, served = excluded.served, kept = e.kept + excluded.kept";
const PUT_VERSIONS: &str = "INSERT INTO version AS v
         (entry, number, digest, identity, created_at, actor, registered_at, revision, bytes,
          files, author_version, message, yanked, removal, content)
     SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bytea[], $4::bytea[], $5::bigint[],
         $6::text[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::text[],
         $12::text[], $13::text[], $14::text[], $15::text[])
     ON CONFLICT (entry, number) DO UPDATE SET registered_at = excluded.registered_at,
         revision = excluded.revision, yanked = excluded.yanked, removal = excluded.removal,
         content = CASE WHEN excluded.content IS NULL AND excluded.removal IS NULL
             THEN v.content ELSE excluded.content END";
const DROP_LABELS: &str = "DELETE FROM label WHERE entry = ANY($1)";
const PUT_LABELS: &str = "INSERT INTO label (entry, name, version)
     SELECT * FROM unnest($1::bigint[], $2::text[], $3::bigint[])";
const PUT_USES: &str = "INSERT INTO blob_use (digest, entry, version)
     SELECT u.digest, u.entry, u.version
     FROM unnest($1::bytea[], $2::bigint[], $3::bigint[]) AS u (digest, entry, version)
     JOIN blob b ON b.digest = u.digest ON CONFLICT DO NOTHING";
const PUT_CHANGES: &str = "INSERT INTO change
         (revision, at, actor, kind, tier, owner, id, action, version, is_new, label, previous,
          note, before, served)
     SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::text[],
         $6::text[], $7::text[], $8::text[], $9::bigint[], $10::boolean[], $11::text[],
         $12::bigint[], $13::text[], $14::bigint[], $15::bigint[])";
const DROP_STATE: &str = "DELETE FROM state s
     USING unnest($1::text[], $2::text[]) AS g (scope, key)
     WHERE s.scope = g.scope AND s.key = g.key";
const PUT_STATE: &str = "INSERT INTO state (scope, key, position, value)
     SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[])
     ON CONFLICT (scope, key) DO UPDATE SET value = excluded.value";
const PUT_BATCHES: &str = "INSERT INTO batch (id, outcome)
     SELECT * FROM unnest($1::bytea[], $2::text[])";
const PUT_HEAD: &str = "UPDATE head SET revision = $1, at = $2, entries = $3, positions = $4";
const NOTIFY: &str = "SELECT pg_notify($1, $2)";

/// Statements of [`Differences::write`].
pub(super) const STATEMENTS: [&str; 15] = [
    ERASE_BLOBS,
    ERASE_USES,
    PUT_BLOBS,
    PUT_CHUNK,
    PUT_ENTRIES,
    PUT_VERSIONS,
    DROP_LABELS,
    PUT_LABELS,
    PUT_USES,
    PUT_CHANGES,
    DROP_STATE,
    PUT_STATE,
    PUT_BATCHES,
    PUT_HEAD,
    NOTIFY,
];

/// Columns of rows that are written with one statement.
#[derive(Default)]
struct EntryColumns {
    numbers: Vec<i64>,
    keys: [Vec<String>; 4],
    is_present: Vec<bool>,
    latest: Vec<i64>,
    served: Vec<Option<i64>>,
    kept: Vec<i64>,
}

#[derive(Default)]
struct VersionColumns {
    numbers: [Vec<i64>; 2],
    digests: [Vec<Vec<u8>>; 2],
    created_at: Vec<i64>,
    actors: Vec<String>,
    /// Time and revision of the registration, bytes and files.
    figures: [Vec<i64>; 4],
    /// Author's version, message, yank, removal, content.
    texts: [Vec<Option<String>>; 5],
}

#[derive(Default)]
struct ChangeColumns {
    revisions: Vec<i64>,
    at: Vec<i64>,
    actors: Vec<String>,
    keys: [Vec<String>; 4],
    actions: Vec<String>,
    versions: Vec<Option<i64>>,
    is_new: Vec<bool>,
    labels: Vec<Option<String>>,
    previous: Vec<Option<i64>>,
    notes: Vec<Option<String>>,
    before: Vec<Option<i64>>,
    served: Vec<Option<i64>>,
}

#[derive(Default)]
struct StateColumns {
    scopes: Vec<String>,
    keys: Vec<String>,
    positions: Vec<i64>,
    values: Vec<String>,
}

/// Rows to be written.
#[derive(Default)]
pub(super) struct Differences {
    entries: EntryColumns,
    versions: VersionColumns,
    relabelled: Vec<i64>,
    labels: (Vec<i64>, Vec<String>, Vec<i64>),
    uses: (Vec<Vec<u8>>, Vec<i64>, Vec<i64>),
    gone_uses: (Vec<i64>, Vec<i64>),
    changes: ChangeColumns,
    erased_blobs: Vec<Vec<u8>>,
    blobs: (Vec<Vec<u8>>, Vec<i64>, Vec<i64>, Vec<Option<Vec<u8>>>),
    chunks: Vec<(Digest, Bytes)>,
    state: StateColumns,
    gone_state: (Vec<String>, Vec<String>),
    batches: (Vec<Vec<u8>>, Vec<String>),
    revision: i64,
    at: Option<i64>,
    entry_count: i64,
    positions: i64,
}

fn optional(number: Option<u64>) -> Option<i64> {
    number.map(to_i64)
}

impl Differences {
    /// Compares the tables before and after a group.
    pub(super) fn new(
        before: &Loaded,
        after: &Tables,
        batches: Vec<(Vec<u8>, String)>,
    ) -> Result<Self, PgError> {
        let mut differences = Self {
            revision: to_i64(after.revision),
            at: after.last_at.map(skills_core::Timestamp::as_micros),
            entry_count: before.entries,
            positions: after.positions,
            batches: batches.into_iter().unzip(),
            ..Self::default()
        };
        let changed: HashSet<&EntryKey> = after.changes.iter().map(|(c, _)| &c.key).collect();
        for key in changed {
            differences.add_entry(before, after, key)?;
        }
        for (_, record) in &after.changes {
            differences.add_change(record);
        }
        differences.add_blobs(before, after);
        differences.add_state(&before.tables, after);
        Ok(differences)
    }

    fn add_entry(
        &mut self,
        before: &Loaded,
        after: &Tables,
        key: &EntryKey,
    ) -> Result<(), PgError> {
        let Some(entry) = after.entries.get(key) else { return Ok(()) };
        let old = before.tables.entries.get(key);
        let number = before.numbers.get(key).copied().unwrap_or_else(|| {
            self.entry_count += 1;
            self.entry_count
        });
        let mut kept = 0;
        for (at, version) in entry.versions.iter().enumerate() {
            let known = old.and_then(|old| old.versions.get(at));
            if known == Some(version) {
                continue;
            }
            let is_kept = |version: &Version| i64::from(version.info.removal.is_none());
            kept += is_kept(version) - known.map_or(0, is_kept);
            self.add_version(number, version, known)?;
        }
        let columns = &mut self.entries;
        columns.numbers.push(number);
        push_key(&mut columns.keys, key);
        columns.is_present.push(entry.is_present);
        columns.latest.push(to_i64(entry.latest()));
        columns.served.push(optional(entry.served()));
        columns.kept.push(kept);
        if old.map(|old| &old.labels) != Some(&entry.labels) {
            self.relabelled.push(number);
            for (label, version) in &entry.labels {
                self.labels.0.push(number);
                self.labels.1.push(label.to_string());
                self.labels.2.push(to_i64(*version));
            }
        }
        Ok(())
    }

    fn add_version(
        &mut self,
        entry: i64,
        version: &Version,
        known: Option<&Version>,
    ) -> Result<(), PgError> {
        let info = &version.info;
        let number = to_i64(info.number);
        let is_new_content = known.is_none_or(|known| known.content != version.content);
        let content = match &version.content {
            Some(content) if is_new_content => {
                let json = content_json::to_json(content);
                Some(json.map_err(|error| PgError::Corrupt(error.to_string()))?)
            }
            _ => None,
        };
        match &version.content {
            Some(content) => {
                for digest in content.blob_digests() {
                    self.uses.0.push(digest.as_bytes().to_vec());
                    self.uses.1.push(entry);
                    self.uses.2.push(number);
                }
            }
            None => {
                self.gone_uses.0.push(entry);
                self.gone_uses.1.push(number);
            }
        }
        let columns = &mut self.versions;
        columns.numbers[0].push(entry);
        columns.numbers[1].push(number);
        columns.digests[0].push(info.digest.as_bytes().to_vec());
        columns.digests[1].push(version.identity.as_bytes().to_vec());
        columns.created_at.push(info.created_at.as_micros());
        columns.actors.push(info.actor.to_string());
        let figures = [
            info.registered_at.as_micros(),
            to_i64(version.revision),
            to_i64(info.bytes),
            to_i64(info.files),
        ];
        for (column, figure) in columns.figures.iter_mut().zip(figures) {
            column.push(figure);
        }
        let removal = info.removal.map(|removal| removal.as_str().to_owned());
        let (author_version, message) = (info.author_version.clone(), info.message.clone());
        let texts = [author_version, message, info.yanked.clone(), removal, content];
        for (column, text) in columns.texts.iter_mut().zip(texts) {
            column.push(text);
        }
        Ok(())
    }

    fn add_change(&mut self, record: &crate::LogRecord) {
        let columns = &mut self.changes;
        columns.revisions.push(to_i64(record.revision));
        columns.at.push(record.at.as_micros());
        columns.actors.push(record.actor.to_string());
        push_key(&mut columns.keys, &record.key);
        let action = &record.action;
        columns.actions.push(action.as_str().to_owned());
        columns.versions.push(optional(action.version()));
        columns.is_new.push(matches!(action, Action::Put { is_new: true, .. }));
        let (label, previous) = match action {
            Action::Label { label, from, .. } => (Some(label.to_string()), *from),
            _ => (None, None),
        };
        columns.labels.push(label);
        columns.previous.push(optional(previous));
        columns.notes.push(action.note().map(str::to_owned));
        columns.before.push(optional(record.before));
        columns.served.push(optional(record.served));
    }

    fn add_blobs(&mut self, before: &Loaded, after: &Tables) {
        let erased: HashSet<Digest> = after.erased_blobs.iter().copied().collect();
        self.erased_blobs = erased.iter().map(|digest| digest.as_bytes().to_vec()).collect();
        for (digest, bytes) in &after.blobs {
            if before.stored_blobs.contains(digest) && !erased.contains(digest) {
                continue;
            }
            self.blobs.0.push(digest.as_bytes().to_vec());
            self.blobs.1.push(crc32fast::hash(bytes).into());
            self.blobs.2.push(to_i64(bytes.len() as u64));
            if bytes.len() > CHUNK_BYTES {
                self.blobs.3.push(None);
                self.chunks.push((*digest, bytes.clone()));
            } else {
                self.blobs.3.push(Some(bytes.to_vec()));
            }
        }
    }

    fn add_state(&mut self, before: &Tables, after: &Tables) {
        let index = |tables: &'_ Tables| -> HashMap<(String, String), StateEntry> {
            let values = tables.state.iter().flat_map(|(scope, values)| {
                values.iter().map(move |entry| ((scope.clone(), entry.key.clone()), entry.clone()))
            });
            values.collect()
        };
        let (before, after) = (index(before), index(after));
        for ((scope, key), old) in &before {
            let new = after.get(&(scope.clone(), key.clone()));
            // A value that was removed and set again has a new position.
            if new.is_none_or(|new| new.position != old.position) {
                self.gone_state.0.push(scope.clone());
                self.gone_state.1.push(key.clone());
            }
        }
        for ((scope, key), new) in after {
            if before.get(&(scope.clone(), key.clone())) != Some(&new) {
                self.state.scopes.push(scope);
                self.state.keys.push(key);
                self.state.positions.push(new.position);
                self.state.values.push(new.value);
            }
        }
    }

    /// Returns whether there is nothing to write.
    pub(super) const fn is_empty(&self) -> bool {
        self.changes.revisions.is_empty()
            && self.state.keys.is_empty()
            && self.gone_state.0.is_empty()
    }

    /// Writes all rows and commits; everything but large blobs is sent at once. An error other than
    /// [`PgError::OutcomeUnknown`] means that nothing was written.
    pub(super) async fn write(&self, session: &Session, channel: &str) -> Result<(), PgError> {
        if !self.erased_blobs.is_empty() {
            session.execute_async(ERASE_BLOBS, &[&self.erased_blobs]).await?;
        }
        if !self.chunks.is_empty() {
            let (digests, sums, sizes, bytes) = &self.blobs;
            session.execute_async(PUT_BLOBS, &[digests, sums, sizes, bytes]).await?;
            for (digest, bytes) in &self.chunks {
                for (part, chunk) in (0_i32..).zip(bytes.chunks(CHUNK_BYTES)) {
                    let digest = digest.as_bytes().as_slice();
                    session.execute_async(PUT_CHUNK, &[&digest, &part, &chunk]).await?;
                }
            }
        }
        let Self { entries: e, versions: v, changes: c, state: s, .. } = self;
        let has_blobs = self.chunks.is_empty() && !self.blobs.0.is_empty();
        let revision = self.revision.to_string();
        let (results, committed) = {
            let run = |is_needed: bool, sql, params| run(session, is_needed, sql, params);
            let blobs: [Param<'_>; 4] =
                [&self.blobs.0, &self.blobs.1, &self.blobs.2, &self.blobs.3];
            let entries: [Param<'_>; 9] = [
                &e.numbers,
                &e.keys[0],
                &e.keys[1],
                &e.keys[2],
                &e.keys[3],
                &e.is_present,
                &e.latest,
                &e.served,
                &e.kept,
            ];
            let versions: [Param<'_>; 15] = [
                &v.numbers[0],
                &v.numbers[1],
                &v.digests[0],
                &v.digests[1],
                &v.created_at,
                &v.actors,
                &v.figures[0],
                &v.figures[1],
                &v.figures[2],
                &v.figures[3],
                &v.texts[0],
                &v.texts[1],
                &v.texts[2],
                &v.texts[3],
                &v.texts[4],
            ];
            let changes: [Param<'_>; 15] = [
                &c.revisions,
                &c.at,
                &c.actors,
                &c.keys[0],
                &c.keys[1],
                &c.keys[2],
                &c.keys[3],
                &c.actions,
                &c.versions,
                &c.is_new,
                &c.labels,
                &c.previous,
                &c.notes,
                &c.before,
                &c.served,
            ];
            let uses: [Param<'_>; 3] = [&self.uses.0, &self.uses.1, &self.uses.2];
            let gone_uses: [Param<'_>; 2] = [&self.gone_uses.0, &self.gone_uses.1];
            let relabelled: [Param<'_>; 1] = [&self.relabelled];
            let labels: [Param<'_>; 3] = [&self.labels.0, &self.labels.1, &self.labels.2];
            let gone_state: [Param<'_>; 2] = [&self.gone_state.0, &self.gone_state.1];
            let state: [Param<'_>; 4] = [&s.scopes, &s.keys, &s.positions, &s.values];
            let batches: [Param<'_>; 2] = [&self.batches.0, &self.batches.1];
            let head: [Param<'_>; 4] =
                [&self.revision, &self.at, &self.entry_count, &self.positions];
            let notify: [Param<'_>; 2] = [&channel, &revision];
            let has_changes = !c.revisions.is_empty();
            let (a, b, d, f, g, h, i, j, k, l, m, n, committed) = futures_util::join!(
                run(!self.gone_uses.0.is_empty(), ERASE_USES, &gone_uses),
                run(has_blobs, PUT_BLOBS, &blobs),
                run(has_changes, PUT_ENTRIES, &entries),
                run(!v.created_at.is_empty(), PUT_VERSIONS, &versions),
                run(!self.relabelled.is_empty(), DROP_LABELS, &relabelled),
                run(!self.labels.0.is_empty(), PUT_LABELS, &labels),
                run(!self.uses.0.is_empty(), PUT_USES, &uses),
                run(has_changes, PUT_CHANGES, &changes),
                run(!self.gone_state.0.is_empty(), DROP_STATE, &gone_state),
                run(!s.keys.is_empty(), PUT_STATE, &state),
                run(true, PUT_BATCHES, &batches),
                async {
                    let (head, notified) = futures_util::join!(
                        run(true, PUT_HEAD, &head),
                        run(has_changes, NOTIFY, &notify),
                    );
                    head.and(notified)
                },
                session.commit_async(),
            );
            ([a, b, d, f, g, h, i, j, k, l, m, n], committed)
        };
        // An error that the server reports of a statement makes the commit a rollback. After a connection that broke the
        // outcome is open: the answers were lost, the statements perhaps not.
        let mut errors = results.into_iter().filter_map(Result::err);
        match committed {
            Ok(()) => errors.next().map_or(Ok(()), Err),
            Err(unknown) => Err(errors.find(|error| !error.is_unavailable()).unwrap_or(unknown)),
        }
    }
}

type Param<'a> = &'a (dyn ToSql + Sync);

async fn run(
    session: &Session,
    is_needed: bool,
    sql: &str,
    params: &[Param<'_>],
) -> Result<(), PgError> {
    if is_needed {
        session.execute_async(sql, params).await?;
    }
    Ok(())
}

fn push_key(columns: &mut [Vec<String>; 4], key: &EntryKey) {
    for (column, part) in columns.iter_mut().zip(key_parts(key)) {
        column.push(part.to_owned());
    }
}
