//! Debounce: events close to each other become one.

use std::time::Duration;

use futures_util::{FutureExt as _, Stream, StreamExt as _};
use tokio::time::{Instant, sleep_until};

/// Most events that are taken after the wait, so that a burst without end ends too.
const MAX_READY: usize = 10_000;

/// Debounce of a stream of events.
#[derive(Debug, Clone, Copy)]
pub struct Debounce {
    quiet: Duration,
    max_wait: Duration,
}

impl Debounce {
    /// Creates a debounce that waits for `window` after the first event, whether or not more follow.
    #[must_use]
    pub const fn window(window: Duration) -> Self {
        Self { quiet: window, max_wait: window }
    }

    /// Creates a debounce that waits until no event came for `quiet`, but no longer than `max_wait`.
    #[must_use]
    pub const fn until_quiet(quiet: Duration, max_wait: Duration) -> Self {
        Self { quiet, max_wait }
    }

    /// Takes the events that follow a first one: those of the wait, then those that are ready already.
    ///
    /// Returns `None` when the stream ended meanwhile. Events that were taken stay taken when the future is dropped.
    pub async fn collect<S>(self, events: &mut S, mut take: impl FnMut(S::Item)) -> Option<()>
    where
        S: Stream + Unpin,
    {
        let end = Instant::now() + self.max_wait;
        loop {
            let quiet_at = (Instant::now() + self.quiet).min(end);
            tokio::select! {
                // Polled first, so that a burst without end does not extend the wait.
                biased;
                () = sleep_until(quiet_at) => break,
                event = events.next() => take(event?),
            }
        }
        for _ in 0..MAX_READY {
            match events.next().now_or_never() {
                Some(event) => take(event?),
                None => break,
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use futures_util::stream;
    use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn events(receiver: UnboundedReceiver<u32>) -> impl Stream<Item = u32> + Unpin {
        stream::unfold(receiver, |mut receiver| async {
            let next = receiver.recv().await?;
            Some((next, receiver))
        })
        .boxed()
    }

    #[tokio::test]
    async fn events_within_the_window_are_taken_together() {
        let debounce = Debounce::window(Duration::from_millis(5));
        let (sender, receiver) = unbounded_channel();
        let mut events = events(receiver);
        for number in 0..3 {
            sender.send(number).unwrap();
        }
        let mut taken = vec![];
        assert_eq!(debounce.collect(&mut events, |event| taken.push(event)).await, Some(()));
        assert_eq!(taken, [0, 1, 2]);

        sender.send(3).unwrap();
        drop(sender);
        assert_eq!(debounce.collect(&mut events, |event| taken.push(event)).await, None);
        assert_eq!(taken, [0, 1, 2, 3]);
    }

    /// Collects for a paused clock, with an event every `interval`; returns the time that it took.
    async fn collect_every(interval: Duration, debounce: Debounce) -> Duration {
        let ticks = stream::repeat(()).then(|()| tokio::time::sleep(interval));
        let started = Instant::now();
        debounce.collect(&mut Box::pin(ticks), drop).await.unwrap();
        started.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn the_wait_ends_when_it_is_quiet_and_at_its_maximum() {
        let ms = Duration::from_millis;
        let until_quiet = Debounce::until_quiet(ms(75), SECOND);
        for (name, interval, debounce, expected) in [
            ("quiet at once", SECOND * 9, until_quiet, ms(75)),
            ("never quiet", ms(50), until_quiet, SECOND),
            ("fixed window, never quiet", ms(2), Debounce::window(ms(5)), ms(5)),
        ] {
            let waited = collect_every(interval, debounce).await;
            assert!(waited >= expected && waited < expected + ms(3), "{name}: {waited:?}");
        }
    }
}
