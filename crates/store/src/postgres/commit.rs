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
use skills_core::{Code, Coded as _, Timestamp};
use skills_postgres::{PgError, PgSession};

use super::{
    PostgresStore,
    differences::Differences,
    load::{self, Loaded},
    outcome, rows,
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
/// Time limit of a removal of old batch ids.
const PRUNE_LIMIT: Duration = Duration::from_secs(2);
/// Groups between two removals of old batch ids.
const PRUNE_INTERVAL: u64 = 2048;

/// Result of one attempt.
enum Attempt {
    Done(GroupOutcome),
    /// The connection broke.
    Unknown {
        /// The result, if it was committed.
        outcome: GroupOutcome,
        /// Ids of the batches that were sent.
        sent: Vec<Vec<u8>>,
        reason: String,
    },
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
            let prune = |session: &PgSession| session.execute(sql, &[]);
            let _ = self.control_pool.read_within(PRUNE_LIMIT, prune);
        }
        match self.try_commit(group, now) {
            // A batch that the database cannot store must not fail the others.
            Err(PgError::Other(_) | PgError::Corrupt(_)) if group.len() > 1 => {
                Ok(self.commit_one_by_one(group, now))
            }
            Err(error @ (PgError::Other(_) | PgError::Corrupt(_))) => {
                let (code, message) = (Code::StoreError.into(), error.to_string());
                Ok(vec![Err(BatchError::Failed { code, message })])
            }
            Err(error) => Err(error.into()),
            Ok(outcome) => Ok(outcome),
        }
    }

    /// Commits the batches of a group in transactions of their own. Batches before one that fails with the database are
    /// stored, so each has its own answer.
    fn commit_one_by_one(&self, group: &[Batch], now: Timestamp) -> GroupOutcome {
        let mut outcome = Vec::with_capacity(group.len());
        let mut failure: Option<BatchError> = None;
        for batch in group.chunks(1) {
            match &failure {
                // Waiting for the time limit once is enough.
                Some(failure) => outcome.push(Err(failure.clone())),
                None => match self.commit_group(batch, now) {
                    Ok(of_batch) => outcome.extend(of_batch),
                    Err(error) => {
                        let failed =
                            |message| BatchError::Failed { code: error.code().into(), message };
                        failure = Some(failed(format!("not written: {error}")));
                        outcome.push(Err(if error.is_outcome_unknown() {
                            BatchError::OutcomeUnknown(error.to_string())
                        } else {
                            failed(error.to_string())
                        }));
                    }
                },
            }
        }
        outcome
    }

    fn try_commit(&self, group: &[Batch], now: Timestamp) -> Result<GroupOutcome, PgError> {
        let deadline = Instant::now() + TIME_LIMIT;
        let mut attempts = 0;
        loop {
            attempts += 1;
            let left = deadline.saturating_duration_since(Instant::now());
            let lease = self.control_pool.lease(left.min(ATTEMPT_LIMIT))?;
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
                Ok(Attempt::Unknown { outcome, sent, reason }) => {
                    self.cache.lock().clear();
                    if self.was_committed(&sent, deadline, &reason)? {
                        return Ok(outcome);
                    }
                }
                Err(PgError::Serialization(_)) => {}
                // Another host may accept writes by now, and then has newer content too.
                Err(error @ PgError::ReadOnly(_)) => {
                    self.control_pool.close_idle();
                    self.read_pool.close_idle();
                    return Err(error);
                }
                // Idle connections break without notice, all of them when the server restarts.
                Err(PgError::Unavailable(_)) if was_idle => self.control_pool.close_idle(),
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
        let differences = &applied.differences;
        let write =
            differences.write_if_unchanged(session, &self.flush, cached.stamp, &self.channel);
        match session.wait_for_commit(write) {
            Ok(true) => Ok(Attempt::Done(self.remember(cached, applied))),
            Err(PgError::OutcomeUnknown(reason)) => Ok(applied.into_unknown(reason)),
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
        let flush = self.flush.of_write();
        let statements = statements.iter().chain(&flush);
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
        match session.wait_for_commit(applied.differences.write(
            session,
            &self.flush,
            &self.channel,
        )) {
            Ok(()) => Ok(Attempt::Done(self.remember(&loaded, applied))),
            Err(PgError::OutcomeUnknown(reason)) => Ok(applied.into_unknown(reason)),
            Err(error) => {
                session.roll_back();
                Err(error)
            }
        }
    }

    /// Stores what a commit left in the cache.
    fn remember(&self, before: &Loaded, applied: Applied) -> GroupOutcome {
        self.cache.lock().store(before, applied.tables, &applied.differences);
        applied.outcome
    }

    /// Finds out whether a group was committed on a connection that broke. The lock of the head waits for the end of that
    /// transaction. A statement that the database has yet to receive writes nothing after the new stamp. So the answer is
    /// final. Batches of the group that were committed before are not among those that were sent.
    fn was_committed(
        &self,
        sent: &[Vec<u8>],
        deadline: Instant,
        reason: &str,
    ) -> Result<bool, PgError> {
        loop {
            self.control_pool.close_idle();
            let left = deadline.saturating_duration_since(Instant::now()).min(ATTEMPT_LIMIT);
            let found = self.control_pool.transaction_within(left, |session| {
                session.execute("UPDATE head SET stamp = $1", &[&rows::new_stamp()])?;
                let sql = "SELECT count(*) FROM batch WHERE id = ANY($1)";
                skills_postgres::column::<i64>(&session.query_one(sql, &[&sent])?, 0)
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

impl Applied {
    fn into_unknown(self, reason: String) -> Attempt {
        let sent = self.differences.batches.0;
        Attempt::Unknown { outcome: self.outcome, sent, reason }
    }
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
