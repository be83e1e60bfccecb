//! Contract of stores that carry out batches concurrently, because each is a call over a network.
//!
//! A batch has two steps. The first stores it, on any thread and in any order. The second applies it to what the store
//! keeps in memory and assigns the revision. It runs on the writer thread, so that revisions, catalog and feed have one
//! order, which is that of the completions.

use std::sync::Arc;

use skills_core::Timestamp;

use crate::{Batch, BatchError, Change, Effect};

/// Second step of a batch. The writer thread calls it with the wall clock.
pub type FinishBatch = Box<dyn FnOnce(Timestamp) -> Result<Vec<Effect>, BatchError> + Send>;

/// Receiver of the second step of a batch. Dropping it reports that the outcome of the batch is unknown.
pub type BatchCallback = Box<dyn FnOnce(FinishBatch) + Send>;

/// Second step of a lookup. The writer thread calls it with the wall clock; it returns a difference to the known version.
pub type FinishLookup = Box<dyn FnOnce(Timestamp) -> Option<Change> + Send>;

/// Store that carries out batches concurrently.
pub trait ConcurrentStore: Send + Sync + 'static {
    /// Starts a batch and returns at once; `done` receives its second step when the outcome of the first is known. The
    /// writer thread starts a batch when the batches before it that write to the same entries are finished.
    fn start(self: Arc<Self>, batch: Batch, now: Timestamp, done: BatchCallback);
}
