//! What waits for one session to take it: messages in order, bounded in bytes. It knows nothing of what they
//! mean.

use std::{collections::VecDeque, sync::Mutex};

use tokio::sync::Notify;

use super::lock;
use crate::Close;

/// What a session is given next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// A message.
    Message(String),
    /// Nothing more: it is over.
    Close(Close),
}

/// Why a message was not taken.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NotTaken {
    /// Too much waits already.
    Full,
    /// It is over.
    Ended,
}

#[derive(Debug, Default)]
struct State {
    messages: VecDeque<String>,
    bytes: usize,
    closed: Option<Close>,
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

    /// How many bytes may wait.
    pub(super) const fn max_bytes(&self) -> usize {
        self.max_bytes
    }

    /// Adds a message, if there is room. One always fits: how large one may be is for others to say.
    pub(super) fn offer(&self, message: String) -> Result<(), NotTaken> {
        let mut state = lock(&self.state);
        if state.closed.is_some() {
            return Err(NotTaken::Ended);
        }
        if !state.messages.is_empty() && state.bytes + message.len() > self.max_bytes {
            return Err(NotTaken::Full);
        }
        state.bytes += message.len();
        state.messages.push_back(message);
        drop(state);
        self.ready.notify_one();
        Ok(())
    }

    /// Ends it: what still waits is dropped, and the reason is all that is given from now on. The first one
    /// stays.
    pub(super) fn close(&self, close: Close) {
        let mut state = lock(&self.state);
        let closed = state.closed.take().unwrap_or(close);
        *state = State { closed: Some(closed), ..State::default() };
        drop(state);
        self.ready.notify_one();
    }

    /// What is next, if anything.
    pub(super) fn pop(&self) -> Option<Next> {
        let mut state = lock(&self.state);
        if let Some(close) = &state.closed {
            return Some(Next::Close(close.clone()));
        }
        let message = state.messages.pop_front()?;
        state.bytes -= message.len();
        // Whoever comes next need not wait for news of what is there already.
        if !state.messages.is_empty() {
            self.ready.notify_one();
        }
        Some(Next::Message(message))
    }

    /// Wakes whoever waits, though there may be nothing.
    pub(super) fn wake(&self) {
        self.ready.notify_one();
    }

    /// Waits until [`pop`](Self::pop) may have something.
    pub(super) async fn ready(&self) {
        self.ready.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn in_order_and_bounded() {
        let queue = Queue::new(4);
        assert_eq!(queue.offer("too large, but alone".into()), Ok(()));
        assert_eq!(queue.offer("b".into()), Err(NotTaken::Full));
        queue.ready().await;
        assert_eq!(queue.pop(), Some(Next::Message("too large, but alone".into())));
        for text in ["ab", "cd"] {
            assert_eq!(queue.offer(text.into()), Ok(()));
        }
        assert_eq!(queue.offer("e".into()), Err(NotTaken::Full));
        assert_eq!(queue.pop(), Some(Next::Message("ab".into())));
        queue.close(Close::new(4000, "first"));
        queue.close(Close::new(1001, "second"));
        assert_eq!(queue.offer("e".into()), Err(NotTaken::Ended));
        queue.ready().await;
        assert_eq!(queue.pop(), Some(Next::Close(Close::new(4000, "first"))));
        assert_eq!(queue.pop(), Some(Next::Close(Close::new(4000, "first"))));
    }
}
