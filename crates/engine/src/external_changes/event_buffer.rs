//! Buffer of state events that arrive before the registry is open.

use std::{collections::HashSet, sync::Arc};

use parking_lot::Mutex;

use super::{Follower, StateTriggerEvent, event_queue::MAX_RECHECKS};
use crate::state_store::entry_key;

/// Receives state events. Until a registry is open it only collects which records they are about; writes during the
/// first read of the state must not be missed.
#[derive(Debug, Clone, Default)]
pub struct EventBuffer(Arc<Mutex<BufferState>>);

#[derive(Debug)]
enum BufferState {
    /// Scopes and keys of records to recheck later.
    Buffering(HashSet<(String, String)>),
    /// Too many records: all have to be compared.
    Overflowed,
    Forwarding(Follower),
}

impl Default for BufferState {
    fn default() -> Self {
        Self::Buffering(HashSet::new())
    }
}

impl EventBuffer {
    /// Adds an event. Events keep the order of these calls.
    pub fn push(&self, event: StateTriggerEvent) {
        let mut state = self.0.lock();
        match &mut *state {
            BufferState::Buffering(records) => {
                records.insert((event.scope, event.key));
                if records.len() > MAX_RECHECKS {
                    *state = BufferState::Overflowed;
                }
            }
            BufferState::Overflowed => {}
            BufferState::Forwarding(follower) => follower.push(&event),
        }
    }

    /// Requests a comparison of all records: changes may have happened that no event reports.
    pub fn request_comparison(&self) {
        let mut state = self.0.lock();
        match &*state {
            BufferState::Buffering(_) | BufferState::Overflowed => *state = BufferState::Overflowed,
            BufferState::Forwarding(follower) => follower.request_comparison(),
        }
    }

    /// Forwards all further events to a follower, after the records that were buffered.
    pub fn forward_to(&self, follower: &Follower) {
        let mut state = self.0.lock();
        match &*state {
            BufferState::Buffering(records) => follower.update_queue(|queue| {
                for (scope, id) in records {
                    if let Some(kind) = follower.scopes().kind(scope) {
                        queue.enqueue_recheck(entry_key(kind, id));
                    }
                }
            }),
            BufferState::Overflowed => follower.request_comparison(),
            BufferState::Forwarding(_) => {}
        }
        *state = BufferState::Forwarding(follower.clone());
    }
}
