//! Void calls: one lane for each function that is notified.
//!
//! A void call has no answer, so nobody would learn that its function is gone. A lane therefore
//! makes ordinary calls, does not wait for their answers before it makes the next, and looks at the
//! answers only to see whether there is such a function.
//!
//! - Order: a lane makes its calls one after the other, as they were given to it.
//! - Memory: a lane holds as many calls as may be unanswered; whoever has more waits.
//! - Without a connection a lane takes nothing, so nothing piles up in the SDK.
//! - A function that is not found is gone, and whoever notifies it next is told. There is one
//!   exception: when the connection is back, its subscribers may have lost theirs too and need
//!   time to return. A lane that has not heard of its function since makes one call at a time, and
//!   one that was not found is made again, until [`EngineConfig::settle`](super::EngineConfig).
//! - Nothing is sent twice: only a call that certainly reached nobody is repeated. One whose answer
//!   was lost with the connection may have reached nobody, too, and is not.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use futures_util::{FutureExt as _, StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};

use super::{
    Connection, Inner,
    calls::{failure, request},
    lock,
};
use crate::{CallError, Json};

/// Calls of one lane that may be unanswered.
const WINDOW: usize = 256;

/// An answer that has not come by then is not waited for: the function is there, and busy.
const ANSWER: Duration = Duration::from_secs(5);

/// How long to wait before a call that was not found is made again.
const RETRY: Duration = Duration::from_millis(200);

/// A lane that nobody is bound to is kept for so long.
const IDLE: Duration = Duration::from_secs(60);

/// The state of a lane that others see.
#[derive(Debug)]
struct Status {
    gone: AtomicBool,
    /// The connection on which the function was last known to be there.
    heard: AtomicU64,
    /// How often its subscribers have been heard of.
    news: AtomicU64,
    /// Whether a subscription made it; else it ends when it has nothing to do.
    bound: AtomicBool,
}

#[derive(Debug, Clone)]
pub(super) struct Lane {
    queue: mpsc::Sender<Json>,
    status: Arc<Status>,
}

impl Lane {
    fn is_gone(&self) -> bool {
        self.status.gone.load(Ordering::SeqCst)
    }
}

#[derive(Debug, Default)]
pub(super) struct Lanes(Mutex<HashMap<String, Lane>>);

impl Lanes {
    /// The function's subscriber has just been heard of.
    pub(super) fn heard(
        &self,
        inner: &Arc<Inner>,
        target: &str,
        function_id: &str,
        namespace: Option<&str>,
    ) {
        let mut lanes = lock(&self.0);
        if lanes.get(target).is_some_and(|lane| lane.is_gone() || lane.queue.is_closed()) {
            lanes.remove(target);
        }
        let lane = lanes
            .entry(target.to_owned())
            .or_insert_with(|| Lane::start(inner, function_id, namespace));
        lane.status.heard.fetch_max(inner.epoch_now(), Ordering::SeqCst);
        lane.status.news.fetch_add(1, Ordering::SeqCst);
        lane.status.bound.store(true, Ordering::SeqCst);
    }

    fn get(&self, inner: &Arc<Inner>, target: &str) -> Lane {
        let mut lanes = lock(&self.0);
        lanes.entry(target.to_owned()).or_insert_with(|| Lane::start(inner, target, None)).clone()
    }

    pub(super) fn remove(&self, target: &str) {
        lock(&self.0).remove(target);
    }

    /// Removes this very lane; `false` when there is another one by now.
    fn remove_same(&self, target: &str, lane: &Lane) -> bool {
        let mut lanes = lock(&self.0);
        let other =
            lanes.get(target).is_some_and(|known| !Arc::ptr_eq(&known.status, &lane.status));
        if !other {
            lanes.remove(target);
        }
        !other
    }
}

impl Inner {
    /// Gives a lane one more call to make.
    pub(super) async fn notify(
        self: &Arc<Self>,
        target: &str,
        data: Json,
    ) -> Result<(), CallError> {
        loop {
            let stopped = matches!(*self.state.borrow(), Connection::Rejected { .. });
            if stopped || self.closed.is_cancelled() {
                return Err(CallError::Disconnected(target.to_owned()));
            }
            let lane = self.lanes.get(self, target);
            if !lane.is_gone() && lane.queue.send(data.clone()).await.is_ok() {
                return Ok(());
            }
            if lane.is_gone() {
                if self.end_target(target, || self.lanes.remove_same(target, &lane)) {
                    return Err(CallError::NotFound(target.to_owned()));
                }
            } else {
                // It had ended for want of work.
                self.lanes.remove_same(target, &lane);
            }
        }
    }
}

impl Lane {
    fn start(inner: &Arc<Inner>, function_id: &str, namespace: Option<&str>) -> Self {
        let (queue, waiting) = mpsc::channel(1);
        let status = Arc::new(Status {
            gone: AtomicBool::new(false),
            heard: AtomicU64::new(inner.epoch_now()),
            news: AtomicU64::new(0),
            bound: AtomicBool::new(false),
        });
        let driver = Driver {
            inner: inner.clone(),
            state: inner.state.clone(),
            function_id: function_id.to_owned(),
            namespace: namespace.map(str::to_owned),
            status: status.clone(),
            waiting,
            flights: FuturesUnordered::new(),
            held: BTreeMap::new(),
            next: 0,
            epoch: None,
            since: Instant::now(),
            retry_at: None,
            probing: 0,
        };
        inner.runtime.spawn(driver.run());
        Self { queue, status }
    }
}

