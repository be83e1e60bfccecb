//! Permits for work on blocking threads.

use std::time::Instant;

use tokio::{sync::OwnedSemaphorePermit, task::spawn_blocking, time::timeout};

use super::{
    WorkKind,
    account::PoolPermits,
    running::RunningWork,
    stop_flag::{StopFlag, Stopped},
};
use crate::budget::{OverBudget, Reservation};

/// Refusal or failure of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WorkError {
    /// The caller's share of memory, or that of all callers, is used up.
    #[error(transparent)]
    OverBudget(#[from] OverBudget),
    /// No thread became free in time.
    #[error("the server is busy with other requests that need much processor time")]
    Busy,
    /// The work panicked.
    #[error("{0} failed unexpectedly")]
    Panicked(&'static str),
}

/// The time of the work is up. If its caller is gone, nobody sees the error.
impl From<Stopped> for WorkError {
    fn from(Stopped: Stopped) -> Self {
        Self::Busy
    }
}

/// Right to run work on a blocking thread, with memory for it. Released on drop, or when the work that it
/// [runs](Self::run) has ended.
#[derive(Debug)]
pub struct WorkPermit {
    kind: WorkKind,
    reservation: Reservation,
    _own: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
    deadline: Instant,
}

impl WorkPermit {
    /// Waits for a permit of the client, then for one of the process: waiting clients hold no permit that others need.
    pub(super) async fn acquire(
        kind: WorkKind,
        reservation: Reservation,
        own: &PoolPermits,
        all: &PoolPermits,
    ) -> Result<Self, WorkError> {
        let acquired = timeout(WorkKind::TIME_LIMIT, async {
            let own = own.of(kind.pool()).clone().acquire_owned().await;
            (own, all.of(kind.pool()).clone().acquire_owned().await)
        });
        // The semaphores are never closed.
        let (Ok(own), Ok(all)) = acquired.await.map_err(|_| WorkError::Busy)? else {
            return Err(WorkError::Busy);
        };
        // The time that the work waited is not taken from its own.
        let deadline = Instant::now() + WorkKind::TIME_LIMIT;
        Ok(Self { kind, reservation, _own: own, _all: all, deadline })
    }

    /// Takes permits that are free.
    pub(super) fn try_acquire(
        kind: WorkKind,
        reservation: Reservation,
        own: &PoolPermits,
        all: &PoolPermits,
    ) -> Result<Self, WorkError> {
        let take = |permits: &PoolPermits| {
            permits.of(kind.pool()).clone().try_acquire_owned().map_err(|_| WorkError::Busy)
        };
        let deadline = Instant::now() + WorkKind::TIME_LIMIT;
        Ok(Self { kind, reservation, _own: take(own)?, _all: take(all)?, deadline })
    }

    /// Reserves more memory for the work.
    ///
    /// # Errors
    /// When it is not free.
    pub fn try_grow(&mut self, more: usize) -> Result<(), WorkError> {
        Ok(self.reservation.try_grow(more)?)
    }

    /// Runs work on a blocking thread. The permit is released when the work has ended. If the returned future is dropped,
    /// the flag of the work is raised.
    ///
    /// # Errors
    /// When the work panics.
    pub async fn run<T: Send + 'static>(
        self,
        work: impl FnOnce(&StopFlag) -> T + Send + 'static,
    ) -> Result<T, WorkError> {
        self.run_growing(move |running| work(running.stop())).await
    }

    /// Runs work on a blocking thread, as [`run`](Self::run) does, that reserves more memory as it goes on.
    ///
    /// # Errors
    /// When the work panics.
    pub async fn run_growing<T: Send + 'static>(
        self,
        work: impl FnOnce(&mut RunningWork) -> T + Send + 'static,
    ) -> Result<T, WorkError> {
        let Self { kind, reservation, _own: own, _all: all, deadline } = self;
        let (name, stop) = (kind.name(), StopFlag::with_deadline(deadline));
        let _raise = stop.raise_on_drop();
        #[expect(clippy::disallowed_methods, reason = "the work has a permit")]
        let done = spawn_blocking(move || {
            let permits = (own, all);
            let mut running = RunningWork::new(stop, reservation);
            let result = work(&mut running);
            drop(running);
            drop(permits);
            result
        });
        done.await.map_err(|_| WorkError::Panicked(name))
    }
}

/// Runs a job of the server itself on a blocking thread: one that no request causes, and that needs no permit.
///
/// # Errors
/// When the job panics.
pub async fn run_own<T: Send + 'static>(
    name: &'static str,
    job: impl FnOnce() -> T + Send + 'static,
) -> Result<T, WorkError> {
    #[expect(clippy::disallowed_methods, reason = "no request causes the job")]
    let done = spawn_blocking(job);
    done.await.map_err(|_| WorkError::Panicked(name))
}
