//! One connection of a client, whatever carries it: what waits for it, the calls it owes an answer to, and
//! when it was last heard. It does not know who is registered on it.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use serde::Serialize;
use serde_json::value::RawValue;
use skills_core::Timestamp;
use tokio::{
    sync::{Notify, oneshot},
    time::timeout,
};
use uuid::Uuid;

use super::{
    clock::Clock,
    lock,
    queue::{Next, NotTaken, Queue},
};
use crate::{CallError, Close, Limits};

/// What carries a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Mode {
    /// A WebSocket.
    #[serde(rename = "ws")]
    WebSocket,
    /// Requests that wait for messages.
    #[serde(rename = "http-loop")]
    HttpLoop,
}

impl Mode {
    /// The name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::WebSocket => "ws",
            Self::HttpLoop => "http-loop",
        }
    }
}

/// What a request or a handshake says of who sends it. The credentials themselves are not kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Transport {
    /// Whether it has credentials.
    pub has_auth: bool,
    /// Whether they are good for a registration.
    pub is_authorized: bool,
}

/// What came of a call.
pub(super) type Outcome = Result<Option<Box<RawValue>>, CallError>;

/// A connection.
#[derive(Debug)]
pub struct Session {
    /// What names it; secret, since over HTTP whoever knows it can speak on it.
    pub id: Uuid,
    /// What carries it.
    pub mode: Mode,
    /// Whether that is encrypted.
    pub is_secure: bool,
    queue: Queue,
    calls: Mutex<Calls>,
    /// What the ids of its calls begin with. No other session has it: a client that comes back may still answer
    /// what it was asked before.
    calls_of: u64,
    max_calls: usize,
    /// What the handshake said of who sends it.
    pub(super) transport: Transport,
    clock: Clock,
    /// Since when nobody is registered on it, if nobody is.
    unregistered: AtomicU64,
    heard: AtomicU64,
    pinged: AtomicU64,
    polls: AtomicU64,
    overtaken: Notify,
    is_registered: AtomicBool,
}

#[derive(Debug, Default)]
struct Calls {
    open: HashMap<u64, oneshot::Sender<Outcome>>,
    last: u64,
    is_over: bool,
}

impl Session {
    pub(super) fn new(
        mode: Mode,
        is_secure: bool,
        transport: Transport,
        limits: &Limits,
        clock: Clock,
    ) -> Self {
        let now = clock.now();
        Self {
            id: Uuid::new_v4(),
            mode,
            is_secure,
            queue: Queue::new(limits.queue_bytes),
            calls: Mutex::default(),
            calls_of: Uuid::new_v4().as_u64_pair().0,
            max_calls: limits.calls_per_client,
            transport,
            clock,
            unregistered: AtomicU64::new(now),
            heard: AtomicU64::new(now),
            pinged: AtomicU64::new(now),
            polls: AtomicU64::new(0),
            overtaken: Notify::new(),
            is_registered: AtomicBool::new(false),
        }
    }

    /// Notes that the other end is there.
    pub fn hear(&self) {
        self.heard.store(self.clock.now(), Ordering::Relaxed);
    }

    /// When it was last heard.
    #[must_use]
    pub fn last_seen_at(&self) -> Timestamp {
        self.clock.moment(self.heard.load(Ordering::Relaxed))
    }

    /// What is to be sent next, if anything.
    pub fn pop(&self) -> Option<Next> {
        self.queue.pop()
    }

    /// Waits until [`pop`](Self::pop) may have something.
    pub async fn ready(&self) {
        self.queue.ready().await;
    }

    /// What is to be sent next.
    pub async fn next(&self) -> Next {
        loop {
            if let Some(next) = self.pop() {
                return next;
            }
            self.ready().await;
        }
    }

    /// The next message for whoever asks for one at a time; `None` when none came within `wait`, or when
    /// another began to ask meanwhile.
    pub async fn poll(&self, wait: Duration) -> Option<Next> {
        let turn = self.polls.fetch_add(1, Ordering::SeqCst) + 1;
        self.overtaken.notify_waiters();
        self.hear();
        let next = timeout(wait, self.next_in_turn(turn)).await.unwrap_or_default();
        self.hear();
        next
    }

    async fn next_in_turn(&self, turn: u64) -> Option<Next> {
        loop {
            let overtaken = self.overtaken.notified();
            tokio::pin!(overtaken);
            overtaken.as_mut().enable();
            if self.polls.load(Ordering::SeqCst) != turn {
                // It may have taken the news that was meant for whoever asks now.
                self.queue.wake();
                return None;
            }
            if let Some(next) = self.pop() {
                return Some(next);
            }
            tokio::select! {
                () = overtaken => {}
                () = self.ready() => {}
            }
        }
    }

    pub(super) fn silence(&self) -> Duration {
        self.clock.since(self.heard.load(Ordering::Relaxed))
    }

