//! Bounded queue of the frames that wait for one peer to read them.
//!
//! | frames | limit |
//! |---|---|
//! | calls | rejected when the queue is full: a worker that does not read costs its callers an error and the hub nothing |
//! | replies | accepted up to four times their limit, since the peer asked for them; above the limit the hub stops reading from the peer |
//! | control frames and short errors | up to five times that limit, then the connection ends |
//!
//! The queue does not know what the frames mean.

use std::collections::VecDeque;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// Close code and reason of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CloseReason {
    pub(crate) code: u16,
    pub(crate) reason: &'static str,
}

/// Next item for the writer of the connection.
#[derive(Debug)]
pub(crate) enum Outgoing {
    Frame(String),
    Ping,
    Close(CloseReason),
}

/// Reason why a call was not queued.
#[derive(Debug)]
pub(crate) enum PushError {
    /// There is no room; returns the frame.
    Full(String),
    /// The peer is gone.
    Gone,
}

#[derive(Debug, Default)]
struct State {
    /// Frames, and whether each counts as a reply.
    frames: VecDeque<(String, bool)>,
    bytes: usize,
    replies: usize,
    reply_bytes: usize,
    ping: bool,
    closing: Option<CloseReason>,
    is_gone: bool,
}

impl State {
    fn add(&mut self, text: String, is_reply: bool) {
        self.bytes += text.len();
        if is_reply {
            self.replies += 1;
            self.reply_bytes += text.len();
        }
        self.frames.push_back((text, is_reply));
    }
}

/// Limits of a [`Queue`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct QueueLimits {
    pub(crate) max_calls: usize,
    pub(crate) max_call_bytes: usize,
    pub(crate) max_replies: usize,
    pub(crate) max_reply_bytes: usize,
}

#[derive(Debug)]
pub(crate) struct Queue {
    state: Mutex<State>,
    limits: QueueLimits,
    /// Signals that there may be something to write.
    ready: Notify,
    /// Signals that there may be room.
    room: Notify,
}

impl Queue {
    pub(crate) fn new(limits: QueueLimits) -> Self {
        Self { state: Mutex::default(), limits, ready: Notify::new(), room: Notify::new() }
    }

    /// Queues a call, if there is room. One message always fits, however large.
    pub(crate) fn try_push_call(&self, text: String) -> Result<(), PushError> {
        let mut state = self.state.lock();
        if state.is_gone || state.closing.is_some() {
            return Err(PushError::Gone);
        }
        let calls = state.frames.len() - state.replies;
        let bytes = state.bytes - state.reply_bytes;
        if calls >= self.limits.max_calls
            || (calls > 0 && bytes + text.len() > self.limits.max_call_bytes)
        {
            return Err(PushError::Full(text));
        }
        state.add(text, false);
        drop(state);
        self.ready.notify_one();
        Ok(())
    }

    /// Queues a call and waits for room as long as it takes.
    ///
    /// # Errors
    /// When the peer disconnects meanwhile.
    pub(crate) async fn push_call(&self, mut text: String) -> Result<(), ()> {
        loop {
            let room = self.room.notified();
            tokio::pin!(room);
            room.as_mut().enable();
            match self.try_push_call(text) {
                Ok(()) => return Ok(()),
                Err(PushError::Gone) => return Err(()),
                Err(PushError::Full(rejected)) => text = rejected,
            }
            room.await;
        }
    }

    /// Queues a reply. Returns `false` if so many wait that only a short error still fits.
    pub(crate) fn push_reply(&self, text: String) -> bool {
        let mut state = self.state.lock();
        if state.is_gone {
            return true;
        }
        let limit = self.limits.max_reply_bytes.saturating_mul(4);
        if state.replies > 0 && state.reply_bytes + text.len() > limit {
            return false;
        }
        state.add(text, true);
        drop(state);
        self.ready.notify_one();
        true
    }

    /// Queues a control frame or a short error. If even these pile up, the connection ends: without them the peer would
    /// be out of sync.
    pub(crate) fn push_control(&self, text: String) {
        let mut state = self.state.lock();
        if state.is_gone {
            return;
        }
        if state.reply_bytes + text.len() > self.limits.max_reply_bytes.saturating_mul(5) {
            let reason = CloseReason { code: 1008, reason: "messages are not read" };
            state.closing.get_or_insert(reason);
            return;
        }
        state.add(text, true);
        drop(state);
        self.ready.notify_one();
    }

    /// Sends a WebSocket ping ahead of everything.
    pub(crate) fn ping(&self) {
        self.state.lock().ping = true;
        self.ready.notify_one();
    }

    /// Closes the connection after all queued frames are sent. Later calls are ignored.
    pub(crate) fn close(&self, reason: CloseReason) {
        self.state.lock().closing.get_or_insert(reason);
        self.ready.notify_one();
        self.room.notify_waiters();
    }

    /// Accepts no more frames and returns those that were not sent.
    pub(crate) fn discard(&self) -> impl Iterator<Item = String> + use<> {
        let gone = State { is_gone: true, ..State::default() };
        let state = std::mem::replace(&mut *self.state.lock(), gone);
        self.room.notify_waiters();
        state.frames.into_iter().map(|(text, _)| text)
    }

    /// Takes the next item to write.
    pub(crate) fn pop(&self) -> Option<Outgoing> {
        let mut state = self.state.lock();
        if std::mem::take(&mut state.ping) {
            return Some(Outgoing::Ping);
        }
        let Some((text, is_reply)) = state.frames.pop_front() else {
            return state.closing.clone().map(Outgoing::Close);
        };
        state.bytes -= text.len();
        if is_reply {
            state.replies -= 1;
            state.reply_bytes -= text.len();
        }
        drop(state);
        self.room.notify_waiters();
        Some(Outgoing::Frame(text))
    }

    /// Waits until [`pop`](Self::pop) may have an item.
    pub(crate) async fn wait_ready(&self) {
        self.ready.notified().await;
    }

    fn has_too_many_replies(&self) -> bool {
        let state = self.state.lock();
        state.replies > self.limits.max_replies || state.reply_bytes > self.limits.max_reply_bytes
    }

    /// Waits until the peer has read enough of its replies. Calls `progress` whenever it reads.
    pub(crate) async fn wait_for_drain(&self, progress: impl Fn()) {
        while self.has_too_many_replies() {
            let room = self.room.notified();
            tokio::pin!(room);
            room.as_mut().enable();
            if self.has_too_many_replies() {
                room.await;
                progress();
            }
        }
    }
}
