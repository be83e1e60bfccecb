//! Source of changes for one client: the registry's changes, and changed tools of workers.

use std::{collections::VecDeque, sync::Arc};

use futures_util::{StreamExt as _, stream};
use parking_lot::Mutex;
use skills_registry::{ChangeEvent, ChangeEvents, SkillRegistry};

use crate::server::Shared;

/// All changes from the moment of construction.
pub(crate) struct ChangeSource {
    pub(super) changes: ChangeEvents,
    pub(super) skills: Arc<dyn SkillRegistry>,
}

impl ChangeSource {
    pub(crate) fn new(shared: &Shared) -> Self {
        Self { changes: changes(shared), skills: Arc::clone(&shared.skills) }
    }
}

/// Merges the registry's changes with those of workers' tools. Ends when either ends.
fn changes(shared: &Shared) -> ChangeEvents {
    let (changes, tools) = (shared.skills.changes(), shared.worker_tools.subscribe());
    // The tools that the client may have listed: the first listing of a bus without tools is no change.
    let listed = shared.cached_worker_tools();
    stream::unfold((changes, tools, listed), |(mut changes, mut tools, mut listed)| async move {
        loop {
            tokio::select! {
                changed = changes.next() => return Some((changed?, (changes, tools, listed))),
                changed = tools.changed() => {
                    changed.ok()?;
                    let current = tools.borrow_and_update().clone().unwrap_or_default();
                    if current != listed {
                        listed = current;
                        return Some((ChangeEvent::Tools, (changes, tools, listed)));
                    }
                }
            }
        }
    })
    .boxed()
}

/// Most listen requests of one client between acknowledgement and start.
const MAX_PENDING_LISTENS: usize = 16;

/// Sources of listen requests that are acknowledged and not started yet, so that no change in between is lost.
#[derive(Default)]
pub(crate) struct PendingListens(Mutex<VecDeque<ChangeSource>>);

impl PendingListens {
    pub(crate) fn push(&self, shared: &Shared) {
        let mut sources = self.0.lock();
        // The oldest belongs to a request that failed.
        if sources.len() >= MAX_PENDING_LISTENS {
            sources.pop_front();
        }
        sources.push_back(ChangeSource::new(shared));
    }

    pub(crate) fn pop(&self, shared: &Shared) -> ChangeSource {
        self.0.lock().pop_front().unwrap_or_else(|| ChangeSource::new(shared))
    }
}
