//! Memory budget: one process-wide bound on the bytes that requests of untrusted clients may hold.
//!
//! A request reserves what it may cost before it is parsed, grows its reservation before it builds an answer, and gives
//! everything back when the reservation is dropped. Nothing waits here: a request over the budget is refused at once,
//! and the surface maps [`OverBudget`] to its own form of `overloaded`.
//!
//! Two rules keep one client from taking everything: the last quarter of a budget is for small reservations, and a
//! [share](MemoryBudget::share) bounds what is reserved on behalf of one client.
//!
//! Connections are not in the budget: their number and their buffers are bounded by the listener.

use std::{
    any::Any,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use crate::work::WorkAccount;

/// Capacity of the process's budget. Twice this figure above idle is the aim for the whole process: the other half is
/// for the buffers of connections, for caches, and for what the allocator keeps of freed memory.
pub const CAPACITY: usize = 256 << 20;

/// Reservations up to this size may use the last quarter of a budget.
pub const SMALL: usize = 1 << 20;

/// The budget is spent; the same request may pass a moment later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the server is busy with other requests that need much memory")]
pub struct OverBudget;

/// Shared byte counter with a capacity. Clones are handles to the same counter.
#[derive(Debug, Clone)]
pub struct MemoryBudget(Arc<Counter>);

#[derive(Debug)]
struct Counter {
    capacity: usize,
    reserved: AtomicUsize,
    /// Bytes that large reservations may have.
    for_large: usize,
    /// Budget of which this one is a share.
    parent: Option<MemoryBudget>,
}

impl Counter {
    fn new(capacity: usize, for_large: usize, parent: Option<MemoryBudget>) -> Self {
        Self { capacity, reserved: AtomicUsize::new(0), for_large, parent }
    }

    fn take(&self, held: usize, more: usize) -> Result<(), OverBudget> {
        let is_small = held.saturating_add(more) <= SMALL;
        let limit = if is_small { self.capacity } else { self.for_large };
        let grow = |now: usize| now.checked_add(more).filter(|total| *total <= limit);
        let grown = self.reserved.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grow);
        grown.map_err(|_| OverBudget)?;
        if let Some(parent) = &self.parent {
            parent.0.take(held, more).inspect_err(|_| {
                self.reserved.fetch_sub(more, Ordering::Relaxed);
            })?;
        }
        Ok(())
    }

    fn give_back(&self, bytes: usize) {
        self.reserved.fetch_sub(bytes, Ordering::Relaxed);
        if let Some(parent) = &self.parent {
            parent.0.give_back(bytes);
        }
    }
}

impl Default for MemoryBudget {
    /// Budget of [`CAPACITY`] bytes.
    fn default() -> Self {
        Self::new(CAPACITY)
    }
}

/// Settings that hold a budget compare by its capacity, not by what is reserved.
impl PartialEq for MemoryBudget {
    fn eq(&self, other: &Self) -> bool {
        self.0.capacity == other.0.capacity
    }
}

impl Eq for MemoryBudget {}

impl MemoryBudget {
    /// Budget of `capacity` bytes, all of them free.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self(Arc::new(Counter::new(capacity, capacity - capacity / 4, None)))
    }

    /// Part of this budget with a bound of its own: what is reserved there is reserved here too.
    #[must_use]
    pub fn share(&self, capacity: usize) -> Self {
        Self(Arc::new(Counter::new(capacity, capacity - capacity / 4, Some(self.clone()))))
    }

    /// Part of this budget as [`share`](Self::share) returns, all of which large reservations may have.
    #[must_use]
    pub fn share_for_all_sizes(&self, capacity: usize) -> Self {
        Self(Arc::new(Counter::new(capacity, capacity, Some(self.clone()))))
    }

    /// Reserves `bytes` until the reservation is dropped.
    ///
    /// # Errors
    /// When less than `bytes` is free.
    pub fn try_reserve(&self, bytes: usize) -> Result<Reservation, OverBudget> {
        let mut reservation = self.reservation();
        reservation.try_grow(bytes)?;
        Ok(reservation)
    }

    /// Returns a reservation of no bytes, which can grow.
    #[must_use]
    pub fn reservation(&self) -> Reservation {
        Reservation { budget: self.clone(), bytes: 0 }
    }

    /// Bytes that can be reserved at most.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.0.capacity
    }

    /// Bytes of the capacity that are not reserved now.
    #[must_use]
    pub fn free(&self) -> usize {
        self.capacity().saturating_sub(self.reserved())
    }

    /// Bytes that are reserved now.
    #[must_use]
    pub fn reserved(&self) -> usize {
        self.0.reserved.load(Ordering::Relaxed)
    }
}

/// Part of a [`MemoryBudget`], given back on drop.
#[derive(Debug)]
pub struct Reservation {
    budget: MemoryBudget,
    bytes: usize,
}

