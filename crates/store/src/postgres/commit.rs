//! Commit of a group of batches in one transaction, on any of several servers.
//!
//! [`Tables`] decides, as for the memory store. A group whose entries are in the [`CommitCache`](super::commit_cache) is
//! sent in one round trip: one statement, which verifies that no other server wrote. Every other group takes two: one
//! begins the transaction, locks the head and loads what the group needs; one writes the differences and commits.

use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use futures_util::future::try_join_all;
use skills_core::{Code, Timestamp};
use skills_postgres::{PgError, PgSession};

use super::{
    PostgresStore,
    differences::Differences,
    flush,
    load::{self, Loaded},
    outcome,
    own_commits::CommitInProgress,
    rows,
};
use crate::{
    Batch, BatchError, GroupOutcome, Mutation, NewValue, StoreError, VersionMutation,
    tables::Tables,
};

/// Time limit of a group, with finding out what became of it.
const TIME_LIMIT: Duration = Duration::from_secs(15);
/// Time limit of one attempt; longer than the wait for a lock.
const ATTEMPT_LIMIT: Duration = Duration::from_secs(8);
/// Attempts at a group that was not written.
const ATTEMPTS: usize = 3;
/// Groups between two removals of old batch ids.
const PRUNE_INTERVAL: u64 = 2048;

/// Result of one attempt.
enum Attempt {
    Done(GroupOutcome),
    /// The connection broke; this would be the result.
    Unknown(GroupOutcome, String),
    /// The database is not as the cache has it; nothing was written.
    Stale,
}

impl PostgresStore {
    pub(super) fn commit_group(
        &self,
        group: &[Batch],
        now: Timestamp,
    ) -> Result<GroupOutcome, StoreError> {
        if self.commits.fetch_add(1, Ordering::Relaxed).is_multiple_of(PRUNE_INTERVAL) {
            let sql = "DELETE FROM batch WHERE at < now() - interval '1 day'";
            let _ = self.pool.read(|session| session.execute(sql, &[]));
        }
        match self.try_commit(group, now) {
            // A batch that the database cannot store must not fail the others.
            Err(PgError::Other(_) | PgError::Corrupt(_)) if group.len() > 1 => {
                let mut outcome = Vec::with_capacity(group.len());
                for batch in group.chunks(1) {
                    outcome.extend(self.commit_group(batch, now)?);
                }
                Ok(outcome)
            }
            Err(error @ (PgError::Other(_) | PgError::Corrupt(_))) => {
                let (code, message) = (Code::StoreError.into(), error.to_string());
                Ok(vec![Err(BatchError::Failed { code, message })])
            }
            Err(error) => Err(error.into()),
            Ok(outcome) => Ok(outcome),
        }
    }

    fn try_commit(&self, group: &[Batch], now: Timestamp) -> Result<GroupOutcome, PgError> {
        let deadline = Instant::now() + TIME_LIMIT;
        let mut attempts = 0;
        loop {
            attempts += 1;
            let left = deadline.saturating_duration_since(Instant::now());
            let lease = self.pool.lease(left.min(ATTEMPT_LIMIT))?;
            let was_idle = lease.is_reused();
            let cached = self.cache.lock().load(group);
            let attempt = match cached {
                Some(cached) => self.attempt_cached(&lease, &cached, group, now),
                None => Ok(Attempt::Stale),
            };
            let attempt = match attempt {
                Ok(Attempt::Stale) => self.attempt(&lease, group, now),
                other => other,
            };
            drop(lease);
            match attempt {
                Ok(Attempt::Done(outcome)) => return Ok(outcome),
                Ok(Attempt::Stale) => {}
                Ok(Attempt::Unknown(outcome, reason)) => {
                    self.cache.lock().clear();
                    if self.was_committed(group, deadline, &reason)? {
                        return Ok(outcome);
                    }
                }
                Err(PgError::Serialization(_)) => {}
                // Idle connections break without notice, all of them when the server restarts.
                Err(PgError::Unavailable(_)) if was_idle => self.pool.close_idle(),
                Err(error) => return Err(error),
            }
            if attempts == ATTEMPTS || Instant::now() >= deadline {
                let reason = "the group was not committed after several attempts".to_owned();
                return Err(PgError::Unavailable(reason));
            }
        }
    }

    /// Tries to write a group with one statement.
    fn attempt_cached(
        &self,
        session: &PgSession,
        cached: &Loaded,
        group: &[Batch],
        now: Timestamp,
    ) -> Result<Attempt, PgError> {
        let applied = apply(session, cached, group, now)?;
        if !applied.differences.is_simple() {
            return Ok(Attempt::Stale);
        }
        let commit = self.own_commits.begin(rows::to_u64(applied.differences.revision));
        let write = applied.differences.write_if_unchanged(session, cached.stamp, &self.channel);
        match session.wait_for_commit(write) {
            Ok(true) => Ok(Attempt::Done(self.remember(commit, cached, applied))),
            Err(PgError::OutcomeUnknown(reason)) => Ok(Attempt::Unknown(applied.outcome, reason)),
            // A batch that is sent again violates a constraint; so does a change of another server.
            Ok(false) | Err(PgError::Other(_) | PgError::Serialization(_)) => {
                self.cache.lock().clear();
                Ok(Attempt::Stale)
            }
            Err(error) => Err(error),
        }
    }

