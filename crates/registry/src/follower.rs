//! Follows the changes that other servers make to a shared store.
//!
//! A notification, or else a poll each second, leads to a look at the change log after the catalog's revision. The writer
//! thread publishes what is new, so that it cannot cross a write of this server. The same looks tell whether the store
//! lost commits, and whether it can be reached; reads go on from memory meanwhile.

use std::{
    sync::{Arc, Weak, mpsc},
    thread,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};
use skills_store::{Change, StoreError, Subscription};

use crate::{Registry, lost_commits, publisher::Publisher, recovery::PAGE, store_contact};

/// Interval of looks without a notification: poolers drop LISTEN, and connections break.
const POLL: Duration = Duration::from_secs(1);
/// Interval of looks at a store that cannot be reached.
const POLL_LOST: Duration = Duration::from_millis(250);
/// Time for which a look waits for the writer thread. A commit that gets no answer keeps that busy for longer; the next
/// look finds out meanwhile whether the store can be reached.
const JOB_WAIT: Duration = Duration::from_secs(1);

/// Signal for a look at the log.
#[derive(Debug, Default)]
struct Signal {
    state: Mutex<SignalState>,
    raised: Condvar,
}

#[derive(Debug, Default)]
struct SignalState {
    is_raised: bool,
    is_closed: bool,
}

impl Signal {
    fn raise(&self) {
        self.state.lock().is_raised = true;
        self.raised.notify_one();
    }

    /// Waits for the signal or the next poll. Returns whether the follower goes on.
    fn wait(&self, poll: Duration) -> bool {
        let mut state = self.state.lock();
        if !state.is_raised && !state.is_closed {
            self.raised.wait_for(&mut state, poll);
        }
        state.is_raised = false;
        !state.is_closed
    }
}

/// Thread that follows a store. Dropping it ends the thread, after the look that it may be in.
pub(crate) struct Follower {
    signal: Arc<Signal>,
    _subscription: Subscription,
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.signal.state.lock().is_closed = true;
        self.signal.raised.notify_one();
    }
}

impl Follower {
    /// Starts to follow, if other processes write to the store.
    ///
    /// # Errors
    /// When the store cannot be followed.
    pub(crate) fn start(registry: &Arc<Registry>) -> Result<Option<Self>, StoreError> {
        let signal = Arc::new(Signal::default());
        let raised = Arc::clone(&signal);
        let wake = Arc::new(move || raised.raise());
        let Some(subscription) = registry.store().follow(wake)? else { return Ok(None) };
        let (weak, waiting) = (Arc::downgrade(registry), Arc::clone(&signal));
        let started = thread::Builder::new()
            .name("registry-follower".to_owned())
            .spawn(move || run(&weak, &waiting));
        if let Err(error) = started {
            tracing::error!(%error, "changes of other servers are not followed");
        }
        Ok(Some(Self { signal, _subscription: subscription }))
    }
}

fn run(registry: &Weak<Registry>, signal: &Signal) {
    let mut contact = Instant::now();
    let mut poll = POLL;
    let mut state = FollowerState { job: None, page: PAGE };
    while signal.wait(poll)
        && let Some(registry) = registry.upgrade()
    {
        let looked_at = Instant::now();
        let looked = catch_up(&registry, &mut state).and_then(|progress| {
            registry.publisher().store_contact.check_refusal(&**registry.store())?;
            Ok(progress)
        });
        let is_outage = looked.as_ref().is_err_and(store_contact::is_outage);
        if !is_outage && !matches!(looked, Ok(Progress::Waiting)) {
            contact = looked_at;
        }
        poll = if is_outage { POLL_LOST } else { POLL };
        registry.publisher().store_contact.record(looked.map(drop), contact);
    }
}

/// Result of a look at the store.
enum Progress {
    /// The catalog has what the store had.
    CaughtUp,
    /// The store was reached, and the writer thread has yet to publish what was read.
    Waiting,
}

/// Work that the writer thread does for the follower.
type Job = mpsc::Receiver<Result<(), StoreError>>;

/// State between two looks.
struct FollowerState {
    job: Option<Job>,
    /// Changes that are read at once: fewer after a page that took too long.
    page: usize,
}

/// Publishes the changes that the store has and the catalog lacks.
fn catch_up(registry: &Registry, state: &mut FollowerState) -> Result<Progress, StoreError> {
    let (store, publisher) = (registry.store(), registry.publisher());
    loop {
        if let Some(running) = &state.job {
            match running.recv_timeout(JOB_WAIT) {
                Ok(result) => {
                    state.job = None;
                    result?;
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    return store.revision().map(|_| Progress::Waiting);
                }
                // The writer thread ended, or panicked and has recovered.
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    state.job = None;
                    return Ok(Progress::CaughtUp);
                }
            }
        }
        let Some(newest) = lost_commits::check(&**store, publisher)? else {
            state.job = Some(repair(registry));
            continue;
        };
        let known = publisher.catalog.load().revision();
        if newest <= known {
            return Ok(Progress::CaughtUp);
        }
        let changes = match store.unpublished_changes(known, state.page) {
            Ok(changes) => {
                state.page = (state.page * 2).min(PAGE);
                changes
            }
            Err(error) => {
                state.page = (state.page / 2).max(1);
                return Err(error);
            }
        };
        if changes.is_empty() {
            return Ok(Progress::CaughtUp);
        }
        state.job = Some(publish(registry, changes));
    }
}

/// Has the writer thread publish changes. It may have published some of them meanwhile; `Publisher::publish` leaves these
/// out.
fn publish(registry: &Registry, changes: Vec<Change>) -> Job {
    let publisher: Arc<Publisher> = Arc::clone(registry.publisher());
    let (reply, job) = mpsc::channel();
    let check = Box::new(move |_| {
        publisher.forget_erased(&changes);
        changes
    });
    registry.queue_external(check, Box::new(move |_| drop(reply.send(Ok(())))));
    job
}

/// Has the writer thread read the catalog of a store that lost commits again. Writes wait meanwhile: one that was
/// acknowledged between the read and the swap would vanish from the catalog.
fn repair(registry: &Registry) -> Job {
    let (store, publisher) = (Arc::clone(registry.store()), Arc::clone(registry.publisher()));
    let (reply, job) = mpsc::channel();
    let check = Box::new(move |_| {
        let _ = reply.send(lost_commits::repair(&*store, &publisher));
        vec![]
    });
    registry.queue_external(check, Box::new(drop));
    job
}
