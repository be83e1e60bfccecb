//! What surfaces hear of changes: that something is different, not what it is now.

use std::sync::Arc;

use futures_util::{StreamExt as _, stream::BoxStream};
use skills_core::{Kind, Layer, Owner, resolve::Prefix};
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

/// The news of a feed of changes and of a bus, as far as they concern somebody: what changes in the private layer
/// of an owner is news for nobody else.
pub(crate) fn of_feed(
    feed: Subscription<Arc<Change>>,
    functions: Option<watch::Receiver<u64>>,
    owner: Option<Owner>,
    prefix: Prefix,
) -> Changes {
    let deliveries = futures_util::stream::unfold(feed, |mut feed| async move {
        feed.next().await.map(|delivery| (delivery, feed))
    });
    let entries = deliveries.flat_map(move |delivery| {
        let changed = match delivery {
            Delivery::Item(change) if is_for(&change.key.layer, owner.as_ref()) => {
                Changed::of(&change, &prefix)
            }
            Delivery::Item(_) => vec![],
            Delivery::Missed(_) => vec![Changed::Everything],
        };
        futures_util::stream::iter(changed)
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

/// Whether a change in a layer is news for who sees the private layer of `owner`, if any.
fn is_for(layer: &Layer, owner: Option<&Owner>) -> bool {
    match layer {
        Layer::Private(other) => owner == Some(other),
        Layer::Official | Layer::Market => true,
    }
}

impl Changed {
    /// What may lead to something else after a change: the id, and the shorter name that leads to it.
    fn of(change: &Change, prefix: &Prefix) -> Vec<Self> {
        let id = &change.key.id;
        let names = std::iter::once(Arc::clone(id)).chain(prefix.stripped(id).map(Arc::from));
        let changed = match change.key.kind {
            Kind::Skill => Self::Skill,
            Kind::Prompt => Self::Prompt,
        };
        names.map(changed).collect()
    }
}