impl Reservation {
    /// Bytes that this reservation holds.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds `more` bytes to the reservation. It is unchanged when they are not free.
    ///
    /// # Errors
    /// When less than `more` is free.
    pub fn try_grow(&mut self, more: usize) -> Result<(), OverBudget> {
        self.budget.0.take(self.bytes, more)?;
        self.bytes += more;
        Ok(())
    }

    /// Moves up to `bytes` of the reservation into one of their own.
    #[must_use]
    pub fn split(&mut self, bytes: usize) -> Self {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Self { budget: self.budget.clone(), bytes }
    }

    /// Gives back all but `bytes`. A reservation that is smaller stays as it is.
    pub fn shrink_to(&mut self, bytes: usize) {
        let freed = self.bytes.saturating_sub(bytes);
        if freed > 0 {
            self.bytes -= freed;
            self.budget.0.give_back(freed);
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

/// Reservation for bytes that several responses send at once, such as a cached archive. The first response reserves
/// them from its client's share; the others hold the same reservation. Clones are handles to the same bytes.
///
/// A surface stores one beside the bytes and adds a clone to the extensions of each response that sends them.
#[derive(Debug, Clone, Default)]
pub struct SharedReservation(Arc<Mutex<Weak<Reservation>>>);

impl SharedReservation {
    /// Reserves `bytes` from `budget`, unless another response holds them already.
    ///
    /// # Errors
    /// When they have to be reserved and less is free.
    pub fn hold(
        &self,
        budget: &MemoryBudget,
        bytes: usize,
    ) -> Result<Arc<Reservation>, OverBudget> {
        let mut current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(reservation) = current.upgrade() {
            return Ok(reservation);
        }
        let reservation = Arc::new(budget.try_reserve(bytes)?);
        *current = Arc::downgrade(&reservation);
        Ok(reservation)
    }
}

/// Reservation and permit of one request. The listener creates it, adds it to the request's extensions, and keeps it
/// until the answer is sent; surfaces grow it before they build a large answer. A handler that goes on after its client
/// has disconnected holds a clone, and with it both. Clones are handles to the same request.
#[derive(Debug, Clone)]
pub struct RequestBudget(Arc<RequestState>);

#[derive(Debug)]
struct RequestState {
    account: WorkAccount,
    resources: Mutex<Resources>,
    is_refused: AtomicBool,
}

#[derive(Debug)]
struct Resources {
    reservation: Reservation,
    permit: Option<Permit>,
}

/// Right to be worked on, given back on drop. The listener knows of what kind it is.
type Permit = Box<dyn Any + Send + Sync>;

impl RequestBudget {
    /// Creates the budget of a request of an account, with what the account has reserved for it already.
    #[must_use]
    pub fn new(account: WorkAccount, reservation: Reservation) -> Self {
        let resources = Mutex::new(Resources { reservation, permit: None });
        Self(Arc::new(RequestState { account, resources, is_refused: AtomicBool::new(false) }))
    }

    /// Creates the budget of a request of a process with one client, which may use all of a memory budget.
    #[must_use]
    pub fn with_memory(memory: &MemoryBudget) -> Self {
        Self::new(WorkAccount::with_memory(memory.clone()), memory.reservation())
    }

    /// Adds a permit, which is dropped by [`drop_permit`](Self::drop_permit) or with the last clone.
    #[must_use]
    pub fn with_permit(self, permit: impl Any + Send + Sync) -> Self {
        self.resources(|resources| resources.permit = Some(Box::new(permit)));
        self
    }

    /// Gives back the permit: the head of the answer is there.
    pub fn drop_permit(&self) {
        drop(self.resources(|resources| resources.permit.take()));
    }

    /// Returns the account of the client: the same for all requests of one credential, or of one address without one.
    #[must_use]
    pub fn account(&self) -> &WorkAccount {
        &self.0.account
    }

    fn resources<T>(&self, change: impl FnOnce(&mut Resources) -> T) -> T {
        change(&mut self.0.resources.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn with<T>(&self, change: impl FnOnce(&mut Reservation) -> T) -> T {
        self.resources(|resources| change(&mut resources.reservation))
    }

    /// Adds `more` bytes to what the request holds.
    ///
    /// # Errors
    /// When less than `more` is free. The request then [is refused](Self::is_refused).
    pub fn try_grow(&self, more: usize) -> Result<(), OverBudget> {
        let grown = self.with(|reservation| reservation.try_grow(more));
        grown.inspect_err(|_| self.refuse())
    }

    /// Marks the request as one that was refused memory, such as from its [share](Self::share).
    pub fn refuse(&self) {
        self.0.is_refused.store(true, Ordering::Relaxed);
    }

    /// Returns whether a surface was refused memory. The answer to the request is then `overloaded`, whatever the
    /// surface made of the refusal.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.0.is_refused.load(Ordering::Relaxed)
    }

    /// Makes the reservation exactly `bytes`.
    ///
    /// # Errors
    /// When it has to grow and less is free.
    pub fn resize(&self, bytes: usize) -> Result<(), OverBudget> {
        self.with(|reservation| {
            reservation.shrink_to(bytes);
            reservation.try_grow(bytes - reservation.bytes())
        })
    }

    /// Bytes that the request holds.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.with(|reservation| reservation.bytes())
    }

    /// The client's share of the budget, for what outlives the request.
    #[must_use]
    pub fn share(&self) -> MemoryBudget {
        self.0.account.memory().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reservation_over_the_capacity_is_refused_and_changes_nothing() {
        let budget = MemoryBudget::new(100);
        let mut first = budget.try_reserve(60).unwrap();
        assert_eq!(budget.try_reserve(41).unwrap_err(), OverBudget);
        assert_eq!(first.try_grow(41), Err(OverBudget));
        assert_eq!(first.try_grow(usize::MAX), Err(OverBudget));
        assert_eq!((budget.reserved(), first.bytes()), (60, 60));
        first.try_grow(40).unwrap();
        assert_eq!(budget.reserved(), 100);
    }

    #[test]
    fn bytes_are_given_back_on_shrink_and_on_drop() {
        let budget = MemoryBudget::new(100);
        let mut first = budget.try_reserve(80).unwrap();
        first.shrink_to(200);
        assert_eq!(budget.reserved(), 80);
        first.shrink_to(30);
        let second = budget.try_reserve(70).unwrap();
        assert_eq!(budget.reserved(), 100);
        drop((first, second));
        assert_eq!(budget.reserved(), 0);
    }

    #[test]
    fn a_part_of_a_reservation_is_given_back_on_its_own() {
        let budget = MemoryBudget::new(100);
        let mut whole = budget.try_reserve(60).unwrap();
        let part = whole.split(40);
        assert_eq!((whole.bytes(), part.bytes(), budget.reserved()), (20, 40, 60));
        drop(whole);
        assert_eq!(budget.reserved(), 40);
        let mut part = part;
        assert_eq!(part.split(41).bytes(), 40, "no more than there is");
        assert_eq!((part.bytes(), budget.reserved()), (0, 0));
    }

    #[test]
    fn the_last_quarter_is_for_small_reservations() {
        let budget = MemoryBudget::new(8 * SMALL);
        let mut large = budget.try_reserve(6 * SMALL).unwrap();
        assert_eq!(large.try_grow(1), Err(OverBudget));
        assert_eq!(budget.try_reserve(SMALL + 1).unwrap_err(), OverBudget);
        let _small = budget.try_reserve(SMALL).unwrap();
    }

    #[test]
    fn a_share_is_bounded_by_itself_and_by_its_parent() {
        let budget = MemoryBudget::new(100);
        let (one, other) = (budget.share(60), budget.share(60));
        let first = one.try_reserve(50).unwrap();
        assert_eq!(one.try_reserve(11).unwrap_err(), OverBudget);
        assert_eq!(other.try_reserve(51).unwrap_err(), OverBudget);
        assert_eq!((budget.reserved(), one.reserved(), other.reserved()), (50, 50, 0));
        drop(first);
        assert_eq!((budget.reserved(), one.reserved()), (0, 0));
    }

    #[test]
    fn a_request_is_resized_in_both_directions() {
        let budget = MemoryBudget::new(100);
        let account = WorkAccount::with_memory(budget.clone());
        let request = RequestBudget::new(account, budget.try_reserve(60).unwrap());
        request.resize(10).unwrap();
        request.try_grow(20).unwrap();
        assert_eq!((request.bytes(), budget.reserved()), (30, 30));
        assert_eq!(request.resize(101), Err(OverBudget));
        drop(request);
        assert_eq!(budget.reserved(), 0);
    }

    #[test]
    fn bytes_that_several_responses_send_are_reserved_once() {
        let (budget, archive) = (MemoryBudget::new(100), SharedReservation::default());
        let responses: Vec<_> = (0..9).map(|_| archive.hold(&budget, 60).unwrap()).collect();
        assert_eq!(budget.reserved(), 60);
        assert!(SharedReservation::default().hold(&budget, 60).is_err());
        drop(responses);
        assert_eq!(budget.reserved(), 0);
        let _again = archive.hold(&budget, 60).unwrap();
        assert_eq!(budget.reserved(), 60);
    }

    #[test]
    fn a_permit_is_held_until_it_is_given_back_or_the_last_clone_is_gone() {
        let (budget, permit) = (MemoryBudget::new(100), Arc::new(()));
        let request = || {
            let account = WorkAccount::with_memory(budget.clone());
            let request = RequestBudget::new(account, budget.try_reserve(60).unwrap());
            request.with_permit(Arc::clone(&permit))
        };
        let first = request();
        let handler = first.clone();
        drop(first);
        assert_eq!((Arc::strong_count(&permit), budget.reserved()), (2, 60));
        drop(handler);
        assert_eq!((Arc::strong_count(&permit), budget.reserved()), (1, 0));
        let second = request();
        second.drop_permit();
        assert_eq!((Arc::strong_count(&permit), budget.reserved()), (1, 60));
    }
}
