//! Lanes: one queue of notifications per subscribed function.
//!
//! A void call has no answer, so its sender would learn neither that the function is gone nor that the call was lost
//! with the connection. A lane therefore makes ordinary calls and sends the next ones before their answers arrive.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;
use skills_bus::{CallError, Json};
use tokio::sync::mpsc;

use super::driver::Driver;
use crate::client::{ConnectionState, Inner};

/// State of a lane that its driver shares with the rest of the client.
#[derive(Debug)]
pub(super) struct LaneStatus {
    /// The function does not exist any more.
    pub(super) is_gone: AtomicBool,
    /// Last connection on which the function was confirmed to exist.
    pub(super) confirmed_epoch: AtomicU64,
    /// Number of times that a subscription of the function arrived.
    pub(super) confirmations: AtomicU64,
    /// Whether a subscription created the lane. Other lanes end when they are idle.
    pub(super) is_subscribed: AtomicBool,
}

#[derive(Debug, Clone)]
struct Lane {
    queue: mpsc::Sender<Json>,
    status: Arc<LaneStatus>,
}

impl Lane {
    fn start(inner: &Arc<Inner>, function_id: &str, namespace: Option<&str>, epoch: u64) -> Self {
        let (queue, notifications) = mpsc::channel(1);
        let status = Arc::new(LaneStatus {
            is_gone: AtomicBool::new(false),
            confirmed_epoch: AtomicU64::new(epoch),
            confirmations: AtomicU64::new(0),
            is_subscribed: AtomicBool::new(false),
        });
        let driver = Driver::new(inner, function_id, namespace, status.clone(), notifications);
        tokio::spawn(driver.run());
        Self { queue, status }
    }

    fn is_gone(&self) -> bool {
        self.status.is_gone.load(Ordering::SeqCst)
    }
}

/// Lanes by target.
#[derive(Debug, Default)]
pub(crate) struct Lanes(Mutex<HashMap<String, Lane>>);

impl Lanes {
    /// Confirms that a function exists: a subscription of it has just arrived, on the connection `epoch`.
    pub(crate) fn confirm(
        &self,
        inner: &Arc<Inner>,
        target: &str,
        function_id: &str,
        namespace: Option<&str>,
        epoch: u64,
    ) {
        let mut lanes = self.0.lock();
        if lanes.get(target).is_some_and(|lane| lane.is_gone() || lane.queue.is_closed()) {
            lanes.remove(target);
        }
        let lane = lanes
            .entry(target.to_owned())
            .or_insert_with(|| Lane::start(inner, function_id, namespace, epoch));
        lane.status.confirmed_epoch.fetch_max(epoch, Ordering::SeqCst);
        lane.status.confirmations.fetch_add(1, Ordering::SeqCst);
        lane.status.is_subscribed.store(true, Ordering::SeqCst);
    }

    fn get(&self, inner: &Arc<Inner>, target: &str) -> Lane {
        let epoch = inner.client.epoch().unwrap_or(0);
        let mut lanes = self.0.lock();
        let start = || Lane::start(inner, target, None, epoch);
        lanes.entry(target.to_owned()).or_insert_with(start).clone()
    }

    pub(crate) fn remove(&self, target: &str) {
        self.0.lock().remove(target);
    }

    /// Removes this very lane; `false` if another one has replaced it.
    fn remove_same(&self, target: &str, lane: &Lane) -> bool {
        let mut lanes = self.0.lock();
        let is_replaced =
            lanes.get(target).is_some_and(|other| !Arc::ptr_eq(&other.status, &lane.status));
        if !is_replaced {
            lanes.remove(target);
        }
        !is_replaced
    }
}

impl Inner {
    /// Queues a notification on the lane of its function, waiting for room.
    pub(crate) async fn deliver(
        self: &Arc<Self>,
        target: &str,
        data: Json,
    ) -> Result<(), CallError> {
        loop {
            let is_rejected = matches!(*self.state.borrow(), ConnectionState::Rejected { .. });
            if is_rejected || self.client.is_closed() {
                return Err(CallError::Disconnected(target.to_owned()));
            }
            let lane = self.lanes.get(self, target);
            if !lane.is_gone() && lane.queue.send(data.clone()).await.is_ok() {
                return Ok(());
            }
            if lane.is_gone() {
                if self.end_subscriptions(target, || self.lanes.remove_same(target, &lane)) {
                    return Err(CallError::NotFound(target.to_owned()));
                }
            } else {
                // The lane had ended because it was idle.
                self.lanes.remove_same(target, &lane);
            }
        }
    }
}
