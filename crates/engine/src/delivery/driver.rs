//! Driver of one lane: sends its notifications.
//!
//! - Order: calls are sent one after the other, as they were queued.
//! - Backpressure: a lane holds as many calls as may be unanswered; further senders wait. Without a connection it
//!   accepts nothing.
//! - A function that is not found is gone, and the next notification of it fails. One exception: after a reconnect the
//!   subscribers may need time to return. Until the function is confirmed on the new connection, the lane sends one
//!   call at a time and retries calls whose function was not found, up to
//!   [`subscriber_grace`](crate::EngineConfig::subscriber_grace).
//! - No loss: a call that was unanswered when the connection broke is sent again on the next connection, before any
//!   later call.
//! - No duplicates for receivers that check: each call has in its metadata the lane, its number in the lane, and the
//!   number up to which all calls are answered. Our hub delivers each number once and in order. An engine that ignores
//!   the metadata may deliver a call twice if its answer was lost; both have the same number.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures_util::{FutureExt as _, StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use serde_json::json;
use skills_bus::{CallError, Json, client::WorkerCall};
use skills_core::{Code, Coded};
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};
use uuid::Uuid;

use super::{barrier, lanes::LaneStatus};
use crate::client::{ConnectionState, Inner};

/// Calls of one lane that may be unanswered.
const WINDOW: usize = 256;

/// Time to wait for an answer. A call that the engine certainly has is then considered delivered: its function exists
/// and is busy.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Delay before a call that was not delivered is sent again.
const RETRY_DELAY: Duration = Duration::from_millis(200);

/// Time after a reconnect in which answers to calls of the previous connection may still arrive.
const LATE_ANSWER_GRACE: Duration = Duration::from_millis(100);

/// Time after which an idle lane without a subscription ends.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// A call that was sent and is unanswered.
struct SentCall {
    data: Json,
    /// Connection on which it was sent.
    epoch: u64,
    /// Number of the attempt within the lane.
    attempt: u64,
    /// No answer has arrived in time.
    is_overdue: bool,
}

/// Result of an attempt to send a call.
struct AttemptResult {
    number: u64,
    attempt: u64,
    /// Connection on which the call was sent.
    epoch: u64,
    /// Confirmations of the function when the call was sent.
    confirmations: u64,
    /// Whether the function was unconfirmed when the call was sent.
    is_probe: bool,
    outcome: Result<(), CallError>,
}

/// Result of a round trip to the engine, which processes messages in order: it has all attempts before the barrier.
struct Barrier {
    epoch: u64,
    /// First attempt after the barrier.
    attempt: u64,
    is_answered: bool,
}

pub(super) struct Driver {
    inner: Arc<Inner>,
    state: watch::Receiver<ConnectionState>,
    function_id: String,
    namespace: Option<String>,
    status: Arc<LaneStatus>,
    notifications: mpsc::Receiver<Json>,
    /// Id of the lane in the metadata of its calls.
    lane: Uuid,
    attempts: FuturesUnordered<BoxFuture<'static, AttemptResult>>,
    unanswered: BTreeMap<u64, SentCall>,
    /// Calls to send, by number.
    queued: BTreeMap<u64, Json>,
    next_number: u64,
    next_attempt: u64,
    epoch: Option<u64>,
    /// Time at which the current connection was noticed.
    connected_at: Instant,
    retry_at: Option<Instant>,
    /// Unanswered calls that were sent while the function was unconfirmed.
    probes: usize,
    barrier: Option<BoxFuture<'static, Barrier>>,
}

impl Driver {
    pub(super) fn new(
        inner: &Arc<Inner>,
        function_id: &str,
        namespace: Option<&str>,
        status: Arc<LaneStatus>,
        notifications: mpsc::Receiver<Json>,
    ) -> Self {
        Self {
            inner: inner.clone(),
            state: inner.state.clone(),
            function_id: function_id.to_owned(),
            namespace: namespace.map(str::to_owned),
            status,
            notifications,
            lane: Uuid::new_v4(),
            attempts: FuturesUnordered::new(),
            unanswered: BTreeMap::new(),
            queued: BTreeMap::new(),
            next_number: 1,
            next_attempt: 0,
            epoch: None,
            connected_at: Instant::now(),
            retry_at: None,
            probes: 0,
            barrier: None,
        }
    }

