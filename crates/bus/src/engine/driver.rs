//! What makes the calls of one lane.
//!
//! - Order: calls are made one after the other, as they were given to the lane.
//! - Memory: a lane holds as many calls as may be unanswered; whoever has more waits.
//! - Without a connection a lane takes nothing, so nothing piles up in the SDK.
//! - A function that is not found is gone, and whoever notifies it next is told. There is one
//!   exception: when the connection is back, its subscribers may have lost theirs too and need
//!   time to return. A lane that has not heard of its function since makes one call at a time, and
//!   one that was not found is made again, until [`EngineConfig::settle`](super::EngineConfig).
//! - Nothing is lost: a call that was unanswered when the connection broke is made again on the
//!   next, before any that comes after it.
//! - Nothing is sent twice to who can tell: each call says in its metadata which lane it is of, its
//!   number there, and up to which number all have been answered. Our hub brings each number once
//!   and in turn. An engine that does not look at it may bring a call twice whose answer was lost;
//!   the receiver finds the same number in both.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll, Waker},
    time::Duration,
};

use futures_util::{FutureExt as _, StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use iii_sdk::runtime::IIIConnectionState;
use serde_json::json;
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};
use uuid::Uuid;

use super::{
    Connection, Inner,
    calls::{failure, request},
    lanes::Status,
};
use crate::{CallError, Json, OUT_OF_TURN};

/// Calls of one lane that may be unanswered.
const WINDOW: usize = 256;

/// An answer that has not come by then is not waited for, once it is sure that the engine has the
/// call: the function is there, and busy.
const ANSWER: Duration = Duration::from_secs(5);

/// How long to wait before a call that reached nobody is made again.
const RETRY: Duration = Duration::from_millis(200);

/// When a connection is back, answers to calls of the one before may still come for so long.
const GRACE: Duration = Duration::from_millis(100);

/// A lane that nobody is bound to is kept for so long.
const IDLE: Duration = Duration::from_secs(60);

/// A call that was made and has no answer yet.
struct Flight {
    data: Json,
    /// The connection it was given to.
    epoch: u64,
    /// Which of the lane's attempts it is.
    attempt: u64,
    /// No answer has come in time.
    overdue: bool,
}

/// How an attempt ended.
struct Landed {
    number: u64,
    attempt: u64,
    /// The connection it was given to, and what was known of the function then.
    epoch: u64,
    news: u64,
    unheard: bool,
    outcome: Result<(), CallError>,
}

/// The engine was asked for anything, to see that it has what it was sent before.
struct Checked {
    epoch: u64,
    /// Attempts before this one are before the question.
    attempt: u64,
    answered: bool,
}

pub(super) struct Driver {
    inner: Arc<Inner>,
    state: watch::Receiver<Connection>,
    function_id: String,
    namespace: Option<String>,
    status: Arc<Status>,
    waiting: mpsc::Receiver<Json>,
    /// What calls say they are of.
    lane: Uuid,
    attempts: FuturesUnordered<BoxFuture<'static, Landed>>,
    flying: BTreeMap<u64, Flight>,
    /// To be made, by number.
    held: BTreeMap<u64, Json>,
    next: u64,
    attempt: u64,
    epoch: Option<u64>,
    /// When the present connection was noticed.
    since: Instant,
    retry_at: Option<Instant>,
    /// Unanswered calls that were made while the function was unheard of.
    probing: usize,
    check: Option<BoxFuture<'static, Checked>>,
}

impl Driver {
    pub(super) fn new(
        inner: &Arc<Inner>,
        function_id: &str,
        namespace: Option<&str>,
        status: Arc<Status>,
        waiting: mpsc::Receiver<Json>,
    ) -> Self {
        Self {
            inner: inner.clone(),
            state: inner.state.clone(),
            function_id: function_id.to_owned(),
            namespace: namespace.map(str::to_owned),
            status,
            waiting,
            lane: Uuid::new_v4(),
            attempts: FuturesUnordered::new(),
            flying: BTreeMap::new(),
            held: BTreeMap::new(),
            next: 1,
            attempt: 0,
            epoch: None,
            since: Instant::now(),
            retry_at: None,
            probing: 0,
            check: None,
        }
    }

