//! Thread that follows changes of keys, plans and secrets that any server made, and notices whether the database can be reached.
//!
//! It asks for the revision several times a second: that is within the second that a revocation may take, works behind
//! poolers that drop `LISTEN`, and needs no connection of its own.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};
use skills_core::{Digest, StoreOutage};
use skills_postgres::{PgError, PgSession, column};

use super::{Database, keys};
use crate::{
    VaultError,
    backend::{KeyChanges, StoredKey},
};

/// Time between two checks; a revoked key is refused everywhere within a second.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// Most changes that wait to be taken; with more, everything is read again.
const MAX_WAITING: usize = 65_536;
/// Revisions before the last known one whose changes are read again after a restart: more than a failover may have
/// lost and given out again.
const REREAD_REVISIONS: i64 = 1000;

/// Knowledge of whether the database can be reached.
#[derive(Debug)]
pub(super) struct Contact {
    /// Time for which what is in memory is used; for as long as it takes without one.
    max_stale: Option<Duration>,
    state: Mutex<ContactState>,
    /// Set while the last check failed.
    is_away: AtomicBool,
}

#[derive(Debug)]
struct ContactState {
    last: Instant,
    failure: Option<PgError>,
}

impl Contact {
    pub(super) fn new(max_stale: Option<Duration>) -> Self {
        let state = Mutex::new(ContactState { last: Instant::now(), failure: None });
        Self { max_stale, state, is_away: AtomicBool::new(false) }
    }

    fn record(&self, outcome: Result<(), PgError>) {
        let mut state = self.state.lock();
        let was_away = state.failure.is_some();
        match outcome {
            Ok(()) => {
                state.last = Instant::now();
                state.failure = None;
                if was_away {
                    tracing::warn!("vault database is back");
                }
            }
            Err(error) => {
                if !was_away {
                    tracing::warn!(%error, "vault database is away, keys are accepted from memory");
                }
                // Callers treat every outage alike.
                state.failure = Some(match error {
                    PgError::Configuration(_) => PgError::Unavailable(error.to_string()),
                    error => error,
                });
            }
        }
        self.is_away.store(state.failure.is_some(), Ordering::Release);
    }

    /// Returns the error of the last check, if it failed.
    pub(super) fn failure(&self) -> Option<PgError> {
        if !self.is_away.load(Ordering::Acquire) {
            return None;
        }
        self.state.lock().failure.clone()
    }

    /// Checks that what is in memory is not too old to be used.
    pub(super) fn check_age(&self) -> Result<(), VaultError> {
        let Some(error) = self.failure() else { return Ok(()) };
        let last_contact = self.state.lock().last;
        let outage = StoreOutage { last_contact, max_stale: self.max_stale };
        if outage.is_stale(Instant::now()) { Err(error.into()) } else { Ok(()) }
    }
}

/// Position in the history of the vault, by which it is noticed that the database lost commits: in a failover or from a
/// backup. Revisions are then given out again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Position {
    /// Revision of the last transaction that changed keys or profiles.
    revision: i64,
    /// Start of the server. Connections to one that lacks transactions are new, and so is its start.
    started_at: i64,
    /// Number and time of the newest record of the audit log, to which every change adds one.
    audit: Option<(i64, i64)>,
}

/// What the audit log has about a record and those after it.
struct AuditSince {
    /// Time of the record, if the database has it.
    record_at: Option<i64>,
    /// Whether secrets or grants were changed after it.
    has_secret_changes: bool,
}

impl Position {
    /// Reads the position, and what the audit log has about a record and those after it.
    fn read(session: &PgSession, record: Option<i64>) -> Result<(Self, AuditSince), PgError> {
        let sql = "SELECT v.revision,
                       (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint,
                       a.number, a.at, (SELECT at FROM vault_audit WHERE number = $1),
                       EXISTS (SELECT FROM vault_audit WHERE number > coalesce($1, 0)
                               AND action LIKE 'secret.%')
                   FROM vault_state v LEFT JOIN LATERAL
                       (SELECT number, at FROM vault_audit ORDER BY number DESC LIMIT 1) a ON true";
        let row = session.query_one(sql, &[&record])?;
        let audit = column::<Option<i64>>(&row, 2)?.zip(column(&row, 3)?);
        let position = Self { revision: column(&row, 0)?, started_at: column(&row, 1)?, audit };
        let since =
            AuditSince { record_at: column(&row, 4)?, has_secret_changes: column(&row, 5)? };
        Ok((position, since))
    }

    /// Returns whether a later position is one of the same history. `record_at` is the time that the newest record of
    /// this position has there.
    fn is_followed_by(&self, later: &Self, record_at: Option<i64>) -> bool {
        let has_record = self.audit.is_none_or(|(_, at)| record_at == Some(at));
        has_record && later.started_at == self.started_at && later.revision >= self.revision
    }
}

/// Changes of keys that the cache has not taken yet.
#[derive(Debug)]
struct Waiting {
    /// Last position that was read.
    position: Position,
    changes: KeyChanges,
}

#[derive(Debug)]
struct Shared {
    waiting: Mutex<Waiting>,
    has_changes: AtomicBool,
    /// Set when secrets or grants may have changed.
    has_secret_changes: AtomicBool,
    /// Held during a check, so that revisions are read in order.
    check: Mutex<()>,
    stop: Mutex<bool>,
    stopped: Condvar,
}

/// Follower of the changes of keys; its thread ends when it is dropped.
#[derive(Debug)]
pub(super) struct ChangeFollower {
    database: Arc<Database>,
    shared: Arc<Shared>,
}

impl Drop for ChangeFollower {
    fn drop(&mut self) {
        *self.shared.stop.lock() = true;
        self.shared.stopped.notify_all();
    }
}

impl ChangeFollower {
    pub(super) fn start(database: &Arc<Database>) -> Result<Self, VaultError> {
        let (position, _) = database.quick(|session| Position::read(session, None))?;
        let shared = Arc::new(Shared {
            waiting: Mutex::new(Waiting { position, changes: KeyChanges::None }),
            has_changes: AtomicBool::new(false),
            has_secret_changes: AtomicBool::new(false),
            check: Mutex::default(),
            stop: Mutex::new(false),
            stopped: Condvar::new(),
        });
        let (weak, of_thread) = (Arc::downgrade(database), Arc::clone(&shared));
        thread::Builder::new()
            .name("vault-changes".to_owned())
            .spawn(move || of_thread.follow(&weak))
            .map_err(|error| VaultError::internal(&format!("no thread for the vault: {error}")))?;
        Ok(Self { database: Arc::clone(database), shared })
    }

