//! Writes to one entry: registrations and removals, and the record of every change in the log.

use std::sync::Arc;

use bytes::Bytes;
use rusqlite::{
    Connection, OptionalExtension as _, Row, params,
    types::{ToSqlOutput, Value},
};
use skills_core::{Digest, EntryKey, Timestamp, VersionError};

use super::{
    entry_rows::{self, EntryRow, key_params},
    rows,
    write::{LogEnd, SqlResult as _, TxError},
};
use crate::{
    Action, Change, Effect, EntryContent, PublishOptions, ServedVersion, VersionHeads,
    selection::{PublishKind, VersionCriteria},
};

/// Content of a version that is being registered.
pub(super) struct NewContent<'a> {
    pub(super) content: Arc<EntryContent>,
    /// Digest that tells whether a registration changes the entry.
    pub(super) identity: Digest,
    /// JSON as it is stored.
    pub(super) json: ToSqlOutput<'a>,
}

impl NewContent<'_> {
    pub(super) fn new(content: Arc<EntryContent>) -> rusqlite::Result<Self> {
        let json = ToSqlOutput::Owned(Value::Text(rows::content_to_json(&content)?));
        Ok(Self { identity: content.digest(), content, json })
    }
}

/// Writer of entries inside a transaction.
pub(super) struct EntryWriter<'a> {
    pub(super) connection: &'a Connection,
    pub(super) end: &'a mut LogEnd,
    pub(super) now: Timestamp,
    pub(super) actor: &'a Arc<str>,
}