    pub(super) async fn run(mut self) {
        loop {
            let epoch = match &*self.state.borrow_and_update() {
                Connection::Rejected { .. } => return,
                state => state.epoch(),
            };
            if epoch.is_some() && epoch != self.epoch {
                self.since = Instant::now();
            }
            self.epoch = epoch;
            self.retry_at = self.retry_at.filter(|at| *at > Instant::now());
            let unsure = self.is_unsure();
            let ready = self.is_connected() && self.retry_at.is_none();
            if unsure && ready && self.check.is_none() {
                self.ask();
            }
            let window = if self.is_unheard() || self.probing > 0 { 1 } else { WINDOW };
            if !unsure
                && ready
                && self.flying.len() < window
                && let Some((number, data)) = self.held.pop_first()
            {
                self.launch(number, data);
                continue;
            }
            let room = !unsure
                && self.held.is_empty()
                && self.flying.len() < WINDOW
                && self.epoch.is_some();
            let idle = self.held.is_empty()
                && self.flying.is_empty()
                && !self.status.bound.load(Ordering::SeqCst);
            // That the SDK has lost the connection is told a little later.
            let stalled = self.epoch.is_some() && !self.is_connected() && !self.held.is_empty();
            let wake = self
                .retry_at
                .or(stalled.then(|| Instant::now() + RETRY))
                .or(idle.then(|| Instant::now() + IDLE));
            tokio::select! {
                biased;
                () = self.inner.closed.cancelled() => return,
                changed = self.state.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
                Some(landed) = self.attempts.next(), if !self.attempts.is_empty() => {
                    if !self.land(landed) {
                        // Closing the queue is what tells a waiting caller.
                        self.status.gone.store(true, Ordering::SeqCst);
                        return;
                    }
                }
                checked = async {
                    match self.check.as_mut() {
                        Some(check) => check.await,
                        None => std::future::pending().await,
                    }
                }, if self.check.is_some() => {
                    self.check = None;
                    self.settle(&checked);
                }
                data = self.waiting.recv(), if room => match data {
                    Some(data) => {
                        self.held.insert(self.next, data);
                        self.next += 1;
                    }
                    None => return,
                },
                () = tokio::time::sleep_until(wake.unwrap_or_else(Instant::now)), if wake.is_some() => {
                    if idle {
                        return;
                    }
                }
            }
        }
    }

    fn is_connected(&self) -> bool {
        self.epoch.is_some()
            && self.inner.client.get_connection_state() == IIIConnectionState::Connected
    }

    /// Whether the function has not been heard of since the connection is back.
    fn is_unheard(&self) -> bool {
        self.epoch.is_some_and(|epoch| self.status.heard.load(Ordering::SeqCst) < epoch)
    }

    /// Whether there are calls of which it is not known that the engine has them. No other is made
    /// until it is.
    fn is_unsure(&self) -> bool {
        self.flying.values().any(|flight| flight.overdue || Some(flight.epoch) != self.epoch)
    }

