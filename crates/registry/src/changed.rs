//! What surfaces hear of changes: that something is different, not what it is now.

use std::sync::Arc;

use futures_util::{Stream, StreamExt as _, stream::BoxStream};
use skills_core::{Kind, Layer, Owner, resolve::Prefix};
use skills_store::Change;
use tokio::sync::watch;

use crate::{
    feed::{Delivery, Subscription},
    live::LiveChange,
};

/// Something that is different from before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Changed {
    /// A skill came, went or has another body.
    Skill(Arc<str>),
    /// A prompt came, went or is defined otherwise.
    Prompt(Arc<str>),
    /// Tools came, went or are defined otherwise.
    Tools,
    /// Functions that workers offer came or went.
    Functions,
    /// Anything may have changed: the source of the news was out of reach, or too much happened.
    Everything,
}

/// News from the moment it was asked for, in the order in which they happened. It ends with the registry.
pub type Changes = BoxStream<'static, Changed>;

/// Where news come from.
pub(crate) struct Sources {
    pub(crate) feed: Subscription<Arc<Change>>,
    pub(crate) live: Subscription<LiveChange>,
    pub(crate) functions: Option<watch::Receiver<u64>>,
    pub(crate) refreshed: watch::Receiver<u64>,
}

/// The news of feeds of changes and of a bus, as far as they concern somebody: what changes in the private layer
/// of an owner is news for nobody else.
pub(crate) fn of_feed(
    sources: Sources,
    owner: Option<Owner>,
    is_of_tool: impl Fn(&Change) -> bool + Send + 'static,
    prefix: Prefix,
) -> Changes {
    let Sources { feed, live, functions, refreshed } = sources;
    let entries = deliveries(feed).flat_map(move |delivery| {
        let changed = match delivery {
            Delivery::Item(change) if is_for(&change.key.layer, owner.as_ref()) => {
                let tools = is_of_tool(&change).then_some(Changed::Tools);
                Changed::of(&change, &prefix).into_iter().chain(tools).collect()
            }
            Delivery::Item(_) => vec![],
            Delivery::Missed(_) => vec![Changed::Everything],
        };
        futures_util::stream::iter(changed)
    });
    let live = deliveries(live).map(|delivery| match delivery {
        Delivery::Item(LiveChange { kind, id, .. }) => Changed::entry(kind)(id),
        Delivery::Missed(_) => Changed::Everything,
    });
    let entries = futures_util::stream::select(entries, live);
    let entries = futures_util::stream::select(entries, times(refreshed, Changed::Tools));
    match functions {
        Some(functions) => {
            futures_util::stream::select(entries, times(functions, Changed::Functions)).boxed()
        }
        None => entries.boxed(),
    }
}

fn deliveries<T: Clone + Send + 'static>(
    feed: Subscription<T>,
) -> impl Stream<Item = Delivery<T>> + Send {
    futures_util::stream::unfold(feed, |mut feed| async move {
        feed.next().await.map(|delivery| (delivery, feed))
    })
}

/// The same news each time a number changes.
fn times(number: watch::Receiver<u64>, changed: Changed) -> impl Stream<Item = Changed> {
    futures_util::stream::unfold((number, changed), |(mut number, changed)| async move {
        number.changed().await.ok()?;
        Some((changed.clone(), (number, changed)))
    })
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
        let names = prefix.names_of(&change.key.id).map(Arc::from);
        names.map(Self::entry(change.key.kind)).collect()
    }

    fn entry(kind: Kind) -> fn(Arc<str>) -> Self {
        match kind {
            Kind::Skill => Self::Skill,
            Kind::Prompt => Self::Prompt,
        }
    }
}