impl EntryWriter<'_> {
    /// Registers content that a client sent.
    pub(super) fn put(
        &mut self,
        key: EntryKey,
        new: NewContent<'_>,
        blobs: &[(Digest, Bytes)],
        options: PublishOptions,
    ) -> Result<Effect, TxError> {
        self.publish(key, new, blobs, options, PublishKind::Registration)
    }

    /// Registers content. The same content as that of the newest version makes no new one.
    pub(super) fn publish(
        &mut self,
        key: EntryKey,
        new: NewContent<'_>,
        blobs: &[(Digest, Bytes)],
        options: PublishOptions,
        kind: PublishKind,
    ) -> Result<Effect, TxError> {
        let entry = entry_rows::entry(self.connection, &key).sql()?;
        let current = entry.filter(|entry| entry.is_present).map_or(0, |entry| entry.latest);
        if let Some(expected) = options.expected_version.filter(|expected| *expected != current) {
            let id = key.id.to_string();
            return Err(VersionError::Conflict { id, expected, current }.into());
        }
        for (digest, bytes) in blobs {
            put_blob(self.connection, digest, bytes).sql()?;
        }
        let entry = match entry {
            Some(entry) => entry,
            None => self.insert_entry(&key).sql()?,
        };
        let same = self.same_version(&entry, current, &new.identity, kind).sql()?;
        self.register(key, &entry, same, &new, options.message).sql()
    }

    /// Registers content as a new version, or again as the newest one in the row `same`.
    fn register(
        &mut self,
        key: EntryKey,
        entry: &EntryRow,
        same: Option<i64>,
        new: &NewContent<'_>,
        message: Option<String>,
    ) -> rusqlite::Result<Effect> {
        let before = entry.served;
        let (seq, number) = match same {
            Some(seq) => {
                self.register_again(seq, new)?;
                (seq, entry.latest)
            }
            None => self.insert_version(entry, new, message.as_deref())?,
        };
        self.use_blobs(seq, &new.content)?;
        let (version, is_new) = (Some(number), same.is_none());
        let message = message.filter(|_| is_new);
        let action = Action::Put { version, is_new, message };
        let change = self.log(key, entry.number, action, before, Some(&new.content))?;
        Ok(Effect::Changed(change))
    }

    fn insert_entry(&self, key: &EntryKey) -> rusqlite::Result<EntryRow> {
        let sql = "INSERT INTO entry (kind, tier, owner, id, is_present, latest, kept)
                   VALUES (?1, ?2, ?3, ?4, 0, 0, 0)";
        self.connection.prepare_cached(sql)?.execute(key_params(key))?;
        let number = self.connection.last_insert_rowid();
        Ok(EntryRow { number, is_present: false, latest: 0, served: None, kept: 0 })
    }

    /// Returns the newest version if a registration repeats it.
    fn same_version(
        &self,
        entry: &EntryRow,
        current: u64,
        identity: &Digest,
        kind: PublishKind,
    ) -> rusqlite::Result<Option<i64>> {
        let sql = "SELECT seq, yanked IS NOT NULL, removal FROM version
                   WHERE entry = ?1 AND number = ?2 AND identity = ?3";
        let mut statement = self.connection.prepare_cached(sql)?;
        let params = params![entry.number, current, identity.as_bytes()];
        let newest = statement.query_row(params, |row| {
            let removal = entry_rows::removal(current, row.get_ref(2)?)?;
            Ok(kind.repeats(row.get(1)?, removal).then_some(row.get(0)?))
        });
        newest.optional().map(Option::flatten)
    }

    /// Updates the metadata and the time of a version that was registered again.
    fn register_again(&self, seq: i64, new: &NewContent<'_>) -> rusqlite::Result<()> {
        let stamp = self.end.next(self.now);
        let sql = "UPDATE version SET registered_at = ?2, revision = ?3, content = ?4
                   WHERE seq = ?1";
        let params = params![seq, stamp.at.as_micros(), stamp.revision, new.json];
        self.connection.prepare_cached(sql)?.execute(params).map(drop)
    }

    /// Inserts the next version. Returns its row and its number.
    fn insert_version(
        &self,
        entry: &EntryRow,
        new: &NewContent<'_>,
        message: Option<&str>,
    ) -> rusqlite::Result<(i64, u64)> {
        let (stamp, number) = (self.end.next(self.now), entry.latest + 1);
        let (bytes, files) = new.content.size();
        let sql = "INSERT INTO version (entry, number, digest, identity, created_at, actor,
                       registered_at, revision, bytes, files, author_version, message, content)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?5, ?7, ?8, ?9, ?10, ?11, ?12)";
        self.connection.prepare_cached(sql)?.execute(params![
            entry.number,
            number,
            new.content.content_digest().as_bytes(),
            new.identity.as_bytes(),
            stamp.at.as_micros(),
            self.actor.as_ref(),
            stamp.revision,
            bytes,
            files,
            new.content.author_version(),
            message,
            new.json,
        ])?;
        let seq = self.connection.last_insert_rowid();
        let sql = "UPDATE entry SET is_present = 1, latest = ?2, kept = kept + 1 WHERE number = ?1";
        self.connection.prepare_cached(sql)?.execute(params![entry.number, number])?;
        Ok((seq, number))
    }

    /// Records the blobs that a version has.
    fn use_blobs(&self, seq: i64, content: &EntryContent) -> rusqlite::Result<()> {
        let sql = "INSERT OR IGNORE INTO blob_use (blob, version)
                   SELECT number, ?2 FROM blob WHERE digest = ?1";
        let mut statement = self.connection.prepare_cached(sql)?;
        for digest in content.blob_digests() {
            statement.execute(params![digest.as_bytes(), seq])?;
        }
        Ok(())
    }

    /// Removes an entry and its labels; its versions stay.
    pub(super) fn remove(&mut self, key: EntryKey) -> rusqlite::Result<Effect> {
        let entry = entry_rows::entry(self.connection, &key)?;
        let Some(entry) = entry.filter(|entry| entry.is_present) else {
            return Ok(Effect::Nothing);
        };
        let sql = "DELETE FROM label WHERE entry = ?1";
        self.connection.prepare_cached(sql)?.execute([entry.number])?;
        let sql = "UPDATE entry SET is_present = 0 WHERE number = ?1";
        self.connection.prepare_cached(sql)?.execute([entry.number])?;
        let change = self.log(key, entry.number, Action::Remove, entry.served, None)?;
        Ok(Effect::Changed(change))
    }

    /// Updates the served version of an entry and appends the change to the log. `put` is content that was registered.
    pub(super) fn log(
        &mut self,
        key: EntryKey,
        entry: i64,
        action: Action,
        before: Option<u64>,
        put: Option<&Arc<EntryContent>>,
    ) -> rusqlite::Result<Change> {
        *self.end = self.end.next(self.now);
        let heads = self.update_served(entry)?;
        let served = heads.as_ref().map(|heads| heads.served);
        let is_put = put.is_some() && served.is_some() && action.version() == served;
        let affects_served = before != served || is_put;
        let served_version = match heads {
            Some(heads) => {
                let put = put.filter(|_| is_put);
                Some(self.served_version(&key, entry, heads, affects_served, put)?)
            }
            None => None,
        };
        self.append(&key, &action, before, served)?;
        Ok(Change {
            revision: self.end.revision,
            at: self.end.at,
            actor: Arc::clone(self.actor),
            key,
            action,
            affects_served,
            served: served_version,
        })
    }

    /// Applies the rule of the served version.
    fn update_served(&self, entry: i64) -> rusqlite::Result<Option<VersionHeads>> {
        let labels = entry_rows::labels(self.connection, entry)?;
        let limit = entry_rows::stable(&labels);
        let newest = entry_rows::newest(self.connection, entry, &VersionCriteria::servable(limit))?;
        let sql = "UPDATE entry SET served = CASE is_present WHEN 1 THEN ?2 END WHERE number = ?1
                   RETURNING served, latest";
        let mut statement = self.connection.prepare_cached(sql)?;
        let row = |row: &Row<'_>| Ok((row.get::<_, Option<u64>>(0)?, row.get(1)?));
        let (served, latest) = statement.query_row(params![entry, newest], row)?;
        Ok(served.map(|served| VersionHeads { served, latest, labels }))
    }

    fn served_version(
        &self,
        key: &EntryKey,
        entry: i64,
        heads: VersionHeads,
        affects_served: bool,
        put: Option<&Arc<EntryContent>>,
    ) -> rusqlite::Result<ServedVersion> {
        if let Some(content) = put {
            let content = Some(Arc::clone(content));
            return Ok(ServedVersion { registered_at: self.end.at, content, heads: Some(heads) });
        }
        let sql = "SELECT registered_at, CASE ?3 WHEN 1 THEN content END FROM version
                   WHERE entry = ?1 AND number = ?2";
        let mut statement = self.connection.prepare_cached(sql)?;
        let served = heads.served;
        statement.query_row(params![entry, served, affects_served], |row| {
            let content = rows::served_content(key.kind, row.get_ref(1)?);
            Ok(ServedVersion {
                registered_at: Timestamp::from_micros(row.get(0)?),
                content: affects_served.then_some(content),
                heads: Some(heads),
            })
        })
    }

    fn append(
        &self,
        key: &EntryKey,
        action: &Action,
        before: Option<u64>,
        served: Option<u64>,
    ) -> rusqlite::Result<()> {
        let [kind, tier, owner, id] = key_params(key);
        let (label, previous) = match action {
            Action::Label { label, from, .. } => (Some(label.as_str()), *from),
            _ => (None, None),
        };
        let sql = "INSERT INTO change (revision, at, actor, kind, tier, owner, id, action, version,
                       is_new, label, previous, note, before, served)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)";
        let statement = &mut self.connection.prepare_cached(sql)?;
        statement.execute(params![
            self.end.revision,
            self.end.at.as_micros(),
            self.actor.as_ref(),
            kind,
            tier,
            owner,
            id,
            action.as_str(),
            action.version(),
            matches!(action, Action::Put { is_new: true, .. }),
            label,
            previous,
            action.note(),
            before,
            served,
        ])?;
        Ok(())
    }
}

fn put_blob(connection: &Connection, digest: &Digest, bytes: &[u8]) -> rusqlite::Result<()> {
    // The lookup spares the page writes that an ignored insert of a large blob would still cost.
    let is_stored = connection
        .prepare_cached("SELECT 1 FROM blob WHERE digest = ?1")?
        .exists([digest.as_bytes()])?;
    if !is_stored {
        connection
            .prepare_cached("INSERT INTO blob (digest, crc32, bytes) VALUES (?1, ?2, ?3)")?
            .execute(params![digest.as_bytes(), crc32fast::hash(bytes), bytes])?;
    }
    Ok(())
}