    pub(super) async fn run(mut self) {
        loop {
            let epoch = match &*self.state.borrow_and_update() {
                ConnectionState::Rejected { .. } => return,
                state => state.epoch(),
            };
            if epoch.is_some() && epoch != self.epoch {
                self.connected_at = Instant::now();
            }
            self.epoch = epoch;
            self.retry_at = self.retry_at.filter(|at| *at > Instant::now());
            let has_uncertain = self.has_uncertain_calls();
            let is_ready = self.is_connected() && self.retry_at.is_none();
            if has_uncertain && is_ready && self.barrier.is_none() {
                self.start_barrier();
            }
            let window = if self.is_unconfirmed() || self.probes > 0 { 1 } else { WINDOW };
            if !has_uncertain
                && is_ready
                && self.unanswered.len() < window
                && let Some((number, data)) = self.queued.pop_first()
            {
                self.send(number, data);
                continue;
            }
            let has_room = !has_uncertain
                && self.queued.is_empty()
                && self.unanswered.len() < WINDOW
                && self.epoch.is_some();
            let is_idle = self.queued.is_empty()
                && self.unanswered.is_empty()
                && !self.status.is_subscribed.load(Ordering::SeqCst);
            // The state reports a lost connection a little late.
            let is_stalled =
                self.epoch.is_some() && !self.is_connected() && !self.queued.is_empty();
            let wake_at = self
                .retry_at
                .or(is_stalled.then(|| Instant::now() + RETRY_DELAY))
                .or(is_idle.then(|| Instant::now() + IDLE_TIMEOUT));
            tokio::select! {
                biased;
                () = self.inner.client.wait_closed() => return,
                changed = self.state.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
                Some(result) = self.attempts.next(), if !self.attempts.is_empty() => {
                    if !self.handle_result(result) {
                        // The queue closes with the driver, which wakes waiting senders.
                        self.status.is_gone.store(true, Ordering::SeqCst);
                        return;
                    }
                }
                barrier = async {
                    match self.barrier.as_mut() {
                        Some(barrier) => barrier.await,
                        None => std::future::pending().await,
                    }
                }, if self.barrier.is_some() => {
                    self.barrier = None;
                    self.apply_barrier(&barrier);
                }
                data = self.notifications.recv(), if has_room => match data {
                    Some(data) => {
                        self.queued.insert(self.next_number, data);
                        self.next_number += 1;
                    }
                    None => return,
                },
                () = tokio::time::sleep_until(wake_at.unwrap_or_else(Instant::now)), if wake_at.is_some() => {
                    if is_idle {
                        return;
                    }
                }
            }
        }
    }

    fn is_connected(&self) -> bool {
        self.epoch.is_some() && self.inner.client.epoch() == self.epoch
    }

    /// Returns whether the function has not been confirmed on the current connection.
    fn is_unconfirmed(&self) -> bool {
        self.epoch.is_some_and(|epoch| self.status.confirmed_epoch.load(Ordering::SeqCst) < epoch)
    }

    /// Returns whether there are calls that the engine may not have. No other call is sent until that is clear.
    fn has_uncertain_calls(&self) -> bool {
        self.unanswered.values().any(|call| call.is_overdue || Some(call.epoch) != self.epoch)
    }

    /// Sends a call. It is queued on the connection when this returns.
    fn send(&mut self, number: u64, data: Json) {
        let epoch = self.epoch.unwrap_or(0);
        let first =
            self.unanswered.first_key_value().map_or(number, |(first, _)| number.min(*first));
        let metadata = json!({ "delivery": {
            "lane": self.lane.to_string(), "number": number, "answered": first - 1,
        } });
        let started = self.inner.client.start_call(&WorkerCall {
            function_id: &self.function_id,
            data: &data,
            namespace: self.namespace.as_deref(),
            metadata: Some(&metadata.to_string()),
            epoch: Some(epoch),
        });
        let is_probe = self.is_unconfirmed();
        self.probes += usize::from(is_probe);
        let confirmations = self.status.confirmations.load(Ordering::SeqCst);
        let attempt = self.next_attempt;
        self.next_attempt += 1;
        self.unanswered.insert(number, SentCall { data, epoch, attempt, is_overdue: false });
        let call = async move {
            let outcome = match started {
                Ok(call) => call.answer(ANSWER_TIMEOUT).await.map(drop),
                Err(error) => Err(error),
            };
            AttemptResult { number, attempt, epoch, confirmations, is_probe, outcome }
        };
        self.attempts.push(call.boxed());
    }

