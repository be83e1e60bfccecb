//! Wake-up signal for the thread of the search index.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};
use skills_core::Layer;

/// Limits of the pause between two updates of the index. The pause is four times that of the last update, so that the
/// index takes at most a fifth of the time while writes go on. A search that waits for the next update ends it.
const MIN_PAUSE: Duration = Duration::from_millis(50);
const MAX_PAUSE: Duration = Duration::from_millis(500);

/// State of the signal.
#[derive(Debug, Default)]
struct SignalState {
    is_raised: bool,
    /// A search waits for the next update.
    is_urgent: bool,
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
    /// Makes the indexer update the index, soon.
    pub(crate) fn raise(&self) {
        if !std::mem::replace(&mut self.state.lock().is_raised, true) {
            self.changed.notify_one();
        }
    }

    /// Makes the indexer carry out an update that is due at once.
    pub(super) fn hurry(&self) {
        self.state.lock().is_urgent = true;
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

    /// Waits until the next update is due, after one that took a time. Returns whether to go on.
    pub(super) fn wait(&self, update: Duration) -> bool {
        let pause_ends = Instant::now() + (update * 4).clamp(MIN_PAUSE, MAX_PAUSE);
        let mut state = self.state.lock();
        while !state.is_closed {
            if !state.is_raised {
                self.changed.wait(&mut state);
            } else if state.is_urgent || Instant::now() >= pause_ends {
                break;
            } else {
                self.changed.wait_until(&mut state, pause_ends);
            }
        }
        (state.is_raised, state.is_urgent) = (false, false);
        !state.is_closed
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, thread};

    use super::*;

    /// Raises the signal on another thread once this one waits.
    fn raise_later(signal: &Arc<IndexSignal>) -> thread::JoinHandle<()> {
        let signal = Arc::clone(signal);
        thread::spawn(move || signal.raise())
    }

    #[test]
    fn changes_shortly_after_an_update_wait_for_the_end_of_the_pause() {
        let signal = Arc::new(IndexSignal::default());
        let started = Instant::now();
        let raiser = raise_later(&signal);
        assert!(signal.wait(Duration::ZERO));
        assert!(started.elapsed() >= MIN_PAUSE);
        raiser.join().unwrap();
    }

    #[test]
    fn a_search_ends_the_pause() {
        let signal = Arc::new(IndexSignal::default());
        signal.hurry();
        let state = || {
            let state = signal.state.lock();
            (state.is_raised, state.is_urgent)
        };
        assert_eq!(state(), (false, true), "there is nothing to index yet");
        let raiser = raise_later(&signal);
        assert!(signal.wait(Duration::ZERO));
        assert_eq!(state(), (false, false));
        raiser.join().unwrap();
    }

    #[test]
    fn closing_ends_every_wait() {
        let signal = IndexSignal::default();
        signal.raise();
        signal.close();
        assert!(!signal.wait(Duration::ZERO));
    }
}