    /// Makes a call. The SDK has it when this returns.
    fn launch(&mut self, number: u64, data: Json) {
        let epoch = self.epoch.unwrap_or(0);
        let first = self.flying.first_key_value().map_or(number, |(first, _)| number.min(*first));
        let request = match request(self.namespace.as_deref(), &self.function_id, &data, ANSWER) {
            Ok(request) => request.metadata(json!({ "delivery": {
                "lane": self.lane, "number": number, "answered": first - 1,
            } })),
            Err(error) => {
                tracing::debug!(function = self.function_id, %error, "not a notification");
                return;
            }
        };
        let unheard = self.is_unheard();
        self.probing += usize::from(unheard);
        let news = self.status.news.load(Ordering::SeqCst);
        let (client, name) = (self.inner.client.clone(), self.function_id.clone());
        let attempt = self.attempt;
        self.attempt += 1;
        self.flying.insert(number, Flight { data, epoch, attempt, overdue: false });
        let mut call = async move {
            let outcome = client.trigger(request).await;
            let outcome = outcome.map(drop).map_err(|error| failure(&name, ANSWER, error));
            Landed { number, attempt, epoch, news, unheard, outcome }
        }
        .boxed();
        match call.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(landed) => {
                self.attempts.push(futures_util::future::ready(landed).boxed());
            }
            Poll::Pending => self.attempts.push(call),
        }
    }

    /// Takes back a call that reached nobody, or may have.
    fn hold(&mut self, number: u64) {
        if let Some(flight) = self.flying.remove(&number) {
            self.held.insert(number, flight.data);
        }
    }

    /// Looks at an answer. `false` when the function is gone.
    fn land(&mut self, landed: Landed) -> bool {
        let Landed { number, attempt, epoch, news, unheard, outcome } = landed;
        self.probing -= usize::from(unheard);
        let reached_nobody = match &outcome {
            Err(CallError::NotFound(_) | CallError::Congested(_)) => true,
            Err(CallError::Remote { code, .. }) => code == OUT_OF_TURN,
            _ => false,
        };
        let unknown = match &outcome {
            Err(CallError::Disconnected(_) | CallError::Timeout { .. }) => true,
            // Of a connection that broke it may be ours that is meant.
            Err(CallError::Stopped(_)) => self.epoch != Some(epoch),
            _ => false,
        };
        let Some(flight) = self.flying.get_mut(&number).filter(|it| it.attempt == attempt) else {
            if !reached_nobody && !unknown {
                // It is about to be made again, which is not needed after all.
                self.held.remove(&number);
            }
            return true;
        };
        if unknown {
            flight.overdue = true;
            return true;
        }
        if reached_nobody {
            if matches!(outcome, Err(CallError::NotFound(_))) {
                // Since the call was made, the connection or the function may have come back.
                let came = self.status.news.load(Ordering::SeqCst) != news;
                let returning = self.is_unheard() || self.epoch.is_none_or(|now| epoch < now);
                let settled =
                    self.epoch.is_some() && self.since.elapsed() > self.inner.config.settle;
                if !came && (!returning || settled) {
                    return false;
                }
            }
            self.hold(number);
            self.retry_at = Some(Instant::now() + RETRY);
            return true;
        }
        self.flying.remove(&number);
        match outcome {
            // The function's worker has gone, not the connection.
            Err(CallError::Stopped(_)) => return true,
            Err(CallError::PayloadTooLarge(error)) => {
                tracing::warn!(function = self.function_id, error, "a notification was not sent");
                return true;
            }
            Err(error) => {
                tracing::debug!(function = self.function_id, %error, "notified in vain");
            }
            Ok(()) => {}
        }
        self.heard();
        true
    }

    /// The function is there.
    fn heard(&self) {
        if let Some(now) = self.epoch {
            self.status.heard.fetch_max(now, Ordering::SeqCst);
        }
    }

    /// Asks the engine for anything. It takes what it is sent in turn, and so does the SDK: whoever
    /// has the answer knows that nothing of before is still to be sent.
    fn ask(&mut self) {
        let (epoch, attempt) = (self.epoch.unwrap_or(0), self.attempt);
        let question = Json::from(&json!({ "function_id": "" }));
        let Ok(request) = request(None, "engine::functions::info", &question, ANSWER) else {
            return;
        };
        let client = self.inner.client.clone();
        let mut check = async move {
            // That it fails is an answer, too.
            let answer = client.trigger(request).await;
            let answered = matches!(answer, Ok(_) | Err(iii_sdk::Error::Remote { .. }));
            if answered {
                tokio::time::sleep(GRACE).await;
            }
            Checked { epoch, attempt, answered }
        }
        .boxed();
        self.check = match check.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(checked) => Some(futures_util::future::ready(checked).boxed()),
            Poll::Pending => Some(check),
        };
    }

    /// Decides about the calls of which it was not known whether the engine has them.
    fn settle(&mut self, checked: &Checked) {
        if !checked.answered || self.epoch != Some(checked.epoch) {
            self.retry_at = Some(Instant::now() + RETRY);
            return;
        }
        let before: Vec<(u64, bool)> = self
            .flying
            .iter()
            .filter(|(_, flight)| flight.attempt < checked.attempt)
            .map(|(number, flight)| (*number, flight.epoch == checked.epoch))
            .collect();
        for (number, is_there) in before {
            if !is_there {
                self.hold(number);
            } else if self.flying.get(&number).is_some_and(|flight| flight.overdue) {
                // The engine has it, and its function takes its time.
                self.flying.remove(&number);
                self.heard();
            }
        }
    }
}