    /// Queues a call again that was not delivered, or may not have been.
    fn requeue(&mut self, number: u64) {
        if let Some(call) = self.unanswered.remove(&number) {
            self.queued.insert(number, call.data);
        }
    }

    /// Handles an answer. Returns `false` if the function is gone.
    fn handle_result(&mut self, result: AttemptResult) -> bool {
        let AttemptResult { number, attempt, epoch, confirmations, is_probe, outcome } = result;
        self.probes -= usize::from(is_probe);
        let is_undelivered = match &outcome {
            Err(CallError::NotFound(_) | CallError::Congested(_)) => true,
            Err(error) => error.code() == Code::DeliveryOutOfTurn,
            _ => false,
        };
        let is_uncertain = match &outcome {
            Err(CallError::Disconnected(_) | CallError::Timeout { .. }) => true,
            // The connection that broke may be this worker's own.
            Err(CallError::Stopped(_)) => self.epoch != Some(epoch),
            _ => false,
        };
        let Some(call) = self.unanswered.get_mut(&number).filter(|call| call.attempt == attempt)
        else {
            if !is_undelivered && !is_uncertain {
                // A late answer: the call need not be sent again.
                self.queued.remove(&number);
            }
            return true;
        };
        if is_uncertain {
            call.is_overdue = true;
            return true;
        }
        if is_undelivered {
            if matches!(outcome, Err(CallError::NotFound(_))) {
                // The connection or the function may have returned since the call was sent.
                let has_returned =
                    self.status.confirmations.load(Ordering::SeqCst) != confirmations;
                let may_return = self.is_unconfirmed() || self.epoch.is_none_or(|now| epoch < now);
                let is_grace_over = self.epoch.is_some()
                    && self.connected_at.elapsed() > self.inner.config.subscriber_grace;
                if !has_returned && (!may_return || is_grace_over) {
                    return false;
                }
            }
            self.requeue(number);
            self.retry_at = Some(Instant::now() + RETRY_DELAY);
            return true;
        }
        self.unanswered.remove(&number);
        match outcome {
            // The function's worker is gone, not the connection.
            Err(CallError::Stopped(_)) => return true,
            Err(CallError::PayloadTooLarge(error)) => {
                tracing::warn!(function = self.function_id, error, "notification not delivered");
                return true;
            }
            Err(error) => {
                tracing::debug!(function = self.function_id, %error, "subscriber failed");
            }
            Ok(()) => {}
        }
        self.confirm_function();
        true
    }

    fn confirm_function(&self) {
        if let Some(epoch) = self.epoch {
            self.status.confirmed_epoch.fetch_max(epoch, Ordering::SeqCst);
        }
    }

    /// Starts a round trip to the engine, which processes messages in order: after the answer it has all earlier calls of
    /// this connection.
    fn start_barrier(&mut self) {
        let (epoch, attempt) = (self.epoch.unwrap_or(0), self.next_attempt);
        let started = barrier::start(&self.inner, epoch);
        let barrier = async move {
            let is_answered = match started {
                Ok(call) => barrier::is_answer(&call.answer(ANSWER_TIMEOUT).await),
                Err(_) => false,
            };
            if is_answered {
                tokio::time::sleep(LATE_ANSWER_GRACE).await;
            }
            Barrier { epoch, attempt, is_answered }
        };
        self.barrier = Some(barrier.boxed());
    }

    /// Decides about the calls that the engine may not have.
    fn apply_barrier(&mut self, barrier: &Barrier) {
        if !barrier.is_answered || self.epoch != Some(barrier.epoch) {
            self.retry_at = Some(Instant::now() + RETRY_DELAY);
            return;
        }
        let before: Vec<(u64, bool, bool)> = self
            .unanswered
            .iter()
            .filter(|(_, call)| call.attempt < barrier.attempt)
            .map(|(number, call)| (*number, call.epoch == barrier.epoch, call.is_overdue))
            .collect();
        for (number, is_received, is_overdue) in before {
            if !is_received {
                self.requeue(number);
            } else if is_overdue {
                // The engine has the call, and its function is busy.
                self.unanswered.remove(&number);
                self.confirm_function();
            }
        }
    }
}
