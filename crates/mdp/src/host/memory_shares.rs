//! Shares of the process's memory budget: unfinished messages of clients, calls and their results, and registered
//! catalogs. None of the three can starve the others, and no caller can starve the other callers.

use std::collections::HashMap;

use parking_lot::Mutex;
use skills_core::{Caller, MemoryBudget, OverBudget, Reservation};

use crate::MdpLimits;

/// Bytes of unfinished messages of clients.
const INCOMING_BYTES: usize = 64 << 20;
/// Bytes of calls in progress and their results.
const CALL_BYTES: usize = 128 << 20;
/// Bytes of calls in progress of one caller, and their results.
const CALL_BYTES_PER_CALLER: usize = 48 << 20;
/// Entries of the table of callers beyond which those without a call are removed.
const MAX_CALLERS: usize = 1024;

/// Shares of the memory budget.
#[derive(Debug)]
pub(crate) struct MemoryShares {
    pub(crate) incoming: MemoryBudget,
    pub(crate) catalogs: MemoryBudget,
    calls: MemoryBudget,
    callers: Mutex<HashMap<Caller, MemoryBudget>>,
}

impl MemoryShares {
    pub(super) fn new(budget: &MemoryBudget, limits: &MdpLimits) -> Self {
        Self {
            incoming: budget.share(INCOMING_BYTES),
            // Large reservations may only use three quarters of a share; the limit on catalogs itself is exact.
            catalogs: budget.share(limits.catalog_bytes.saturating_mul(2)),
            calls: budget.share(CALL_BYTES),
            callers: Mutex::default(),
        }
    }

    /// Returns the budget of a caller's calls.
    pub(crate) fn for_caller(&self, caller: &Caller) -> MemoryBudget {
        let mut callers = self.callers.lock();
        if callers.len() >= MAX_CALLERS {
            callers.retain(|_, share| share.reserved() > 0);
        }
        let share = || self.calls.share(CALL_BYTES_PER_CALLER);
        callers.entry(caller.clone()).or_insert_with(share).clone()
    }

    /// Reserves memory for a message of the host itself.
    pub(super) fn reserve_for_host(&self, bytes: usize) -> Result<Reservation, OverBudget> {
        self.calls.try_reserve(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_caller_cannot_use_the_share_of_another() {
        let memory = MemoryShares::new(&MemoryBudget::default(), &MdpLimits::default());
        let user = |key: &[u8]| {
            let owner = "ann".parse().unwrap();
            Caller::User(skills_core::User { owner, key: skills_core::Digest::of(key) })
        };
        let one = memory.for_caller(&user(b"1"));
        let mut counts = Vec::new();
        while let Ok(reservation) = one.try_reserve(4 << 20) {
            counts.push(reservation);
        }
        assert!(memory.for_caller(&user(b"1")).try_reserve(4 << 20).is_err(), "the same share");
        assert!(memory.for_caller(&user(b"2")).try_reserve(4 << 20).is_ok());
        for number in 0..2 * MAX_CALLERS {
            memory.for_caller(&user(&number.to_le_bytes()));
        }
        assert!(memory.callers.lock().len() <= MAX_CALLERS);
        assert!(memory.for_caller(&user(b"1")).try_reserve(4 << 20).is_err(), "not forgotten");
    }
}
