//! Void calls: one lane for each function that is notified.
//!
//! A void call has no answer, so nobody would learn that its function is gone, nor that it was lost
//! with the connection. A lane therefore makes ordinary calls and does not wait for their answers
//! before it makes the next; `driver` says what it does with them.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use tokio::sync::mpsc;

use super::{Connection, Inner, driver::Driver, lock};
use crate::{CallError, Json};

/// The state of a lane that others see.
#[derive(Debug)]
pub(super) struct Status {
    pub(super) gone: AtomicBool,
    /// The connection on which the function was last known to be there.
    pub(super) heard: AtomicU64,
    /// How often its subscribers have been heard of.
    pub(super) news: AtomicU64,
    /// Whether a subscription made it; else it ends when it has nothing to do.
    pub(super) bound: AtomicBool,
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
        let driver = Driver::new(inner, function_id, namespace, status.clone(), waiting);
        inner.runtime.spawn(driver.run());
        Self { queue, status }
    }
}
