//! Executor that drives one future on the calling thread.
//!
//! Runtimes refuse to block inside each other. The futures here wait for channels that the pool's own thread serves, so
//! they need no runtime on the calling thread.

use std::{
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::Instant,
};

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future until it is ready or the deadline has passed. Returns `None` for the latter; the future is dropped.
pub(crate) fn block_on_until<T>(future: impl Future<Output = T>, deadline: Instant) -> Option<T> {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return Some(output);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return None;
        }
        thread::park_timeout(left);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_future_that_another_thread_wakes_is_finished() {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        thread::spawn(move || sender.send(7));
        let deadline = Instant::now() + Duration::from_secs(60);
        assert_eq!(block_on_until(receiver, deadline).unwrap().unwrap(), 7);
    }

    #[tokio::test]
    async fn it_works_inside_a_runtime_too() {
        let deadline = Instant::now() + Duration::from_secs(60);
        assert_eq!(block_on_until(async { 7 }, deadline), Some(7));
    }

    #[test]
    fn a_future_that_never_wakes_ends_at_the_deadline() {
        let deadline = Instant::now() + Duration::from_millis(20);
        assert!(block_on_until(std::future::pending::<()>(), deadline).is_none());
    }
}
