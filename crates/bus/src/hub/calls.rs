//! Table of unanswered calls to workers.
//!
//! The hub gives each call an id of its own towards the callee. An answer counts only from the worker that serves the
//! call. When the callee disconnects, its calls fail; when the caller disconnects, its calls are removed unless it
//! reattaches soon.

use std::{
    collections::HashMap,
    sync::{Arc, atomic::Ordering},
};

use parking_lot::Mutex;
use skills_core::Coded as _;
use tokio::sync::oneshot;
use uuid::Uuid;

use super::{activate::ObservedCall, peer::Peer, routed_call_span::RoutedCallSpan};
use crate::{CallError, Json, running::CallCounter, wire::invocation_ids::InvocationIds};

/// Destination of an answer.
#[derive(Debug)]
pub(super) enum ReplyTo {
    /// A worker, with its invocation id as a JSON string.
    Worker { peer: Arc<Peer>, invocation_id: Box<str> },
    /// None: a void call that is in the table for its observers.
    Discard,
    /// This process.
    Local(oneshot::Sender<Result<Json, CallError>>),
}

#[derive(Debug)]
pub(super) struct PendingCall {
    pub(super) reply_to: ReplyTo,
    pub(super) callee: Arc<Peer>,
    /// Function id as a JSON string.
    pub(super) function_id: Box<str>,
    /// Set if the function has observers.
    pub(super) observed: Option<Box<ObservedCall>>,
    /// Set if spans of routed calls are enabled.
    pub(super) span: Option<Box<RoutedCallSpan>>,
}

impl PendingCall {
    fn is_from(&self, peer: &Arc<Peer>) -> bool {
        matches!(&self.reply_to, ReplyTo::Worker { peer: caller, .. } if Arc::ptr_eq(caller, peer))
    }

    /// Fails the call.
    pub(super) fn fail(mut self, error: &CallError) {
        if let Some(observed) = self.observed.take() {
            observed.complete(Err(&error.body()), None);
        }
        if let Some(span) = self.span.take() {
            span.finish(&error.code_text());
        }
        match self.reply_to {
            ReplyTo::Discard => {}
            ReplyTo::Worker { peer, invocation_id } => {
                peer.reply(&invocation_id, &self.function_id, Err(&error.body()));
            }
            ReplyTo::Local(answer) => drop(answer.send(Err(error.clone()))),
        }
    }

    /// Returns the error for a callee that has disconnected.
    fn stopped_error(&self) -> CallError {
        CallError::Stopped(self.function_id.trim_matches('"').to_owned())
    }
}

#[derive(Debug)]
pub(super) struct Calls {
    table: Mutex<HashMap<Uuid, PendingCall>>,
    ids: InvocationIds,
    pub(super) running: CallCounter,
}

impl Calls {
    pub(super) fn new() -> Self {
        Self {
            table: Mutex::default(),
            ids: InvocationIds::default(),
            running: CallCounter::default(),
        }
    }

    pub(super) fn next_id(&self) -> Uuid {
        self.ids.next_id()
    }

    /// Adds a call before it is sent; `None` if the callee or the caller has disconnected.
    pub(super) fn insert(&self, pending: PendingCall) -> Option<Uuid> {
        let id = self.next_id();
        let mut table = self.table.lock();
        let is_caller_gone =
            matches!(&pending.reply_to, ReplyTo::Worker { peer, .. } if peer.is_gone());
        if pending.callee.is_gone() || is_caller_gone {
            return None;
        }
        pending.callee.serving.fetch_add(1, Ordering::Relaxed);
        if let ReplyTo::Worker { peer, .. } = &pending.reply_to {
            peer.open_calls.fetch_add(1, Ordering::Relaxed);
        }
        self.running.increment();
        table.insert(id, pending);
        Some(id)
    }

    /// Removes a call.
    pub(super) fn remove(&self, id: Uuid) -> Option<PendingCall> {
        let pending = self.table.lock().remove(&id)?;
        self.uncount(&pending);
        Some(pending)
    }

    /// Removes a call that `callee` has answered; `None` if it does not serve the call.
    pub(super) fn remove_answered(&self, id: Uuid, callee: &Arc<Peer>) -> Option<PendingCall> {
        let mut table = self.table.lock();
        if !Arc::ptr_eq(&table.get(&id)?.callee, callee) {
            return None;
        }
        let pending = table.remove(&id)?;
        drop(table);
        self.uncount(&pending);
        Some(pending)
    }

    fn uncount(&self, pending: &PendingCall) {
        pending.callee.serving.fetch_sub(1, Ordering::Relaxed);
        if let ReplyTo::Worker { peer, .. } = &pending.reply_to {
            peer.open_calls.fetch_sub(1, Ordering::Relaxed);
        }
        self.running.decrement();
    }

    /// Removes the calls that a disconnected peer has made.
    pub(super) fn remove_calls_from(&self, peer: &Arc<Peer>) {
        self.fail_where(|pending| pending.is_from(peer));
    }

    /// Fails the calls that a disconnected peer served.
    pub(super) fn fail_calls_to(&self, peer: &Arc<Peer>) {
        self.fail_where(|pending| Arc::ptr_eq(&pending.callee, peer));
    }

    fn fail_where(&self, which: impl Fn(&PendingCall) -> bool) {
        let failed: Vec<PendingCall> = self
            .table
            .lock()
            .extract_if(|_, pending| which(pending))
            .map(|(_, pending)| pending)
            .collect();
        for pending in failed {
            self.uncount(&pending);
            let error = pending.stopped_error();
            // The queue of a disconnected caller drops the answer.
            pending.fail(&error);
        }
    }
}
