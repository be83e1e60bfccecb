//! Send queue of one session, bounded in bytes. It does not know what messages mean.

use std::{collections::VecDeque, ops::Deref, sync::Arc};

use parking_lot::Mutex;
use skills_core::Reservation;
use tokio::sync::Notify;

use crate::CloseReason;

/// Next output of a session.
#[derive(Debug, PartialEq, Eq)]
pub enum SessionOutput {
    /// Message to send.
    Message(QueuedMessage),
    /// End of the session.
    Close(CloseReason),
}

/// Text of a message taken from the queue. Its memory is reserved until it is dropped.
#[derive(Debug)]
pub struct QueuedMessage {
    text: String,
    _reserved: Reservation,
}

impl Deref for QueuedMessage {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl PartialEq for QueuedMessage {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for QueuedMessage {}

impl AsRef<[u8]> for QueuedMessage {
    fn as_ref(&self) -> &[u8] {
        self.text.as_bytes()
    }
}

impl QueuedMessage {
    /// Returns the message with text before and after it.
    #[must_use]
    pub fn wrapped(mut self, before: &str, after: &str) -> Self {
        self.text.insert_str(0, before);
        self.text.push_str(after);
        self
    }
}

/// Message in the queue. Many may share their second half, which is appended when the message is sent.
#[derive(Debug)]
pub(super) struct PendingMessage {
    pub(super) head: String,
    pub(super) tail: Option<Arc<str>>,
    /// Reservation of the whole message: once sent, it is as large as if nothing were shared.
    pub(super) reserved: Reservation,
    /// Number of the call that it belongs to.
    pub(super) call: Option<u64>,
}

impl PendingMessage {
    /// Memory of a message besides its text.
    const OVERHEAD: usize = 256;

    /// Returns the bytes to reserve for a message of two halves.
    pub(super) fn memory_size(head: &str, tail: Option<&str>) -> usize {
        head.len() + tail.map_or(0, str::len) + Self::OVERHEAD
    }

    fn bytes(&self) -> usize {
        self.head.len() + self.tail.as_deref().map_or(0, str::len)
    }

    fn into_text(self) -> QueuedMessage {
        let Self { head: mut text, tail, reserved, .. } = self;
        if let Some(tail) = tail {
            text.reserve_exact(tail.len());
            text.push_str(&tail);
        }
        QueuedMessage { text, _reserved: reserved }
    }
}

/// Reason for which a message was not queued.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum EnqueueError {
    /// The queue is full.
    Full,
    /// The session has ended.
    Ended,
}

#[derive(Debug, Default)]
struct State {
    messages: VecDeque<PendingMessage>,
    bytes: usize,
    closed: Option<CloseReason>,
}

#[derive(Debug)]
pub(super) struct Queue {
    state: Mutex<State>,
    ready: Notify,
    max_bytes: usize,
}

impl Queue {
    pub(super) fn new(max_bytes: usize) -> Self {
        Self { state: Mutex::default(), ready: Notify::new(), max_bytes }
    }

    /// Returns the capacity in bytes.
    pub(super) const fn max_bytes(&self) -> usize {
        self.max_bytes
    }

    /// Adds a message if there is room. A single message always fits; its size is limited elsewhere.
    pub(super) fn push(&self, message: PendingMessage) -> Result<(), EnqueueError> {
        let mut state = self.state.lock();
        if state.closed.is_some() {
            return Err(EnqueueError::Ended);
        }
        if !state.messages.is_empty() && state.bytes + message.bytes() > self.max_bytes {
            return Err(EnqueueError::Full);
        }
        state.bytes += message.bytes();
        state.messages.push_back(message);
        drop(state);
        self.ready.notify_one();
        Ok(())
    }

    /// Removes the message of a call that has ended, if it was not sent.
    pub(super) fn drop_call(&self, number: u64) {
        let mut state = self.state.lock();
        let index = state.messages.iter().position(|message| message.call == Some(number));
        if let Some(message) = index.and_then(|index| state.messages.remove(index)) {
            state.bytes -= message.bytes();
        }
    }

