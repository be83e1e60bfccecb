//! Calls that a worker was asked to run and has not answered: who asked, and under which id.
//!
//! The hub gives each call an id of its own towards the callee. An answer counts only from the
//! worker that was asked. A callee that goes stops its calls; a caller that goes is forgotten
//! unless it comes back soon.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::sync::oneshot;
use uuid::Uuid;

use super::{activate::Observation, peer::Peer};
use crate::{CallError, Json, running::Gauge};

/// Who waits for an answer.
#[derive(Debug)]
pub(super) enum Caller {
    /// A worker, with its own id of the call as a JSON string.
    Worker { peer: Arc<Peer>, invocation_id: Box<str> },
    /// A worker or this process, without wanting an answer; noted for the observers' sake.
    Nobody,
    /// This process.
    Local(oneshot::Sender<Result<Json, CallError>>),
}

#[derive(Debug)]
pub(super) struct Pending {
    pub(super) caller: Caller,
    pub(super) callee: Arc<Peer>,
    /// As a JSON string.
    pub(super) function_id: Box<str>,
    /// What its observers will want to know.
    pub(super) observation: Option<Box<Observation>>,
}

impl Pending {
    fn is_from(&self, peer: &Arc<Peer>) -> bool {
        matches!(&self.caller, Caller::Worker { peer: caller, .. } if Arc::ptr_eq(caller, peer))
    }

    /// Gives up on the call.
    pub(super) fn fail(mut self, error: &CallError) {
        if let Some(observation) = self.observation.take() {
            observation.complete(Err(&error.body()), None);
        }
        match self.caller {
            Caller::Nobody => {}
            Caller::Worker { peer, invocation_id } => {
                peer.answer(&invocation_id, &self.function_id, Err(&error.body()));
            }
            Caller::Local(answer) => drop(answer.send(Err(error.clone()))),
        }
    }

    /// The error for a callee that has gone.
    pub(super) fn stopped(&self) -> CallError {
        CallError::Stopped(self.function_id.trim_matches('"').to_owned())
    }
}

#[derive(Debug)]
pub(super) struct Calls {
    table: Mutex<HashMap<Uuid, Pending>>,
    session: u64,
    next: AtomicU64,
    pub(super) running: Gauge,
}

impl Calls {
    pub(super) fn new() -> Self {
        Self {
            table: Mutex::default(),
            session: Uuid::new_v4().as_u64_pair().0,
            next: AtomicU64::new(0),
            running: Gauge::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Uuid, Pending>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An id that Rust SDKs accept (they parse UUIDs). It needs to be unique, not secret: an
    /// answer counts only from the worker that was asked.
    pub(super) fn next_id(&self) -> Uuid {
        let low = self.next.fetch_add(1, Ordering::Relaxed);
        let bytes = ((u128::from(self.session) << 64) | u128::from(low)).to_be_bytes();
        uuid::Builder::from_random_bytes(bytes).into_uuid()
    }

    /// Notes a call before it is sent.
    ///
    /// # Errors
    /// When the callee or the caller has gone; the call is handed back.
    pub(super) fn open(&self, pending: Pending) -> Result<Uuid, Pending> {
        let id = self.next_id();
        let mut table = self.lock();
        let caller_gone = matches!(&pending.caller, Caller::Worker { peer, .. } if peer.is_gone());
        if pending.callee.is_gone() || caller_gone {
            return Err(pending);
        }
        pending.callee.serving.fetch_add(1, Ordering::Relaxed);
        if let Caller::Worker { peer, .. } = &pending.caller {
            peer.open_calls.fetch_add(1, Ordering::Relaxed);
        }
        self.running.enter();
        table.insert(id, pending);
        Ok(id)
    }

    /// Ends a call, whoever ends it.
    pub(super) fn close(&self, id: Uuid) -> Option<Pending> {
        let pending = self.lock().remove(&id)?;
        self.account(&pending);
        Some(pending)
    }

    /// Ends a call with an answer from `callee`; `None` when it was not asked, or not any more.
    pub(super) fn answered(&self, id: Uuid, callee: &Arc<Peer>) -> Option<Pending> {
        let mut table = self.lock();
        if !Arc::ptr_eq(&table.get(&id)?.callee, callee) {
            return None;
        }
        let pending = table.remove(&id)?;
        drop(table);
        self.account(&pending);
        Some(pending)
    }

    fn account(&self, pending: &Pending) {
        pending.callee.serving.fetch_sub(1, Ordering::Relaxed);
        if let Caller::Worker { peer, .. } = &pending.caller {
            peer.open_calls.fetch_sub(1, Ordering::Relaxed);
        }
        self.running.leave();
    }

    /// Forgets the calls of a peer that has gone.
    pub(super) fn forget(&self, peer: &Arc<Peer>) {
        self.end(|pending| pending.is_from(peer));
    }

    /// Stops the calls that a peer was running when it went.
    pub(super) fn stop(&self, peer: &Arc<Peer>) {
        self.end(|pending| Arc::ptr_eq(&pending.callee, peer));
    }

    fn end(&self, which: impl Fn(&Pending) -> bool) {
        let ended: Vec<Pending> = self
            .lock()
            .extract_if(|_, pending| which(pending))
            .map(|(_, pending)| pending)
            .collect();
        for pending in ended {
            self.account(&pending);
            let error = pending.stopped();
            // Answers to a caller that has gone are dropped by its queue.
            pending.fail(&error);
        }
    }
}
