//! Changes of labels and versions of an entry.

use std::collections::BTreeMap;

use rusqlite::{OptionalExtension as _, params};
use skills_core::{EntryKey, Label, VersionError, VersionSelector, limits::MAX_LABELS};

use super::{
    entry_rows::{self, EntryRow, EntryVersions, Selection, VersionRow},
    rows,
    write::{SqlResult as _, TxError},
    write_entry::{EntryWriter, NewContent},
};
use crate::{
    Action, Effect, EntryContent, PublishOptions, Removal, VersionMutation,
    model::MAX_HOLDERS,
    selection::{PublishKind, SelectionPurpose, protected_versions},
    versions::{rollback_message, too_many_labels},
};

/// Most versions with one blob that are searched for the entries that have it.
const MAX_SCANNED_USES: usize = 10_000;

impl EntryWriter<'_> {
    pub(super) fn change_version(
        &mut self,
        key: EntryKey,
        change: VersionMutation,
    ) -> Result<Effect, TxError> {
        let Some(entry) = entry_rows::entry(self.connection, &key).sql()? else {
            let (kind, id) = (key.kind, key.id.to_string());
            return match change {
                VersionMutation::Collect { .. } => Ok(Effect::Nothing),
                _ => Err(VersionError::NoEntry { kind, id }.into()),
            };
        };
        match change {
            VersionMutation::Rollback { to, options } => self.roll_back(key, &entry, &to, options),
            VersionMutation::SetLabel { label, version, expected } => {
                self.set_label(key, &entry, label, version.as_ref(), expected)
            }
            VersionMutation::Yank { version, reason } => {
                let found = self.readable(&key, &entry, &version, SelectionPurpose::Withdraw)?;
                let action = Action::Yank { version: found.info.number, reason: reason.clone() };
                self.set_yanked(key, &entry, &found, Some(reason), action)
            }
            VersionMutation::Unyank { version } => {
                let found = self.readable(&key, &entry, &version, SelectionPurpose::Withdraw)?;
                let action = Action::Unyank { version: found.info.number };
                self.set_yanked(key, &entry, &found, None, action)
            }
            VersionMutation::Purge { version, reason } => {
                let found = self.find(&key, &entry, &version, SelectionPurpose::Withdraw)?;
                let version = found.info.number;
                if found.info.removal == Some(Removal::Purged) {
                    return Ok(unchanged(Some(version), &entry));
                }
                let sql = "UPDATE version SET yanked = ?2 WHERE seq = ?1";
                let params = params![found.seq, reason];
                self.connection.prepare_cached(sql).sql()?.execute(params).sql()?;
                let action = Action::Purge { version, reason };
                self.erase(key, &entry, &found, Removal::Purged, action).sql()
            }
            VersionMutation::Collect { version } => self.collect(key, &entry, version).sql(),
        }
    }

    fn roll_back(
        &mut self,
        key: EntryKey,
        entry: &EntryRow,
        to: &VersionSelector,
        options: PublishOptions,
    ) -> Result<Effect, TxError> {
        let found = self.usable(&key, entry, to)?;
        let content = match found.content {
            Some(content) if !matches!(*content, EntryContent::Corrupt { .. }) => content,
            _ => return Err(self.missing(&key, to).sql()?),
        };
        let message = Some(rollback_message(found.info.number, options.message.as_deref()));
        let options = PublishOptions { message, ..options };
        let content = NewContent::new(content).sql()?;
        self.publish(key, content, &[], options, PublishKind::Rollback)
    }

    fn set_label(
        &mut self,
        key: EntryKey,
        entry: &EntryRow,
        label: Label,
        version: Option<&VersionSelector>,
        expected: Option<u64>,
    ) -> Result<Effect, TxError> {
        let (kind, id) = (key.kind, key.id.to_string());
        if !entry.is_present {
            return Err(VersionError::NoEntry { kind, id }.into());
        }
        let labels = entry_rows::labels(self.connection, entry.number).sql()?;
        let from = labels.iter().find(|(known, _)| *known == label).map(|(_, number)| *number);
        let current = from.unwrap_or(0);
        if let Some(expected) = expected.filter(|expected| *expected != current) {
            let label = label.to_string();
            return Err(VersionError::LabelMoved { id, label, expected, current }.into());
        }
        let to = match version {
            Some(selector) => Some(self.usable(&key, entry, selector)?.info.number),
            None if from.is_none() && expected.is_none() => {
                return Err(VersionError::NoLabel { kind, id, label: label.to_string() }.into());
            }
            None => None,
        };
        if from == to {
            return Ok(unchanged(to, entry));
        }
        if to.is_some() && from.is_none() && labels.len() >= MAX_LABELS {
            return Err(too_many_labels(id).into());
        }
        self.move_label(key, entry, Action::Label { label: label.clone(), from, to }, &label, to)
            .sql()
    }

    fn move_label(
        &mut self,
        key: EntryKey,
        entry: &EntryRow,
        action: Action,
        label: &Label,
        to: Option<u64>,
    ) -> rusqlite::Result<Effect> {
        match to {
            Some(number) => {
                let sql = "INSERT INTO label (entry, name, version) VALUES (?1, ?2, ?3)
                           ON CONFLICT DO UPDATE SET version = excluded.version";
                let params = params![entry.number, label.as_str(), number];
                self.connection.prepare_cached(sql)?.execute(params)?;
            }
            None => {
                let sql = "DELETE FROM label WHERE entry = ?1 AND name = ?2";
                let params = params![entry.number, label.as_str()];
                self.connection.prepare_cached(sql)?.execute(params)?;
            }
        }
        self.log(key, entry.number, action, entry.served, None).map(Effect::Changed)
    }

    fn set_yanked(
        &mut self,
        key: EntryKey,
        entry: &EntryRow,
        found: &VersionRow,
        reason: Option<String>,
        action: Action,
    ) -> Result<Effect, TxError> {
        if found.info.yanked == reason {
            return Ok(unchanged(Some(found.info.number), entry));
        }
        let sql = "UPDATE version SET yanked = ?2 WHERE seq = ?1";
        self.connection.prepare_cached(sql).sql()?.execute(params![found.seq, reason]).sql()?;
        self.log(key, entry.number, action, entry.served, None).map(Effect::Changed).sql()
    }

    fn collect(
        &mut self,
        key: EntryKey,
        entry: &EntryRow,
        version: u64,
    ) -> rusqlite::Result<Effect> {
        let index = EntryVersions { connection: self.connection, entry };
        if protected_versions(&index)?.contains(&version) {
            return Ok(Effect::Nothing);
        }
        match entry_rows::version_row(self.connection, key.kind, entry.number, version)? {
            Selection::Found(found) if found.info.removal.is_none() => {
                let sql = "UPDATE entry SET kept = kept - 1 WHERE number = ?1";
                self.connection.prepare_cached(sql)?.execute([entry.number])?;
                self.erase(key, entry, &found, Removal::Collected, Action::Collect { version })
            }
            _ => Ok(Effect::Nothing),
        }
    }

    /// Removes the content of a version, and the blobs that no other version has.
    fn erase(
        &mut self,
        key: EntryKey,
        entry: &EntryRow,
        found: &VersionRow,
        removal: Removal,
        action: Action,
    ) -> rusqlite::Result<Effect> {
        let sql = "UPDATE version SET content = NULL, removal = ?2 WHERE seq = ?1";
        let params = params![found.seq, removal.as_str()];
        self.connection.prepare_cached(sql)?.execute(params)?;
        let (mut blobs, mut bytes, mut holders) = (Vec::new(), 0, BTreeMap::new());
        for (number, digest) in self.blobs_of(found)? {
            let sql = "DELETE FROM blob_use WHERE blob = ?1 AND version = ?2";
            self.connection.prepare_cached(sql)?.execute([number, found.seq])?;
            let sql = "SELECT 1 FROM blob_use WHERE blob = ?1";
            if !self.connection.prepare_cached(sql)?.exists([number])? {
                let sql = "DELETE FROM blob WHERE number = ?1 RETURNING length(bytes)";
                let mut statement = self.connection.prepare_cached(sql)?;
                let size: Option<u64> =
                    statement.query_row([number], |row| row.get(0)).optional()?;
                bytes += size.unwrap_or(0);
                blobs.push(skills_core::Digest::from_bytes(digest));
            } else if removal == Removal::Purged {
                self.add_holders(number, &mut holders)?;
            }
        }
        let change = self.log(key, entry.number, action, entry.served, None)?;
        let holders = holders.into_iter().take(MAX_HOLDERS).collect();
        Ok(Effect::Erased { change, blobs, bytes, holders })
    }

    /// Adds the entries that have a blob, with the newest version of each that has it. A blob that very many versions
    /// have, such as a licence, adds some of them.
    fn add_holders(
        &self,
        blob: i64,
        holders: &mut BTreeMap<EntryKey, u64>,
    ) -> rusqlite::Result<()> {
        let sql = "SELECT e.kind, e.tier, e.owner, e.id, max(v.number)
                   FROM (SELECT version FROM blob_use WHERE blob = ?1 LIMIT ?2) u
                   JOIN version v ON v.seq = u.version JOIN entry e ON e.number = v.entry
                   GROUP BY e.number LIMIT ?3";
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut found = statement.query(params![blob, MAX_SCANNED_USES, MAX_HOLDERS])?;
        while let Some(row) = found.next()? {
            let number: u64 = row.get(4)?;
            let newest = holders.entry(rows::key(row, 0, number)?).or_default();
            *newest = number.max(*newest);
        }
        Ok(())
    }

    /// Returns numbers and digests of the blobs of a version.
    fn blobs_of(&self, found: &VersionRow) -> rusqlite::Result<Vec<(i64, [u8; 32])>> {
        match found.content.as_deref() {
            Some(content) if !matches!(content, EntryContent::Corrupt { .. }) => {
                let sql = "SELECT number, digest FROM blob WHERE digest = ?1";
                let mut statement = self.connection.prepare_cached(sql)?;
                let digests = content.blob_digests().into_iter();
                let blobs = digests.map(|digest| {
                    let row = statement
                        .query_row([digest.as_bytes()], |row| Ok((row.get(0)?, row.get(1)?)));
                    row.optional()
                });
                blobs.filter_map(Result::transpose).collect()
            }
            // The digests are unknown. There is no index by version, since this is rare.
            _ => {
                let sql = "SELECT b.number, b.digest FROM blob_use u
                           JOIN blob b ON b.number = u.blob WHERE u.version = ?1";
                let mut statement = self.connection.prepare_cached(sql)?;
                let rows =
                    statement.query_map([found.seq], |row| Ok((row.get(0)?, row.get(1)?)))?;
                rows.collect()
            }
        }
    }

    fn missing(&self, key: &EntryKey, selector: &VersionSelector) -> rusqlite::Result<TxError> {
        let (kind, id) = (key.kind, key.id.to_string());
        Ok(match entry_rows::available(self.connection, key)? {
            None => VersionError::NoEntry { kind, id }.into(),
            Some(available) => {
                let selector = selector.to_string();
                VersionError::NotFound { kind, id, selector, available }.into()
            }
        })
    }

    /// Returns a version that retention has not taken.
    fn find(
        &self,
        key: &EntryKey,
        entry: &EntryRow,
        selector: &VersionSelector,
        purpose: SelectionPurpose,
    ) -> Result<VersionRow, TxError> {
        let (kind, id) = (key.kind, key.id.to_string());
        let selection = entry_rows::select(self.connection, kind, entry, selector, purpose);
        let found = match selection.sql()? {
            Selection::Found(found) => *found,
            Selection::AllYanked => return Err(VersionError::AllYanked { kind, id }.into()),
            Selection::Missing => return Err(self.missing(key, selector).sql()?),
        };
        if found.info.removal == Some(Removal::Collected) {
            let available = entry_rows::available(self.connection, key).sql()?.unwrap_or_default();
            let version = found.info.number;
            return Err(VersionError::Collected { id, version, available }.into());
        }
        Ok(found)
    }

    /// Returns a version whose content is there.
    fn readable(
        &self,
        key: &EntryKey,
        entry: &EntryRow,
        selector: &VersionSelector,
        purpose: SelectionPurpose,
    ) -> Result<VersionRow, TxError> {
        let found = self.find(key, entry, selector, purpose)?;
        if found.info.removal.is_some() {
            let (id, version) = (key.id.to_string(), found.info.number);
            let reason = found.info.yanked.unwrap_or_default();
            return Err(VersionError::Purged { id, version, reason }.into());
        }
        Ok(found)
    }

    /// Returns a version that may be promoted or rolled back to.
    fn usable(
        &self,
        key: &EntryKey,
        entry: &EntryRow,
        selector: &VersionSelector,
    ) -> Result<VersionRow, TxError> {
        let found = self.readable(key, entry, selector, SelectionPurpose::Read)?;
        if let Some(reason) = found.info.yanked {
            let (id, version) = (key.id.to_string(), found.info.number);
            return Err(VersionError::Yanked { id, version, reason }.into());
        }
        Ok(found)
    }
}

const fn unchanged(version: Option<u64>, entry: &EntryRow) -> Effect {
    Effect::Unchanged { version, served: entry.served }
}
