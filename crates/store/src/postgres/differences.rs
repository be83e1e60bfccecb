//! Rows that a group of batches changed, as columns for the statements that write them.

use std::collections::{BTreeMap, HashMap, HashSet};

use bytes::Bytes;
use skills_core::{Digest, EntryKey};
use skills_postgres::PgError;

use super::{
    load::Loaded,
    rows::{key_parts, new_stamp, to_i64},
};
use crate::{
    Action, LogRecord, StateEntry, content_json,
    tables::{Tables, Version},
};

/// Size from which a blob is stored in chunks, and of each chunk.
pub(super) const CHUNK_BYTES: usize = 1 << 20;

/// Size of a blob up to which asking whether it is stored costs more than sending it.
const MAX_SENT_BLIND: i64 = 16 << 10;

/// Columns of rows that are written with one statement.
#[derive(Default)]
pub(super) struct EntryColumns {
    pub(super) numbers: Vec<i64>,
    pub(super) keys: [Vec<String>; 4],
    pub(super) is_present: Vec<bool>,
    pub(super) latest: Vec<i64>,
    pub(super) served: Vec<Option<i64>>,
    pub(super) kept: Vec<i64>,
}

#[derive(Default)]
pub(super) struct VersionColumns {
    pub(super) numbers: [Vec<i64>; 2],
    pub(super) digests: [Vec<Vec<u8>>; 2],
    pub(super) created_at: Vec<i64>,
    pub(super) actors: Vec<String>,
    /// Time and revision of the registration, bytes and files.
    pub(super) figures: [Vec<i64>; 4],
    /// Author's version, message, yank, removal, content.
    pub(super) texts: [Vec<Option<String>>; 5],
}

#[derive(Default)]
pub(super) struct ChangeColumns {
    pub(super) revisions: Vec<i64>,
    pub(super) at: Vec<i64>,
    pub(super) actors: Vec<String>,
    pub(super) keys: [Vec<String>; 4],
    pub(super) actions: Vec<String>,
    pub(super) versions: Vec<Option<i64>>,
    pub(super) is_new: Vec<bool>,
    pub(super) labels: Vec<Option<String>>,
    pub(super) previous: Vec<Option<i64>>,
    pub(super) notes: Vec<Option<String>>,
    pub(super) before: Vec<Option<i64>>,
    pub(super) served: Vec<Option<i64>>,
}

#[derive(Default)]
pub(super) struct StateColumns {
    pub(super) scopes: Vec<String>,
    pub(super) keys: Vec<String>,
    pub(super) positions: Vec<i64>,
    pub(super) values: Vec<String>,
}

/// Digests, checksums, sizes, and bytes unless these are in chunks.
pub(super) type BlobColumns = (Vec<Vec<u8>>, Vec<i64>, Vec<i64>, Vec<Option<Vec<u8>>>);

/// Rows to be written.
#[derive(Default)]
pub(super) struct Differences {
    pub(super) entries: EntryColumns,
    pub(super) versions: VersionColumns,
    pub(super) relabelled: Vec<i64>,
    pub(super) labels: (Vec<i64>, Vec<String>, Vec<i64>),
    pub(super) uses: (Vec<Vec<u8>>, Vec<i64>, Vec<i64>),
    pub(super) gone_uses: (Vec<i64>, Vec<i64>),
    pub(super) changes: ChangeColumns,
    pub(super) erased_blobs: Vec<Vec<u8>>,
    pub(super) blobs: BlobColumns,
    pub(super) chunks: Vec<(Digest, Bytes)>,
    pub(super) state: StateColumns,
    pub(super) gone_state: (Vec<String>, Vec<String>),
    pub(super) batches: (Vec<Vec<u8>>, Vec<String>),
    pub(super) revision: i64,
    pub(super) at: Option<i64>,
    pub(super) entry_count: i64,
    /// Mark of this commit.
    pub(super) stamp: i64,
    /// Numbers of new entries.
    pub(super) new_numbers: Vec<(EntryKey, i64)>,
    pub(super) positions: i64,
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
            stamp: new_stamp(),
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
            self.new_numbers.push((key.clone(), self.entry_count));
            self.entry_count
        });
        let mut kept = 0;
        for version in &entry.versions {
            let known = old.and_then(|old| old.get(version.info.number));
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
        let no_labels = BTreeMap::new();
        if old.map_or(&no_labels, |old| &old.labels) != &entry.labels {
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

    fn add_change(&mut self, record: &LogRecord) {
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
}

impl Differences {
    /// Returns whether one statement can write all rows: only registrations and removals, with small bodies, which are sent
    /// even if the database has them.
    pub(super) fn is_simple(&self) -> bool {
        let (digests, _, sizes, _) = &self.blobs;
        let has_only_new_uses = || {
            let sent: HashSet<&Vec<u8>> = digests.iter().collect();
            self.uses.0.iter().all(|digest| sent.contains(digest))
        };
        !self.changes.revisions.is_empty()
            && self.erased_blobs.is_empty()
            && self.gone_uses.0.is_empty()
            && self.relabelled.is_empty()
            && self.state.keys.is_empty()
            && self.gone_state.0.is_empty()
            && sizes.iter().all(|size| *size <= MAX_SENT_BLIND)
            && has_only_new_uses()
    }
}

fn push_key(columns: &mut [Vec<String>; 4], key: &EntryKey) {
    for (column, part) in columns.iter_mut().zip(key_parts(key)) {
        column.push(part.to_owned());
    }
}
