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
/// Time after which texts are tried again that were not read because the store could not be reached.
const RETRY_PAUSE: Duration = Duration::from_secs(2);

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

/// Next step of an indexer that waits.
#[derive(Debug, PartialEq, Eq)]
enum NextStep {
    /// Sleep until the signal changes.
    Sleep,
    /// Sleep until the signal changes or the pause ends.
    SleepThroughPause,
    /// Update the index.
    Update,
    /// End.
    End,
}

impl SignalState {
    fn next_step(&self, is_pause_over: bool) -> NextStep {
        if self.is_closed {
            NextStep::End
        } else if !self.is_raised {
            NextStep::Sleep
        } else if self.is_urgent || is_pause_over {
            NextStep::Update
        } else {
            NextStep::SleepThroughPause
        }
    }
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
    pub(crate) fn take_purged(&self) -> BTreeSet<Layer> {
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

    /// Waits until the next update is due, after one that took a time. If it left texts unread, one is due in any case
    /// after a while. Returns whether to go on.
    pub(super) fn wait(&self, update: Duration, has_unread: bool) -> bool {
        let pause = (update * 4).clamp(MIN_PAUSE, MAX_PAUSE);
        self.wait_after(pause, has_unread.then_some(RETRY_PAUSE))
    }

    /// Waits until the next update is due: after a pause at the earliest, and after `retry` at the latest. Returns whether to
    /// go on.
    fn wait_after(&self, pause: Duration, retry: Option<Duration>) -> bool {
        let now = Instant::now();
        let (pause_ends, retry_at) = (now + pause, retry.map(|retry| now + retry));
        let mut state = self.state.lock();
        loop {
            match state.next_step(Instant::now() >= pause_ends) {
                NextStep::Sleep => match retry_at {
                    Some(at) if self.changed.wait_until(&mut state, at).timed_out() => break,
                    Some(_) => {}
                    None => self.changed.wait(&mut state),
                },
                NextStep::SleepThroughPause => {
                    self.changed.wait_until(&mut state, pause_ends);
                }
                NextStep::Update => break,
                NextStep::End => return false,
            }
        }
        (state.is_raised, state.is_urgent) = (false, false);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, thread};

    use super::*;

    /// Pause that no test outlives.
    const ENDLESS: Duration = Duration::from_secs(24 * 60 * 60);

    fn flags(signal: &IndexSignal) -> (bool, bool) {
        let state = signal.state.lock();
        (state.is_raised, state.is_urgent)
    }

    #[test]
    fn changes_shortly_after_an_update_wait_for_the_end_of_the_pause() {
        let signal = IndexSignal::default();
        let next_step = |is_pause_over| signal.state.lock().next_step(is_pause_over);
        assert_eq!([false, true].map(next_step), [NextStep::Sleep, NextStep::Sleep]);
        signal.raise();
        assert_eq!([false, true].map(next_step), [NextStep::SleepThroughPause, NextStep::Update]);
        assert!(signal.wait_after(Duration::ZERO, None));
        assert_eq!(next_step(true), NextStep::Sleep, "the change is indexed");
    }

    #[test]
    fn a_search_ends_the_pause() {
        let signal = Arc::new(IndexSignal::default());
        signal.raise();
        let waiting = Arc::clone(&signal);
        let indexer = thread::spawn(move || waiting.wait_after(ENDLESS, None));
        signal.hurry();
        assert!(indexer.join().unwrap());
        assert_eq!(flags(&signal), (false, false));
    }

    #[test]
    fn a_search_without_changes_waits_for_the_next_change() {
        let signal = Arc::new(IndexSignal::default());
        signal.hurry();
        assert_eq!(flags(&signal), (false, true), "there is nothing to index yet");
        assert_eq!(signal.state.lock().next_step(true), NextStep::Sleep);
        let waiting = Arc::clone(&signal);
        let indexer = thread::spawn(move || waiting.wait_after(ENDLESS, None));
        signal.raise();
        assert!(indexer.join().unwrap());
        assert_eq!(flags(&signal), (false, false));
    }

    #[test]
    fn closing_ends_every_wait() {
        let signal = IndexSignal::default();
        signal.raise();
        signal.close();
        assert!(!signal.wait_after(ENDLESS, None));
    }

    #[test]
    fn texts_that_were_not_read_are_tried_again_without_a_change() {
        let signal = IndexSignal::default();
        assert!(signal.wait_after(ENDLESS, Some(Duration::ZERO)));
    }
}
