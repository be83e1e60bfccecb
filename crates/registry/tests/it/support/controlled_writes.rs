//! Concurrent writes of the [`FaultyStore`], which the test completes one by one.

use std::sync::{Arc, Mutex};

use skills_core::Timestamp;
use skills_store::{Batch, BatchCallback, ConcurrentStore, Store as _};

use super::FaultyStore;

/// Writes that were started and not taken by the test.
#[derive(Default)]
pub(super) struct ControlledWrites(Mutex<Vec<StartedWrite>>);

impl std::fmt::Debug for ControlledWrites {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ControlledWrites")
    }
}

/// A write that the store has started. Dropping it gives the write up.
pub(crate) struct StartedWrite {
    store: Arc<FaultyStore>,
    batch: Batch,
    done: BatchCallback,
}

impl StartedWrite {
    pub(crate) fn store(self) {
        self.finish(false);
    }

    /// Panics in the second step, after the change is in the log.
    pub(crate) fn store_and_panic(self) {
        self.finish(true);
    }

    fn finish(self, panics: bool) {
        let Self { store, batch, done } = self;
        done(Box::new(move |now| {
            let result = store.commit(vec![batch], now).unwrap().remove(0);
            assert!(!panics, "after the write");
            result
        }));
    }
}

impl FaultyStore {
    /// Creates a concurrent store that starts writes and waits for the test.
    pub(crate) fn controlled() -> Self {
        Self { controlled: Some(ControlledWrites::default()), ..Self::default() }
    }

    fn started_writes(&self) -> &Mutex<Vec<StartedWrite>> {
        &self.controlled.as_ref().expect("the store is not controlled").0
    }

    /// Waits until the registry has started this many writes, and takes them in order.
    pub(crate) async fn started<const N: usize>(&self) -> [StartedWrite; N] {
        while self.waiting() < N {
            tokio::task::yield_now().await;
        }
        let writes: Vec<_> = self.started_writes().lock().unwrap().drain(..N).collect();
        writes.try_into().unwrap_or_else(|_| unreachable!())
    }

    /// Returns the number of started writes that the test has not taken.
    pub(crate) fn waiting(&self) -> usize {
        self.started_writes().lock().unwrap().len()
    }
}

impl ConcurrentStore for FaultyStore {
    fn start(self: Arc<Self>, batch: Batch, _: Timestamp, done: BatchCallback) {
        let write = StartedWrite { store: Arc::clone(&self), batch, done };
        self.started_writes().lock().unwrap().push(write);
    }
}