    /// Reads changes now, so that those of this process take effect at once.
    pub(super) fn check_now(&self) {
        self.shared.check(&self.database);
    }

    /// Lets keys be looked up again.
    pub(super) fn forget_keys(&self, keys: &[Digest]) {
        let changes = keys.iter().map(|hash| (*hash, None)).collect();
        self.shared.push(&mut self.shared.waiting.lock(), changes, false);
    }

    /// Lets copies of secrets and grants be dropped.
    pub(super) fn forget_secrets(&self) {
        self.shared.has_secret_changes.store(true, Ordering::Release);
    }

    /// Returns whether secrets or grants may have changed since the last call.
    pub(super) fn take_secret_changes(&self) -> bool {
        self.shared.has_secret_changes.swap(false, Ordering::AcqRel)
    }

    /// Takes the changes of keys since the last call.
    pub(super) fn take_changes(&self) -> KeyChanges {
        if !self.shared.has_changes.load(Ordering::Acquire) {
            return KeyChanges::None;
        }
        let mut waiting = self.shared.waiting.lock();
        self.shared.has_changes.store(false, Ordering::Release);
        std::mem::replace(&mut waiting.changes, KeyChanges::None)
    }
}

impl Shared {
    fn follow(&self, database: &Weak<Database>) {
        let mut stop = self.stop.lock();
        while !*stop {
            self.stopped.wait_for(&mut stop, CHECK_INTERVAL);
            if *stop {
                return;
            }
            drop(stop);
            let Some(database) = database.upgrade() else { return };
            self.check(&database);
            drop(database);
            stop = self.stop.lock();
        }
    }

    fn check(&self, database: &Database) {
        let _check = self.check.lock();
        let outcome = self.read_changes(database);
        match outcome {
            // Waiting may not help, but a server that refuses connections tells nothing about keys either.
            Err(error @ PgError::Configuration(_)) => database.contact.record(Err(error)),
            // The server answers; the rows are the problem.
            Err(error) if !error.is_unavailable() => {
                tracing::error!(%error, "changes of keys cannot be read");
                self.has_secret_changes.store(true, Ordering::Release);
                let mut waiting = self.waiting.lock();
                self.replace(&mut waiting, KeyChanges::All);
                database.contact.record(Ok(()));
            }
            outcome => database.contact.record(outcome),
        }
    }

    fn read_changes(&self, database: &Database) -> Result<(), PgError> {
        let seen = self.waiting.lock().position;
        let (found, since, is_same_history, changes) = database.quick(|session| {
            let (found, since) = Position::read(session, seen.audit.map(|(number, _)| number))?;
            let is_same_history = seen.is_followed_by(&found, since.record_at);
            let changes = if !is_same_history {
                // The other keys are looked up again; these also count if that is not possible.
                let known = seen.revision.min(found.revision);
                keys::changes_after(session, known - REREAD_REVISIONS)?
            } else if found.revision > seen.revision {
                // Transactions up to the found revision are committed. Later ones may be among the rows, and come again.
                keys::changes_after(session, seen.revision)?
            } else {
                vec![]
            };
            Ok((found, since, is_same_history, changes))
        })?;
        if since.has_secret_changes || !is_same_history {
            self.has_secret_changes.store(true, Ordering::Release);
        }
        let mut waiting = self.waiting.lock();
        if !is_same_history {
            tracing::info!(
                known = seen.revision,
                revision = found.revision,
                "vault database restarted or lost commits, keys and secrets are looked up again"
            );
        }
        self.push(&mut waiting, changes, !is_same_history);
        waiting.position = found;
        Ok(())
    }

    /// Adds changes to those that wait. `others` is set if other keys may have changed too.
    fn push(&self, waiting: &mut Waiting, new: Vec<(Digest, Option<StoredKey>)>, others: bool) {
        if new.is_empty() && !others {
            return;
        }
        let before = std::mem::replace(&mut waiting.changes, KeyChanges::None);
        let changes = match before {
            KeyChanges::All => KeyChanges::All,
            KeyChanges::None => KeyChanges::Some { keys: new, others },
            KeyChanges::Some { mut keys, others: before } => {
                keys.extend(new);
                KeyChanges::Some { keys, others: before || others }
            }
        };
        let is_too_long =
            matches!(&changes, KeyChanges::Some { keys, .. } if keys.len() > MAX_WAITING);
        self.replace(waiting, if is_too_long { KeyChanges::All } else { changes });
    }

    fn replace(&self, waiting: &mut Waiting, changes: KeyChanges) {
        waiting.changes = changes;
        self.has_changes.store(true, Ordering::Release);
    }
}