    /// Closes the queue: drops its messages and returns only the reason from now on. Later reasons are ignored.
    pub(super) fn close(&self, close: CloseReason) {
        let mut state = self.state.lock();
        let closed = state.closed.take().unwrap_or(close);
        *state = State { closed: Some(closed), ..State::default() };
        drop(state);
        self.ready.notify_one();
    }

    /// Takes the next output.
    pub(super) fn pop(&self) -> Option<SessionOutput> {
        let mut state = self.state.lock();
        if let Some(close) = &state.closed {
            return Some(SessionOutput::Close(close.clone()));
        }
        let message = state.messages.pop_front()?;
        state.bytes -= message.bytes();
        // The next reader need not wait for a message that is already there.
        if !state.messages.is_empty() {
            self.ready.notify_one();
        }
        drop(state);
        Some(SessionOutput::Message(message.into_text()))
    }

    /// Wakes a reader, even if the queue is empty.
    pub(super) fn wake(&self) {
        self.ready.notify_one();
    }

    /// Waits until [`pop`](Self::pop) may return an output.
    pub(super) async fn ready(&self) {
        self.ready.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use skills_core::MemoryBudget;

    use super::*;

    fn message(head: &str, call: Option<u64>, budget: &MemoryBudget) -> PendingMessage {
        let reserved = budget.try_reserve(PendingMessage::memory_size(head, None)).unwrap();
        PendingMessage { head: head.to_owned(), tail: None, reserved, call }
    }

    fn text(next: Option<SessionOutput>) -> String {
        match next {
            Some(SessionOutput::Message(message)) => message.to_string(),
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn the_queue_is_ordered_and_bounded() {
        let (queue, budget) = (Queue::new(4), MemoryBudget::default());
        let push = |text: &str| queue.push(message(text, None, &budget));
        assert_eq!(push("too large, but alone"), Ok(()));
        assert_eq!(push("b"), Err(EnqueueError::Full));
        queue.ready().await;
        assert_eq!(text(queue.pop()), "too large, but alone");
        for text in ["ab", "cd"] {
            assert_eq!(push(text), Ok(()), "{text}");
        }
        assert_eq!(push("e"), Err(EnqueueError::Full));
        assert_eq!(text(queue.pop()), "ab");
        queue.close(CloseReason::new(4000, "first"));
        queue.close(CloseReason::new(1001, "second"));
        assert_eq!(push("e"), Err(EnqueueError::Ended));
        queue.ready().await;
        assert_eq!(queue.pop(), Some(SessionOutput::Close(CloseReason::new(4000, "first"))));
        assert_eq!(queue.pop(), Some(SessionOutput::Close(CloseReason::new(4000, "first"))));
        assert_eq!(budget.reserved(), 0);
    }

    #[test]
    fn a_message_is_removed_with_its_call_and_releases_its_memory() {
        let (queue, budget) = (Queue::new(100), MemoryBudget::default());
        for (head, call) in [("one", Some(1)), ("ping", None), ("two", Some(2))] {
            queue.push(message(head, call, &budget)).unwrap();
        }
        let before = budget.reserved();
        queue.drop_call(1);
        queue.drop_call(7);
        assert!(budget.reserved() < before);
        assert_eq!([text(queue.pop()), text(queue.pop())], ["ping", "two"]);
        assert_eq!((queue.pop(), budget.reserved()), (None, 0));
    }

    #[test]
    fn messages_can_share_their_second_half() {
        let (queue, budget) = (Queue::new(100), MemoryBudget::default());
        let tail: Arc<str> = ",\"body\":1}".into();
        for head in ["{\"id\":1", "{\"id\":2"] {
            let shared =
                PendingMessage { tail: Some(Arc::clone(&tail)), ..message(head, None, &budget) };
            queue.push(shared).unwrap();
        }
        assert_eq!(Arc::strong_count(&tail), 3);
        assert_eq!(text(queue.pop()), "{\"id\":1,\"body\":1}");
        assert_eq!(text(queue.pop()), "{\"id\":2,\"body\":1}");
    }
}
