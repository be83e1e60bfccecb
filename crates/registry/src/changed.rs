//! What surfaces hear of changes: that something is different, not what it is now.

use std::sync::Arc;

use futures_util::{StreamExt as _, stream::BoxStream};
use skills_core::Kind;
use skills_store::Change;
use tokio::sync::watch;

use crate::feed::{Delivery, Subscription};

/// Something that is different from before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Changed {
    /// A skill came, went or has another body.
    Skill(Arc<str>),
    /// A prompt came, went or is defined otherwise.
    Prompt(Arc<str>),
    /// Functions that workers offer came or went.
    Functions,
    /// Anything may have changed: the source of the news was out of reach, or too much happened.
    Everything,
}

/// News from the moment it was asked for, in the order in which they happened. It ends with the registry.
pub type Changes = BoxStream<'static, Changed>;

/// The news of a feed of changes and of a bus.
pub(crate) fn of_feed(
    feed: Subscription<Arc<Change>>,
    functions: Option<watch::Receiver<u64>>,
) -> Changes {
    let entries = futures_util::stream::unfold(feed, |mut feed| async move {
        let changed = match feed.next().await? {
            Delivery::Item(change) => Changed::of(&change),
            Delivery::Missed(_) => Changed::Everything,
        };
        Some((changed, feed))
    });
    match functions {
        Some(functions) => {
            let functions = futures_util::stream::unfold(functions, |mut functions| async move {
                functions.changed().await.ok()?;
                Some((Changed::Functions, functions))
            });
            futures_util::stream::select(entries, functions).boxed()
        }
        None => entries.boxed(),
    }
}

impl Changed {
    fn of(change: &Change) -> Self {
        let id = Arc::clone(&change.key.id);
        match change.key.kind {
            Kind::Skill => Self::Skill(id),
            Kind::Prompt => Self::Prompt(id),
        }
    }
}