/// A call that was made, and what it was made of.
struct Landed {
    number: u64,
    /// The connection it was given to, and what was known of the function then.
    epoch: u64,
    news: u64,
    unheard: bool,
    data: Json,
    outcome: Result<(), CallError>,
}

struct Driver {
    inner: Arc<Inner>,
    state: watch::Receiver<Connection>,
    function_id: String,
    namespace: Option<String>,
    status: Arc<Status>,
    waiting: mpsc::Receiver<Json>,
    flights: FuturesUnordered<BoxFuture<'static, Landed>>,
    /// To be made, by number.
    held: BTreeMap<u64, Json>,
    next: u64,
    epoch: Option<u64>,
    /// When the present connection was noticed.
    since: Instant,
    retry_at: Option<Instant>,
    /// Unanswered calls that were made while the function was unheard of.
    probing: usize,
}

impl Driver {
    async fn run(mut self) {
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
            let window = if self.is_unheard() || self.probing > 0 { 1 } else { WINDOW };
            let ready = self.epoch.is_some() && self.retry_at.is_none();
            if ready
                && self.flights.len() < window
                && let Some((number, data)) = self.held.pop_first()
            {
                self.launch(number, data);
                continue;
            }
            let room = self.held.is_empty() && self.flights.len() < WINDOW && self.epoch.is_some();
            let idle = self.held.is_empty()
                && self.flights.is_empty()
                && !self.status.bound.load(Ordering::SeqCst);
            let wake = self.retry_at.or(idle.then(|| Instant::now() + IDLE));
            tokio::select! {
                biased;
                () = self.inner.closed.cancelled() => return,
                changed = self.state.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
                Some(landed) = self.flights.next(), if !self.flights.is_empty() => {
                    if !self.land(landed) {
                        // Closing the queue is what tells a waiting caller.
                        self.status.gone.store(true, Ordering::SeqCst);
                        return;
                    }
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

    /// Whether the function has not been heard of since the connection is back.
    fn is_unheard(&self) -> bool {
        self.epoch.is_some_and(|epoch| self.status.heard.load(Ordering::SeqCst) < epoch)
    }

    /// Makes a call. The SDK has it when this returns.
    fn launch(&mut self, number: u64, data: Json) {
        let epoch = self.epoch.unwrap_or(0);
        let request = match request(self.namespace.as_deref(), &self.function_id, &data, ANSWER) {
            Ok(request) => request,
            Err(error) => {
                tracing::debug!(function = self.function_id, %error, "not a notification");
                return;
            }
        };
        let unheard = self.is_unheard();
        self.probing += usize::from(unheard);
        let news = self.status.news.load(Ordering::SeqCst);
        let (client, name) = (self.inner.client.clone(), self.function_id.clone());
        let mut flight = async move {
            let outcome = client.trigger(request).await;
            let outcome = outcome.map(drop).map_err(|error| failure(&name, ANSWER, error));
            Landed { number, epoch, news, unheard, data, outcome }
        }
        .boxed();
        match flight.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(landed) => {
                self.flights.push(futures_util::future::ready(landed).boxed());
            }
            Poll::Pending => self.flights.push(flight),
        }
    }

    /// Looks at an answer. `false` when the function is gone.
    fn land(&mut self, landed: Landed) -> bool {
        let Landed { number, epoch, news, unheard, data, outcome } = landed;
        self.probing -= usize::from(unheard);
        match outcome {
            Err(CallError::NotFound(_)) => {
                // Since the call was made, the connection or the function may have come back.
                let came = self.status.news.load(Ordering::SeqCst) != news;
                let returning = self.is_unheard() || self.epoch.is_none_or(|now| epoch < now);
                let settled =
                    self.epoch.is_some() && self.since.elapsed() > self.inner.config.settle;
                if !came && (!returning || settled) {
                    return false;
                }
                self.held.insert(number, data);
                self.retry_at = Some(Instant::now() + RETRY);
            }
            // These say nothing of the function: the connection, its worker or the call is at fault.
            Err(CallError::Disconnected(_) | CallError::Stopped(_)) => {}
            Err(CallError::PayloadTooLarge(error)) => {
                tracing::warn!(function = self.function_id, error, "a notification was not sent");
            }
            // It is there, and busy; or the call was lost with its connection.
            Err(CallError::Timeout { .. }) if self.epoch != Some(epoch) => {}
            outcome => {
                if let Err(error) = outcome {
                    tracing::debug!(function = self.function_id, %error, "notified in vain");
                }
                if let Some(now) = self.epoch {
                    self.status.heard.fetch_max(now, Ordering::SeqCst);
                }
            }
        }
        true
    }
}