    /// Whether nobody has registered on it in the time there is for that.
    pub(super) fn is_idle(&self, register_within: Duration) -> bool {
        !self.is_registered()
            && self.clock.since(self.unregistered.load(Ordering::Relaxed)) >= register_within
    }

    /// Whether somebody is registered on it.
    #[must_use]
    pub fn is_registered(&self) -> bool {
        self.is_registered.load(Ordering::Relaxed)
    }

    /// Notes whether somebody is. Who no longer is has as long to do so again as at first.
    pub(super) fn set_registered(&self, is_registered: bool) {
        self.unregistered.store(self.clock.now(), Ordering::Relaxed);
        self.is_registered.store(is_registered, Ordering::Relaxed);
    }

    /// Whether a ping is due; if so, the next is due that much later.
    pub(super) fn ping_is_due(&self, every: Duration) -> bool {
        let is_due = self.clock.since(self.pinged.load(Ordering::Relaxed)) >= every;
        if is_due {
            self.pinged.store(self.clock.now(), Ordering::Relaxed);
        }
        is_due
    }

    /// Adds a message of the host's own, and says whether there was room. Who does not even take these is not
    /// there.
    pub(super) fn tell(&self, message: String) -> bool {
        self.queue.offer(message) != Err(NotTaken::Full)
    }

    /// Asks, and returns where the answer will come.
    pub(super) fn ask(
        self: &Arc<Self>,
        client: &str,
        message: impl FnOnce(Uuid) -> String,
    ) -> Result<Asked, CallError> {
        let (sender, answer) = oneshot::channel();
        let gone = || CallError::Disconnected(client.to_owned());
        let busy = |what| CallError::Busy { client: client.to_owned(), what };
        let number = {
            let mut calls = lock(&self.calls);
            if calls.is_over {
                return Err(gone());
            }
            if calls.open.len() >= self.max_calls {
                return Err(busy("calls are under way"));
            }
            calls.last += 1;
            let number = calls.last;
            calls.open.insert(number, sender);
            number
        };
        let asked = Asked { session: Arc::clone(self), number, answer, is_open: true };
        let message = message(request_id(self.calls_of, number));
        let (bytes, max) = (message.len(), self.queue.max_bytes());
        if bytes > max {
            return Err(CallError::TooLarge { bytes, clients: 1, max });
        }
        match self.queue.offer(message) {
            Ok(()) => Ok(asked),
            Err(NotTaken::Full) => Err(busy("messages wait to be read")),
            Err(NotTaken::Ended) => Err(gone()),
        }
    }

    /// Takes an answer. One that nobody waits for, or that another session was asked for, is dropped.
    pub(super) fn answer(&self, request_id: &str, outcome: Outcome) {
        let number = Uuid::try_parse(request_id).ok().and_then(|id| number(self.calls_of, id));
        match number.and_then(|number| lock(&self.calls).open.remove(&number)) {
            Some(sender) => drop(sender.send(outcome)),
            None => {
                tracing::debug!(session = %self.mode.as_str(), "an answer that nobody waits for")
            }
        }
    }

    /// Tells everyone who waits for an answer that there will be none.
    pub(super) fn fail_calls(&self, error: &CallError) {
        let open = std::mem::take(&mut lock(&self.calls).open);
        for sender in open.into_values() {
            let _ = sender.send(Err(error.clone()));
        }
    }

    /// Ends it: nothing more is asked, and the other end is told why.
    pub(super) fn end(&self, close: Close, error: &CallError) {
        lock(&self.calls).is_over = true;
        self.fail_calls(error);
        self.queue.close(close);
    }

    #[cfg(test)]
    pub(super) fn open_calls(&self) -> usize {
        lock(&self.calls).open.len()
    }
}

/// A call under way. Who no longer waits for it need not say so.
pub(super) struct Asked {
    session: Arc<Session>,
    number: u64,
    answer: oneshot::Receiver<Outcome>,
    /// Whether the session still knows of it.
    is_open: bool,
}

impl Asked {
    pub(super) async fn answer(mut self, client: &str, within: Duration) -> Outcome {
        let answered = timeout(within, &mut self.answer).await;
        // Whoever sends, or drops the sender, has taken it out before.
        self.is_open = answered.is_err();
        match answered {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(CallError::Disconnected(client.to_owned())),
            Err(_) => Err(CallError::Timeout(client.to_owned())),
        }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        if self.is_open {
            lock(&self.session.calls).open.remove(&self.number);
        }
    }
}

/// The highest bit says of the second half of an id that it is of the usual variant.
const VARIANT: u64 = 1 << 63;

/// The id of a call: random in its first half, so that it costs nothing to make the next.
fn request_id(calls_of: u64, number: u64) -> Uuid {
    Uuid::from_u64_pair(calls_of, VARIANT | number)
}

/// The call of an id, if it is one of the same session.
fn number(calls_of: u64, id: Uuid) -> Option<u64> {
    let (of, number) = id.as_u64_pair();
    (of == calls_of).then_some(number & !VARIANT)
}
