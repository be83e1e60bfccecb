//! Recovery of the writer thread after a panic: brings the catalog up to the store and goes on, or gives up.
//!
//! A panic in a group of writes leaves open whether the group was stored. The change log has every change of skills
//! and prompts, so all changes that the catalog lacks are published before writes are accepted again. Changes of the
//! bus state are not in the log: subscribers are not notified of those of the group, even if they were stored.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    thread,
    time::Duration,
};

use skills_store::{Effect, Store, StoreError};

use crate::{lost_commits, publisher::Publisher};

/// Pauses before each attempt to read the log. Longer than a transient disk fault, shorter than a supervisor waits.
const RETRY_DELAYS: [Duration; 5] = [
    Duration::ZERO,
    Duration::from_millis(50),
    Duration::from_millis(200),
    Duration::from_secs(1),
    Duration::from_secs(3),
];

/// Changes that are read from the log at once.
pub(crate) const PAGE: usize = 1024;

/// State of the writer thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WriterHealth {
    /// Writes are accepted.
    #[default]
    Writing,
    /// A panic was caught; writes wait until the catalog agrees with the store again.
    Recovering,
    /// The catalog could not be brought up to the store. No write is accepted until the process is restarted.
    Failed,
}

/// A panic was caught.
#[derive(Debug)]
pub(crate) struct Panicked;

/// Runs a part of the writer's work.
///
/// # Errors
/// When it panics.
pub(crate) fn catch_panic<T>(work: impl FnOnce() -> T) -> Result<T, Panicked> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        tracing::error!(panic = message(&*panic), "writer thread panicked");
        Panicked
    })
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

/// Publishes the changes that the store has and the catalog lacks. Returns whether writes can go on.
pub(crate) fn recover(store: &dyn Store, publisher: &Publisher) -> bool {
    publisher.health.send_replace(WriterHealth::Recovering);
    for delay in RETRY_DELAYS {
        thread::sleep(delay);
        match catch_panic(|| catch_up(store, publisher)) {
            Ok(Ok(changes)) => {
                tracing::warn!(changes, "writer thread recovered");
                publisher.health.send_replace(WriterHealth::Writing);
                return true;
            }
            Ok(Err(error)) => tracing::error!(%error, "change log not readable after a panic"),
            Err(Panicked) => {}
        }
    }
    tracing::error!("writer thread stopped: the catalog could not be brought up to the store");
    publisher.health.send_replace(WriterHealth::Failed);
    false
}

/// Publishes the effects of a group, after the changes of other servers that precede them. These are read from the log;
/// if it cannot be read, the changes of the group wait for the follower too. A revision that the catalog has already is
/// given out again by a store that lost commits.
pub(crate) fn publish_in_order(store: &dyn Store, publisher: &Publisher, mut effects: Vec<Effect>) {
    let revision = |effect: &Effect| match effect {
        Effect::Changed(change) | Effect::Erased { change, .. } => Some(change.revision),
        Effect::Nothing | Effect::Unchanged { .. } | Effect::State(_) => None,
    };
    let known = || publisher.catalog.load().revision();
    if effects.iter().filter_map(revision).any(|revision| revision <= known())
        && let Err(error) = lost_commits::repair(store, publisher)
    {
        tracing::error!(%error, "change log not readable after a commit");
    }
    let first = effects.iter().filter_map(revision).filter(|revision| *revision > known()).min();
    let mut delays = RETRY_DELAYS.iter();
    while let Some(first) = first
        && first > known() + 1
    {
        match store.unpublished_changes(known(), PAGE) {
            Ok(mut missing) => {
                missing.retain(|change| change.revision < first);
                publisher.forget_erased(&missing);
                if missing.is_empty() {
                    break;
                }
                publisher.publish(missing.into_iter().map(Effect::Changed).collect());
            }
            Err(error) => match delays.next() {
                Some(delay) => thread::sleep(*delay),
                None => {
                    tracing::error!(%error, "change log not readable after a commit");
                    effects.retain(|effect| revision(effect).is_none());
                    break;
                }
            },
        }
    }
    publisher.publish(effects);
}

fn catch_up(store: &dyn Store, publisher: &Publisher) -> Result<usize, StoreError> {
    let mut count = 0;
    loop {
        let changes = store.unpublished_changes(publisher.catalog.load().revision(), PAGE)?;
        if changes.is_empty() {
            return Ok(count);
        }
        count += changes.len();
        publisher.publish(changes.into_iter().map(Effect::Changed).collect());
    }
}
