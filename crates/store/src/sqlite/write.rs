//! Commit of a group of batches in one transaction.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior};
use skills_core::{EntryKey, Timestamp};

use super::{
    Writer, rows,
    write_entry::{EntryWriter, NewContent},
};
use crate::{Batch, BatchError, Effect, GroupOutcome, Mutation, StateChange, VersionMutation};

/// End of the change log; a batch that is rolled back restores it.
#[derive(Debug, Clone, Copy)]
pub(super) struct LogEnd {
    pub(super) revision: u64,
    pub(super) at: Timestamp,
}

impl LogEnd {
    /// Returns the end after one more change.
    pub(super) fn next(self, now: Timestamp) -> Self {
        Self { revision: self.revision + 1, at: Timestamp::next_after(now, self.at) }
    }
}

/// Failure inside a transaction.
#[derive(Debug)]
pub(super) enum TxError {
    /// The batch is refused; the others of the group go on.
    Batch(BatchError),
    /// The transaction fails.
    Sql(rusqlite::Error),
}

impl<E: Into<BatchError>> From<E> for TxError {
    fn from(error: E) -> Self {
        Self::Batch(error.into())
    }
}

/// Marks an error of the database, which ends the transaction.
pub(super) trait SqlResult<T> {
    /// Converts the error.
    fn sql(self) -> Result<T, TxError>;
}

impl<T> SqlResult<T> for rusqlite::Result<T> {
    fn sql(self) -> Result<T, TxError> {
        self.map_err(TxError::Sql)
    }
}

impl Writer {
    pub(super) fn commit(
        &mut self,
        group: Vec<Batch>,
        now: Timestamp,
    ) -> rusqlite::Result<GroupOutcome> {
        let has_purge = group.iter().flat_map(|batch| &batch.mutations).any(is_purge);
        if has_purge {
            // Freed pages are overwritten, so that the file no longer has the bytes.
            self.connection.pragma_update(None, "secure_delete", "ON")?;
        }
        let outcome = self.commit_group(group, now);
        if has_purge {
            self.connection.pragma_update(None, "secure_delete", "OFF")?;
            // The log still has the pages as they were. A reader may hold it back until the next checkpoint.
            let checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)";
            let _ = self.connection.query_row(checkpoint, [], |_| Ok(()));
        }
        outcome
    }

    fn commit_group(
        &mut self,
        group: Vec<Batch>,
        now: Timestamp,
    ) -> rusqlite::Result<GroupOutcome> {
        let mut end = self.end;
        let mut transaction =
            self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut outcome = Vec::with_capacity(group.len());
        for batch in group {
            let savepoint = transaction.savepoint()?;
            let mut trial = end;
            outcome.push(match apply(&savepoint, batch, &mut trial, now) {
                Ok(effects) => {
                    savepoint.commit()?;
                    end = trial;
                    Ok(effects)
                }
                Err(TxError::Batch(error)) => {
                    savepoint.finish()?;
                    Err(error)
                }
                Err(TxError::Sql(error)) => return Err(error),
            });
        }
        transaction.commit()?;
        self.end = end;
        Ok(outcome)
    }
}

const fn is_purge(mutation: &Mutation) -> bool {
    matches!(mutation, Mutation::Version { change: VersionMutation::Purge { .. }, .. })
}

fn apply(
    connection: &Connection,
    batch: Batch,
    end: &mut LogEnd,
    now: Timestamp,
) -> Result<Vec<Effect>, TxError> {
    let Batch { actor, mutations, .. } = batch;
    let mut effects = Vec::with_capacity(mutations.len());
    for mutation in mutations {
        let mut entries = EntryWriter { connection, end, now, actor: &actor };
        effects.push(match mutation {
            Mutation::Put { layer, id, content, blobs, options } => {
                let key = EntryKey { kind: content.kind(), layer, id };
                let content = NewContent::new(Arc::new(content)).sql()?;
                entries.put(key, content, &blobs, options)?
            }
            Mutation::Remove(key) => entries.remove(key).sql()?,
            Mutation::Version { key, change } => entries.change_version(key, change)?,
            Mutation::StateSet { scope, key, value } => {
                let old = rows::state_value(connection, &scope, &key).sql()?;
                let value = match value.apply(old.as_deref()) {
                    Ok(value) => value,
                    Err(refusal) => return Err(refusal.into_error(scope, key, old).into()),
                };
                let sql = "INSERT INTO state (scope, key, value) VALUES (?1, ?2, ?3)
                           ON CONFLICT (scope, key) DO UPDATE SET value = excluded.value";
                let mut statement = connection.prepare_cached(sql).sql()?;
                statement.execute([&scope, &key, &value]).sql()?;
                Effect::State(StateChange { scope, key, old, new: Some(value) })
            }
            Mutation::StateDelete { scope, key } => {
                let sql = "DELETE FROM state WHERE scope = ?1 AND key = ?2 RETURNING value";
                let mut statement = connection.prepare_cached(sql).sql()?;
                let old = statement.query_row([&scope, &key], |row| row.get(0)).optional().sql()?;
                Effect::State(StateChange { scope, key, old, new: None })
            }
        });
    }
    Ok(effects)
}
