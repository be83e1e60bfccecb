//! What waits for one peer to read it: frames in order, bounded in number and in bytes.
//!
//! Calls are refused when the queue is full, so that a worker that does not read costs its
//! callers an error and the hub nothing. Answers are always taken up to a far higher bound, since
//! the peer asked for them; a peer that is owed too much is not read from meanwhile.
//! The queue knows nothing of what the frames mean.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

use super::HubConfig;

/// How a connection is to end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Close {
    pub(crate) code: u16,
    pub(crate) reason: &'static str,
}

/// What the writer does next.
#[derive(Debug)]
pub(crate) enum Next {
    Frame(String),
    Ping,
    Close(Close),
}

/// Why a frame was not taken.
#[derive(Debug)]
pub(crate) enum Refused {
    /// There is no room; here is the frame.
    Full(String),
    /// The peer is gone.
    Gone,
}

#[derive(Debug, Default)]
struct State {
    frames: VecDeque<(String, bool)>,
    bytes: usize,
    owed_frames: usize,
    owed_bytes: usize,
    ping: bool,
    closing: Option<Close>,
    gone: bool,
}

impl State {
    fn add(&mut self, text: String, owed: bool) {
        self.bytes += text.len();
        if owed {
            self.owed_frames += 1;
            self.owed_bytes += text.len();
        }
        self.frames.push_back((text, owed));
    }
}

#[derive(Debug)]
pub(crate) struct Queue {
    state: Mutex<State>,
    max_frames: usize,
    max_bytes: usize,
    max_owed_frames: usize,
    max_owed_bytes: usize,
    ready: Notify,
    room: Notify,
}

impl Queue {
    pub(crate) fn new(config: &HubConfig) -> Self {
        Self {
            state: Mutex::default(),
            max_frames: config.queue_frames,
            max_bytes: config.queue_bytes,
            max_owed_frames: config.owed_frames,
            max_owed_bytes: config.owed_bytes,
            ready: Notify::new(),
            room: Notify::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a call, if there is room.
    pub(crate) fn offer(&self, text: String) -> Result<(), Refused> {
        let mut state = self.lock();
        if state.gone || state.closing.is_some() {
            return Err(Refused::Gone);
        }
        let calls = state.frames.len() - state.owed_frames;
        let bytes = state.bytes - state.owed_bytes;
        // One message always fits, however large.
        if calls >= self.max_frames || (calls > 0 && bytes + text.len() > self.max_bytes) {
            return Err(Refused::Full(text));
        }
        state.add(text, false);
        drop(state);
        self.ready.notify_one();
        Ok(())
    }

    /// Adds a call and waits for room as long as it takes.
    ///
    /// # Errors
    /// When the peer goes meanwhile.
    pub(crate) async fn wait_and_offer(&self, mut text: String) -> Result<(), ()> {
        loop {
            let room = self.room.notified();
            tokio::pin!(room);
            room.as_mut().enable();
            match self.offer(text) {
                Ok(()) => return Ok(()),
                Err(Refused::Gone) => return Err(()),
                Err(Refused::Full(back)) => text = back,
            }
            room.await;
        }
    }

    /// Adds an answer.
    ///
    /// # Errors
    /// When the peer has let so much pile up that only a short error still goes in.
    pub(crate) fn answer(&self, text: String) -> Result<(), String> {
        let mut state = self.lock();
        if state.gone {
            return Ok(());
        }
        if state.owed_frames > 0
            && state.owed_bytes + text.len() > self.max_owed_bytes.saturating_mul(4)
        {
            return Err(text);
        }
        state.add(text, true);
        drop(state);
        self.ready.notify_one();
        Ok(())
    }

    /// Adds a frame of the hub itself, or a short error. A peer for which even these pile up has
    /// not read for long; without them it would be out of step, so its connection ends.
    pub(crate) fn push(&self, text: String) {
        let mut state = self.lock();
        if state.gone {
            return;
        }
        if state.owed_bytes + text.len() > self.max_owed_bytes.saturating_mul(5) {
            state.closing.get_or_insert(Close { code: 1008, reason: "messages are not read" });
            return;
        }
        state.add(text, true);
        drop(state);
        self.ready.notify_one();
    }

    /// Sends a WebSocket ping ahead of everything.
    pub(crate) fn ping(&self) {
        self.lock().ping = true;
        self.ready.notify_one();
    }

    /// Ends the connection once everything that waits is sent. The first reason stays.
    pub(crate) fn close(&self, close: Close) {
        self.lock().closing.get_or_insert(close);
        self.ready.notify_one();
        self.room.notify_waiters();
    }

    /// Drops what waits, and takes nothing more.
    pub(crate) fn abandon(&self) {
        *self.lock() = State { gone: true, ..State::default() };
        self.room.notify_waiters();
    }

    /// What is to be written next, if anything.
    pub(crate) fn pop(&self) -> Option<Next> {
        let mut state = self.lock();
        if std::mem::take(&mut state.ping) {
            return Some(Next::Ping);
        }
        let Some((text, owed)) = state.frames.pop_front() else {
            return state.closing.clone().map(Next::Close);
        };
        state.bytes -= text.len();
        if owed {
            state.owed_frames -= 1;
            state.owed_bytes -= text.len();
        }
        drop(state);
        self.room.notify_waiters();
        Some(Next::Frame(text))
    }

    /// Waits until [`pop`](Self::pop) may have something.
    pub(crate) async fn ready(&self) {
        self.ready.notified().await;
    }

    fn owes_too_much(&self) -> bool {
        let state = self.lock();
        state.owed_frames > self.max_owed_frames || state.owed_bytes > self.max_owed_bytes
    }

    /// Waits until the peer has read enough of its answers. `progress` is called as it does.
    pub(crate) async fn settled(&self, progress: impl Fn()) {
        while self.owes_too_much() {
            let room = self.room.notified();
            tokio::pin!(room);
            room.as_mut().enable();
            if self.owes_too_much() {
                room.await;
                progress();
            }
        }
    }
}
