//! Cancellation of work on a blocking thread.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

/// The work was stopped: its caller is gone, or its time is up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the work was stopped")]
pub struct Stopped;

/// Flag that tells work on a blocking thread to stop. Clones are handles to the same flag.
#[derive(Debug, Clone)]
pub struct StopFlag(Arc<State>);

#[derive(Debug)]
struct State {
    is_raised: AtomicBool,
    deadline: Option<Instant>,
}

impl StopFlag {
    /// Creates a flag that is raised at a deadline, or before by [`raise`](Self::raise).
    #[must_use]
    pub fn with_deadline(deadline: Instant) -> Self {
        Self(Arc::new(State { is_raised: AtomicBool::new(false), deadline: Some(deadline) }))
    }

    /// Creates a flag without a deadline, for work that no request causes.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(State { is_raised: AtomicBool::new(false), deadline: None }))
    }

    /// Tells the work to stop.
    pub fn raise(&self) {
        self.0.is_raised.store(true, Ordering::Relaxed);
    }

    /// Returns whether the work has to stop. Costs a few nanoseconds: check it in every loop whose length a caller decides.
    #[must_use]
    pub fn is_raised(&self) -> bool {
        if self.0.is_raised.load(Ordering::Relaxed) {
            return true;
        }
        let is_late = self.0.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        if is_late {
            self.raise();
        }
        is_late
    }

    /// Returns an error if the work has to stop.
    ///
    /// # Errors
    /// When the flag is raised.
    pub fn check(&self) -> Result<(), Stopped> {
        if self.is_raised() { Err(Stopped) } else { Ok(()) }
    }

    /// Returns a guard that raises the flag when it is dropped: the caller who waits for the work is gone.
    pub(super) fn raise_on_drop(&self) -> RaiseOnDrop {
        RaiseOnDrop(self.clone())
    }
}

impl Default for StopFlag {
    fn default() -> Self {
        Self::new()
    }
}

/// Guard of a caller who waits for work.
#[derive(Debug)]
pub(super) struct RaiseOnDrop(StopFlag);

impl Drop for RaiseOnDrop {
    fn drop(&mut self) {
        self.0.raise();
    }
}