    fn attempt(
        &self,
        session: &PgSession,
        group: &[Batch],
        now: Timestamp,
    ) -> Result<Attempt, PgError> {
        let statements = self.statements.of_commit();
        let statements = statements.iter().chain(&flush::STATEMENTS);
        let loaded = session.wait(async {
            // Prepared first, so that the statements are sent in the order of their calls.
            try_join_all(statements.map(|sql| session.prepare(sql))).await?;
            load::load(session, &self.statements, group).await
        });
        let applied = loaded.and_then(|loaded| {
            let applied = apply(session, &loaded, group, now)?;
            Ok((loaded, applied))
        });
        let (loaded, applied) = match applied {
            Ok(applied) => applied,
            Err(error) => {
                session.roll_back();
                return Err(error);
            }
        };
        if applied.differences.is_empty() {
            session.roll_back();
            return Ok(Attempt::Done(applied.outcome));
        }
        let commit = self.own_commits.begin(rows::to_u64(applied.differences.revision));
        match session.wait_for_commit(applied.differences.write(session, &self.channel)) {
            Ok(()) => Ok(Attempt::Done(self.remember(commit, &loaded, applied))),
            Err(PgError::OutcomeUnknown(reason)) => Ok(Attempt::Unknown(applied.outcome, reason)),
            Err(error) => {
                session.roll_back();
                Err(error)
            }
        }
    }

    /// Stores what a commit left in the cache.
    fn remember(
        &self,
        commit: CommitInProgress,
        before: &Loaded,
        applied: Applied,
    ) -> GroupOutcome {
        commit.finish();
        self.cache.lock().store(before, applied.tables, &applied.differences);
        applied.outcome
    }

    /// Finds out whether a group was committed on a connection that broke. The lock of the head waits for the end of that
    /// transaction. A statement that the database has yet to receive writes nothing after the new stamp. So the answer is
    /// final.
    fn was_committed(
        &self,
        group: &[Batch],
        deadline: Instant,
        reason: &str,
    ) -> Result<bool, PgError> {
        let ids: Vec<&[u8]> = group.iter().map(|batch| batch.id.as_bytes().as_slice()).collect();
        loop {
            self.pool.close_idle();
            let found = self.pool.transaction(|session| {
                session.execute("UPDATE head SET stamp = $1", &[&rows::new_stamp()])?;
                let sql = "SELECT count(*) FROM batch WHERE id = ANY($1)";
                skills_postgres::column::<i64>(&session.query_one(sql, &[&ids])?, 0)
            });
            match found {
                Ok(count) => return Ok(count > 0),
                Err(error) if error.is_transient() && Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(200));
                }
                Err(_) => return Err(PgError::OutcomeUnknown(reason.to_owned())),
            }
        }
    }
}

/// Result of a group that is yet to be written.
struct Applied {
    outcome: GroupOutcome,
    tables: Tables,
    differences: Differences,
}

/// Applies the batches to the loaded tables and compares.
fn apply(
    session: &PgSession,
    loaded: &Loaded,
    group: &[Batch],
    now: Timestamp,
) -> Result<Applied, PgError> {
    let mut tables = loaded.tables.clone();
    let mut outcome = Vec::with_capacity(group.len());
    let mut recorded = vec![];
    for batch in group {
        outcome.push(if let Some(before) = loaded.committed.get(&batch.id) {
            Ok(outcome::replay(session, batch, before)?)
        } else if let Some(error) = unstorable(batch) {
            Err(error)
        } else {
            let applied = tables.apply(batch.clone(), now);
            if let Ok(effects) = &applied {
                recorded.push((batch.id.as_bytes().to_vec(), outcome::record(effects)?));
            }
            applied
        });
    }
    let differences = Differences::new(loaded, &tables, recorded)?;
    Ok(Applied { outcome, tables, differences })
}

/// Returns the error of a batch with a text that PostgreSQL cannot store.
fn unstorable(batch: &Batch) -> Option<BatchError> {
    let has_nul = |text: &str| text.contains('\0');
    let is_unstorable = |mutation: &Mutation| match mutation {
        Mutation::Put { options, .. }
        | Mutation::Version { change: VersionMutation::Rollback { options, .. }, .. } => {
            options.message.as_deref().is_some_and(has_nul)
        }
        Mutation::Version { change, .. } => match change {
            VersionMutation::Yank { reason, .. } | VersionMutation::Purge { reason, .. } => {
                has_nul(reason)
            }
            _ => false,
        },
        Mutation::StateSet { scope, key, value } => {
            let value = match value {
                NewValue::Given(value) => has_nul(value),
                NewValue::Computed(_) => false,
            };
            has_nul(scope) || has_nul(key) || value
        }
        Mutation::StateDelete { scope, key } => has_nul(scope) || has_nul(key),
        Mutation::Remove(_) => false,
    };
    (has_nul(&batch.actor) || batch.mutations.iter().any(is_unstorable)).then(|| {
        BatchError::Failed {
            code: Code::InvalidInput.into(),
            message: "PostgreSQL stores no text with a NUL character".to_owned(),
        }
    })
}
