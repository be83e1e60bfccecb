//! Carrying out a group of batches in one transaction.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension as _, Savepoint, TransactionBehavior, params};
use skills_core::{Digest, EntryKey, Timestamp};

use super::{Writer, rows};
use crate::{Batch, BatchError, Change, Effect, EntryContent, GroupOutcome, Mutation, StateChange};

/// Where the log stands; a batch that is undone puts it back.
#[derive(Clone, Copy)]
struct LogEnd {
    revision: u64,
    at: Timestamp,
}

impl Writer {
    pub(super) fn commit(
        &mut self,
        group: Vec<Batch>,
        now: Timestamp,
    ) -> rusqlite::Result<GroupOutcome> {
        let mut end = LogEnd { revision: self.last_revision, at: self.last_at };
        let mut transaction =
            self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut outcome = Vec::with_capacity(group.len());
        for batch in group {
            let savepoint = transaction.savepoint()?;
            let mut trial = end;
            let effects = apply(&savepoint, batch, &mut trial, now)?;
            if effects.is_ok() {
                savepoint.commit()?;
                end = trial;
            } else {
                savepoint.finish()?;
            }
            outcome.push(effects);
        }
        transaction.commit()?;
        (self.last_revision, self.last_at) = (end.revision, end.at);
        Ok(outcome)
    }
}

fn apply(
    savepoint: &Savepoint<'_>,
    batch: Batch,
    end: &mut LogEnd,
    now: Timestamp,
) -> rusqlite::Result<Result<Vec<Effect>, BatchError>> {
    let Batch { actor, mutations } = batch;
    let mut effects = Vec::with_capacity(mutations.len());
    for mutation in mutations {
        let effect = match mutation {
            Mutation::Put { layer, id, content, blobs } => {
                for (digest, bytes) in blobs {
                    put_blob(savepoint, &digest, &bytes)?;
                }
                let key = EntryKey { kind: content.kind(), layer, id };
                let before = digest_of(savepoint, &key)?;
                Effect::Changed(log(savepoint, end, now, &actor, key, before, Some(content))?)
            }
            Mutation::Remove(key) => match digest_of(savepoint, &key)? {
                None => Effect::Nothing,
                before => Effect::Changed(log(savepoint, end, now, &actor, key, before, None)?),
            },
            Mutation::StateSet { scope, key, value } => {
                let old = rows::state_value(savepoint, &scope, &key)?;
                let value = match value.after(old.as_deref()) {
                    Ok(value) => value,
                    Err(refusal) => return Ok(Err(refusal.into_error(scope, key, old))),
                };
                let sql = "INSERT INTO state (scope, key, value) VALUES (?1, ?2, ?3)
                           ON CONFLICT (scope, key) DO UPDATE SET value = excluded.value";
                savepoint.prepare_cached(sql)?.execute([&scope, &key, &value])?;
                Effect::State(StateChange { scope, key, old, new: Some(value) })
            }
            Mutation::StateDelete { scope, key } => {
                let sql = "DELETE FROM state WHERE scope = ?1 AND key = ?2 RETURNING value";
                let mut statement = savepoint.prepare_cached(sql)?;
                let old = statement.query_row([&scope, &key], |row| row.get(0)).optional()?;
                Effect::State(StateChange { scope, key, old, new: None })
            }
        };
        effects.push(effect);
    }
    Ok(Ok(effects))
}

fn put_blob(connection: &Connection, digest: &Digest, bytes: &[u8]) -> rusqlite::Result<()> {
    // Asking first spares the page writes that an ignored insert of a large blob would still cost.
    let known = connection
        .prepare_cached("SELECT 1 FROM blob WHERE digest = ?1")?
        .exists([digest.as_bytes()])?;
    if !known {
        connection
            .prepare_cached("INSERT INTO blob (digest, crc32, bytes) VALUES (?1, ?2, ?3)")?
            .execute(params![digest.as_bytes(), crc32fast::hash(bytes), bytes])?;
    }
    Ok(())
}

fn digest_of(connection: &Connection, key: &EntryKey) -> rusqlite::Result<Option<Digest>> {
    let sql = "SELECT c.after FROM entry e JOIN change c USING (revision)
               WHERE e.kind = ?1 AND e.tier = ?2 AND e.owner = ?3 AND e.id = ?4";
    let digest = connection
        .prepare_cached(sql)?
        .query_row(params_of(key), |row| row.get::<_, [u8; 32]>(0))
        .optional()?;
    Ok(digest.map(Digest::from_bytes))
}

fn params_of(key: &EntryKey) -> [&str; 4] {
    [key.kind.as_str(), key.layer.tier().as_str(), key.layer.owner(), &key.id]
}

/// Appends to the log and moves the entry's pointer.
fn log(
    connection: &Connection,
    end: &mut LogEnd,
    now: Timestamp,
    actor: &Arc<str>,
    key: EntryKey,
    before: Option<Digest>,
    content: Option<EntryContent>,
) -> rusqlite::Result<Change> {
    *end = LogEnd { revision: end.revision + 1, at: Timestamp::after(now, end.at) };
    let json = content
        .as_ref()
        .map(rows::content_to_json)
        .transpose()
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
    let after = content.as_ref().map(EntryContent::digest);
    let [kind, tier, owner, id] = params_of(&key);
    connection
        .prepare_cached(
            "INSERT INTO change (revision, at, actor, kind, tier, owner, id, before, after, content)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        )?
        .execute(params![
            end.revision,
            end.at.as_micros(),
            actor.as_ref(),
            kind,
            tier,
            owner,
            id,
            before.as_ref().map(Digest::as_bytes),
            after.as_ref().map(Digest::as_bytes),
            json,
        ])?;
    if content.is_some() {
        let sql = "INSERT INTO entry (kind, tier, owner, id, revision) VALUES (?1, ?2, ?3, ?4, ?5)
                   ON CONFLICT DO UPDATE SET revision = excluded.revision";
        connection.prepare_cached(sql)?.execute(params![kind, tier, owner, id, end.revision])?;
    } else {
        let sql = "DELETE FROM entry WHERE kind = ?1 AND tier = ?2 AND owner = ?3 AND id = ?4";
        connection.prepare_cached(sql)?.execute([kind, tier, owner, id])?;
    }
    Ok(Change {
        revision: end.revision,
        at: end.at,
        actor: Arc::clone(actor),
        key,
        before,
        content: content.map(Arc::new),
    })
}
