//! Thread that follows changes of keys and plans that any server made, and notices whether the database can be reached.
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
use skills_postgres::{PgError, column};

use super::{Database, keys};
use crate::{
    VaultError,
    backend::{KeyChanges, StoredKey},
};

/// Time between two checks; a revoked key is refused everywhere within a second.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// Most changes that wait to be taken; with more, everything is read again.
const MAX_WAITING: usize = 65_536;

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
                    tracing::info!("vault database is back");
                }
            }
            Err(error) => {
                if !was_away {
                    tracing::warn!(%error, "vault database is away, keys are accepted from memory");
                }
                state.failure = Some(error);
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

/// Changes of keys that the cache has not taken yet.
#[derive(Debug)]
struct Waiting {
    /// Last revision that was read.
    revision: i64,
    changes: KeyChanges,
}

#[derive(Debug)]
struct Shared {
    waiting: Mutex<Waiting>,
    has_changes: AtomicBool,
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
        let revision = database.quick(|session| {
            column(&session.query_one("SELECT revision FROM vault_state", &[])?, 0)
        })?;
        let shared = Arc::new(Shared {
            waiting: Mutex::new(Waiting { revision, changes: KeyChanges::None }),
            has_changes: AtomicBool::new(false),
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
        self.shared.push(&mut self.shared.waiting.lock(), changes);
    }

    /// Takes the changes since the last call.
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
            // The server answers; the rows are the problem.
            Err(error) if !error.is_unavailable() => {
                tracing::error!(%error, "changes of keys cannot be read");
                let mut waiting = self.waiting.lock();
                self.replace(&mut waiting, KeyChanges::All);
                database.contact.record(Ok(()));
            }
            outcome => database.contact.record(outcome),
        }
    }

    fn read_changes(&self, database: &Database) -> Result<(), PgError> {
        let seen = self.waiting.lock().revision;
        let (revision, changes) = database.quick(|session| {
            let sql = "SELECT revision FROM vault_state";
            let revision: i64 = column(&session.query_one(sql, &[])?, 0)?;
            // Transactions up to this revision are committed. Later ones may be among the rows, and come again.
            let changes =
                if revision > seen { keys::changes_after(session, seen)? } else { vec![] };
            Ok((revision, changes))
        })?;
        let mut waiting = self.waiting.lock();
        if revision < seen {
            // The database was restored from a backup.
            self.replace(&mut waiting, KeyChanges::All);
        } else {
            self.push(&mut waiting, changes);
        }
        waiting.revision = revision;
        Ok(())
    }

    fn push(&self, waiting: &mut Waiting, new: Vec<(Digest, Option<StoredKey>)>) {
        if new.is_empty() {
            return;
        }
        let changes = match std::mem::replace(&mut waiting.changes, KeyChanges::None) {
            KeyChanges::All => KeyChanges::All,
            KeyChanges::Some(mut changes) if changes.len() + new.len() <= MAX_WAITING => {
                changes.extend(new);
                KeyChanges::Some(changes)
            }
            KeyChanges::None if new.len() <= MAX_WAITING => KeyChanges::Some(new),
            KeyChanges::None | KeyChanges::Some(_) => KeyChanges::All,
        };
        self.replace(waiting, changes);
    }

    fn replace(&self, waiting: &mut Waiting, changes: KeyChanges) {
        waiting.changes = changes;
        self.has_changes.store(true, Ordering::Release);
    }
}
