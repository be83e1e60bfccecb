//! Source of the dispatcher: the changes of the registry for all callers, and changed tools of workers.

use std::sync::Arc;

use futures_util::{StreamExt as _, stream};
use skills_registry::{ChangeEvent, OwnedChangeEvents, SkillRegistry};
use tokio::sync::watch;

use crate::tools::WorkerTools;

/// Tools of workers as last listed; `None` until the functions of the bus have been listed.
pub(crate) type ListedTools = Option<Arc<WorkerTools>>;

/// Merges the registry's changes with those of workers' tools. Ends when either ends.
pub(crate) fn changes(
    skills: &dyn SkillRegistry,
    tools: watch::Receiver<ListedTools>,
) -> OwnedChangeEvents {
    // The tools that clients may have listed: the first listing of a bus without tools is no change.
    let state = (skills.changes_by_owner(), tools, Arc::<WorkerTools>::default());
    stream::unfold(state, |(mut changes, mut tools, mut listed)| async move {
        loop {
            tokio::select! {
                changed = changes.next() => return Some((changed?, (changes, tools, listed))),
                changed = tools.changed() => {
                    changed.ok()?;
                    let current = tools.borrow_and_update().clone().unwrap_or_default();
                    if current != listed {
                        listed = current;
                        return Some((ChangeEvent::Tools.into(), (changes, tools, listed)));
                    }
                }
            }
        }
    })
    .boxed()
}
