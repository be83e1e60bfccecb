//! Minimum transfer rates: of a client that sends a body, and of one that reads a response.
//!
//! The kernel ends a connection whose client reads nothing (`TCP_USER_TIMEOUT`). A client that reads a byte now and then
//! would hold the memory of a response for ever; the write deadline ends that.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::time::{Instant, Sleep, sleep_until};

/// Timeout that transferred bytes extend.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MinRate {
    within: Duration,
    bytes_per_second: usize,
}

impl MinRate {
    pub(crate) fn new(within: Duration, bytes_per_second: usize) -> Self {
        Self { within, bytes_per_second: bytes_per_second.max(1) }
    }

    /// Returns the time by which more bytes have to follow after `bytes` of them.
    pub(crate) fn deadline(&self, start: Instant, bytes: usize) -> Instant {
        let millis = bytes.saturating_mul(1000) / self.bytes_per_second;
        start + self.within + Duration::from_millis(millis as u64)
    }
}

/// Deadline for the writes of one connection. It runs only while the socket buffer is full, so it does not affect an
/// idle stream.
#[derive(Debug)]
pub(crate) struct WriteDeadline {
    rate: MinRate,
    /// Bytes written since the last flush.
    written: usize,
    /// Time at which the socket buffer was first full since then, and the timer of the deadline.
    full: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl WriteDeadline {
    pub(crate) fn new(rate: MinRate) -> Self {
        Self { rate, written: 0, full: None }
    }

    /// Passes on the result of a write, or fails when the client reads too slowly.
    pub(crate) fn check(
        &mut self,
        context: &mut Context<'_>,
        outcome: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match outcome {
            Poll::Ready(Ok(bytes)) => self.written = self.written.saturating_add(bytes),
            Poll::Ready(Err(_)) => {}
            Poll::Pending => {
                let (start, timer) = self.full.get_or_insert_with(|| {
                    let now = Instant::now();
                    (now, Box::pin(sleep_until(self.rate.deadline(now, self.written))))
                });
                let deadline = self.rate.deadline(*start, self.written);
                if timer.deadline() != deadline {
                    timer.as_mut().reset(deadline);
                }
                ready!(timer.as_mut().poll(context));
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
        }
        outcome
    }

    /// Restarts the deadline after everything was written.
    pub(crate) fn reset(&mut self) {
        self.written = 0;
        self.full = None;
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::time::{sleep, timeout};

    use super::*;

    const WITHIN: Duration = Duration::from_secs(30);

    fn deadline() -> WriteDeadline {
        WriteDeadline::new(MinRate::new(WITHIN, 100))
    }

    async fn is_over_within(deadline: &mut WriteDeadline, time: Duration) -> bool {
        timeout(time, poll_fn(|context| deadline.check(context, Poll::Pending))).await.is_ok()
    }

    async fn write(deadline: &mut WriteDeadline, bytes: usize) {
        poll_fn(|context| deadline.check(context, Poll::Ready(Ok(bytes)))).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_a_byte_now_and_then_times_out() {
        let mut deadline = deadline();
        assert!(!is_over_within(&mut deadline, Duration::from_secs(20)).await);
        write(&mut deadline, 1).await;
        assert!(is_over_within(&mut deadline, Duration::from_secs(20)).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_fast_enough_does_not_time_out() {
        let mut deadline = deadline();
        for _ in 0..100 {
            assert!(!is_over_within(&mut deadline, Duration::from_secs(20)).await);
            write(&mut deadline, 2000).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_stream_does_not_time_out() {
        let mut deadline = deadline();
        for _ in 0..100 {
            assert!(!is_over_within(&mut deadline, Duration::from_secs(1)).await);
            write(&mut deadline, 1).await;
            deadline.reset();
            sleep(2 * WITHIN).await;
        }
    }
}
