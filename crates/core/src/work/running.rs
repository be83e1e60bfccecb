//! Work that reserves memory as it goes on.

use super::{StopFlag, Stopped, WorkAccount, WorkError};
use crate::budget::{MemoryBudget, Reservation};

/// Work in progress: its stop flag, and the memory that is reserved for it. Work that learns only as it goes on how much
/// memory it needs, such as unpacking, reserves each part here before it uses it.
#[derive(Debug)]
pub struct RunningWork {
    stop: StopFlag,
    memory: Reservation,
}

impl RunningWork {
    pub(super) const fn new(stop: StopFlag, memory: Reservation) -> Self {
        Self { stop, memory }
    }

    /// Creates work that no request causes, such as that of a command: nothing stops it, and its memory is not limited.
    #[must_use]
    pub fn of_process() -> Self {
        Self::with_memory(WorkAccount::process().memory())
    }

    /// Creates work that nothing stops, within a memory budget.
    #[must_use]
    pub fn with_memory(memory: &MemoryBudget) -> Self {
        Self::new(StopFlag::new(), memory.reservation())
    }

    /// Returns the flag that tells the work to stop.
    #[must_use]
    pub const fn stop(&self) -> &StopFlag {
        &self.stop
    }

    /// Returns an error if the work has to stop.
    ///
    /// # Errors
    /// When its caller is gone, or its time is up.
    pub fn check(&self) -> Result<(), Stopped> {
        self.stop.check()
    }

    /// Returns the bytes that are reserved.
    #[must_use]
    pub const fn reserved(&self) -> usize {
        self.memory.bytes()
    }

    /// Reserves more memory.
    ///
    /// # Errors
    /// When it is not free.
    pub fn try_grow(&mut self, more: usize) -> Result<(), WorkError> {
        Ok(self.memory.try_grow(more)?)
    }

    /// Takes a part of the reserved memory out, for a result that outlives the work.
    #[must_use]
    pub fn keep(&mut self, bytes: usize) -> Reservation {
        self.memory.split(bytes)
    }

    /// Gives back all reserved memory but `bytes`.
    pub fn shrink_to(&mut self, bytes: usize) {
        self.memory.shrink_to(bytes);
    }
}
