//! Wake-up signal for the thread of the search index.

use std::collections::BTreeSet;

use parking_lot::{Condvar, Mutex};
use skills_core::Layer;

/// State of the signal.
#[derive(Debug, Default)]
struct SignalState {
    is_raised: bool,
    is_closed: bool,
    /// Layers of which a text was purged.
    purged: BTreeSet<Layer>,
}

/// Signal that is raised by the writer thread and awaited by the indexer. Raising it never blocks for long.
#[derive(Debug, Default)]
pub(crate) struct IndexSignal {
    state: Mutex<SignalState>,
    changed: Condvar,
}

impl IndexSignal {
    /// Wakes the indexer.
    pub(crate) fn raise(&self) {
        self.state.lock().is_raised = true;
        self.changed.notify_one();
    }

    /// Makes the indexer drop texts from memory that a layer no longer has, when it is woken.
    pub(crate) fn purge(&self, layer: Layer) {
        self.state.lock().purged.insert(layer);
    }

    /// Takes the layers of which a text was purged.
    pub(super) fn take_purged(&self) -> BTreeSet<Layer> {
        std::mem::take(&mut self.state.lock().purged)
    }

    /// Ends the indexer.
    pub(crate) fn close(&self) {
        self.state.lock().is_closed = true;
        self.changed.notify_one();
    }

    /// Returns whether the indexer should end.
    pub(super) fn is_closed(&self) -> bool {
        self.state.lock().is_closed
    }

    /// Waits until the signal is raised and lowers it. Returns whether to go on.
    pub(super) fn wait(&self) -> bool {
        let mut state = self.state.lock();
        while !state.is_raised && !state.is_closed {
            self.changed.wait(&mut state);
        }
        state.is_raised = false;
        !state.is_closed
    }
}
