//! Limit on the size of an incoming message, and its memory reservation while it arrives. The limit is small until a
//! client is authenticated, and holds for all its messages together until then. It counts bytes, not frames: a frame announces its length, and its reader waits for all of
//! it.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use parking_lot::Mutex;
use skills_core::Reservation;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::Instant,
};

/// Bytes of a message that need no reservation: the buffer of an idle connection.
const UNRESERVED_BYTES: usize = 8 << 10;

/// Reason for which reading has stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadStop {
    /// The message is too large.
    TooLarge,
    /// The memory budget is exhausted.
    Overloaded,
}

/// Returns the current maximum size of a message; evaluated on every read.
type MaxBytes = Box<dyn Fn() -> usize + Send>;

struct State {
    max_bytes: MaxBytes,
    /// Bytes of the current message, and before authentication of all messages.
    read: usize,
    /// Start of the current message.
    started_at: Option<Instant>,
    reserved: Reservation,
    stopped: Option<ReadStop>,
}

/// Limit of one connection, shared by its stream and its reader.
#[derive(Clone)]
pub(super) struct MessageLimit(Arc<Mutex<State>>);

impl MessageLimit {
    pub(super) fn new(
        reserved: Reservation,
        max_bytes: impl Fn() -> usize + Send + 'static,
    ) -> Self {
        let max_bytes = Box::new(max_bytes);
        let state = State { max_bytes, read: 0, started_at: None, reserved, stopped: None };
        Self(Arc::new(Mutex::new(state)))
    }

    /// Starts the next message after one is complete. Until a client is authenticated, the limit counts all of its
    /// messages together: many small ones cost as much as a large one.
    pub(super) fn start_message(&self, is_authenticated: bool) {
        let mut state = self.0.lock();
        state.started_at = None;
        state.reserved.shrink_to(0);
        if is_authenticated {
            state.read = 0;
        }
    }

    /// Returns the reason for which reading has stopped.
    pub(super) fn stop_reason(&self) -> Option<ReadStop> {
        self.0.lock().stopped
    }

    /// Returns whether a message with reserved memory has taken longer than the timeout.
    pub(super) fn is_overdue(&self, timeout: Duration) -> bool {
        let state = self.0.lock();
        state.reserved.bytes() > 0
            && state.started_at.is_some_and(|start| start.elapsed() >= timeout)
    }

    /// Lifts the limit, for a reader that drops what it reads.
    fn lift(&self) {
        let mut state = self.0.lock();
        state.max_bytes = Box::new(|| usize::MAX);
        state.stopped = None;
        state.read = 0;
        state.reserved.shrink_to(0);
    }
}

impl State {
    fn count(&mut self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        self.started_at.get_or_insert_with(Instant::now);
        self.read = self.read.saturating_add(bytes);
        // A buffer that grows is copied into one twice as large.
        let wanted = self.read.saturating_sub(UNRESERVED_BYTES).saturating_mul(2);
        let more = wanted.saturating_sub(self.reserved.bytes());
        if self.read > (self.max_bytes)() {
            self.stopped = Some(ReadStop::TooLarge);
        } else if more > 0 && self.reserved.try_grow(more).is_err() {
            self.stopped = Some(ReadStop::Overloaded);
        }
    }
}

/// Byte stream with a limit on incoming messages.
pub(super) struct LimitedStream<S> {
    io: S,
    limit: MessageLimit,
    is_lifted: bool,
}

impl<S> LimitedStream<S> {
    pub(super) const fn new(io: S, limit: MessageLimit) -> Self {
        Self { io, limit, is_lifted: false }
    }

    /// Lifts the limit, for a reader that drops what it reads.
    pub(super) fn lift(&mut self) {
        self.limit.lift();
        self.is_lifted = true;
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for LimitedStream<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { io, limit, is_lifted } = self.get_mut();
        if *is_lifted {
            return Pin::new(io).poll_read(context, buffer);
        }
        // Checked before a read, so a message may exceed the limit by the size of one read.
        if limit.0.lock().stopped.is_some() {
            return Poll::Ready(Err(io::ErrorKind::FileTooLarge.into()));
        }
        let before = buffer.filled().len();
        let polled = Pin::new(io).poll_read(context, buffer);
        limit.0.lock().count(buffer.filled().len() - before);
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for LimitedStream<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().io).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_shutdown(context)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().io).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use skills_core::MemoryBudget;
    use tokio::io::AsyncReadExt as _;

    use super::*;

    fn limited(
        budget: &MemoryBudget,
        limit: usize,
    ) -> (LimitedStream<&'static [u8]>, MessageLimit) {
        let message_limit = MessageLimit::new(budget.try_reserve(0).unwrap(), move || limit);
        (LimitedStream::new([0; 64 << 10].as_slice(), message_limit.clone()), message_limit)
    }

    #[tokio::test]
    async fn memory_is_reserved_until_a_message_is_complete() {
        let budget = MemoryBudget::default();
        let (mut stream, message_limit) = limited(&budget, 1 << 20);
        stream.read_exact(&mut [0; UNRESERVED_BYTES]).await.unwrap();
        assert_eq!(budget.reserved(), 0);
        stream.read_exact(&mut [0; UNRESERVED_BYTES]).await.unwrap();
        assert_eq!(budget.reserved(), 2 * UNRESERVED_BYTES);
        assert!(message_limit.is_overdue(Duration::ZERO));
        message_limit.start_message(true);
        assert_eq!(budget.reserved(), 0);
        assert!(!message_limit.is_overdue(Duration::ZERO));
    }

    #[tokio::test]
    async fn messages_before_authentication_count_together() {
        let budget = MemoryBudget::default();
        let (mut stream, message_limit) = limited(&budget, 2 * UNRESERVED_BYTES);
        let mut message = [0; UNRESERVED_BYTES];
        for is_authenticated in [true, true, false, false, false] {
            stream.read_exact(&mut message).await.unwrap();
            message_limit.start_message(is_authenticated);
        }
        assert_eq!(message_limit.stop_reason(), Some(ReadStop::TooLarge));
    }

    #[tokio::test]
    async fn reading_stops_at_the_message_limit_and_at_the_budget() {
        for (budget, limit, reason) in [
            (1 << 20, 2 * UNRESERVED_BYTES, ReadStop::TooLarge),
            (UNRESERVED_BYTES, 1 << 20, ReadStop::Overloaded),
        ] {
            let budget = MemoryBudget::new(budget);
            let (mut stream, message_limit) = limited(&budget, limit);
            let mut read = vec![];
            assert!(stream.read_to_end(&mut read).await.is_err());
            assert_eq!(message_limit.stop_reason(), Some(reason));
            stream.lift();
            assert!(stream.read_to_end(&mut read).await.is_ok());
        }
    }
}
