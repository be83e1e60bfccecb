//! Change events for surfaces: they name what is different, not its new content.

use std::{sync::Arc, time::Duration};

use futures_util::{
    Stream, StreamExt as _,
    stream::{self, BoxStream},
};
use skills_core::{Debounce, EntryKind, Layer, Owner, resolve::Prefix};
use tokio::sync::watch;

use crate::{
    Action, Change,
    feed::{ChangeItem, FeedItem, FeedSubscription},
    live::LiveChange,
};

/// Something that is different from before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeEvent {
    /// A skill was added, removed or has another body.
    Skill(Arc<str>),
    /// A prompt was added, removed or redefined.
    Prompt(Arc<str>),
    /// Versions or labels of a skill changed, and its plain id reads what it read before. Only addresses with a version,
    /// such as `iii://{id}@latest`, may read something else.
    SkillVersions(Arc<str>),
    /// A version of a skill was yanked, unyanked, purged or collected, so that its exact address, such as `iii://{id}@3`,
    /// reads something else. Follows the event of the skill.
    SkillVersion {
        /// Skill id.
        id: Arc<str>,
        /// Number of the version.
        version: u64,
    },
    /// Versions or labels of a prompt changed, and its plain name means what it meant before.
    PromptVersions(Arc<str>),
    /// A collection was added, removed or changed, or has other versions or labels.
    Collection(Arc<str>),
    /// Tools were added, removed or redefined.
    Tools,
    /// Functions that workers expose were added or removed.
    Functions,
    /// Anything may be different: the source of events was out of reach, events were missed, or the store lost commits.
    Everything,
}

/// Stream of change events from the time of the subscription, in commit order. It ends with the registry.
pub type ChangeEvents = BoxStream<'static, ChangeEvent>;

/// Change event with the callers that may see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedChangeEvent {
    /// Owner of the private layer that changed, who alone may see the event; `None` for events that every caller may see.
    pub owner: Option<Owner>,
    /// The event.
    pub event: ChangeEvent,
}

impl From<ChangeEvent> for OwnedChangeEvent {
    fn from(event: ChangeEvent) -> Self {
        Self { owner: None, event }
    }
}

/// Stream of change events of all callers, in commit order. It ends with the registry.
pub type OwnedChangeEvents = BoxStream<'static, OwnedChangeEvent>;

/// Debounce of the notifications of clients. Short, so that a client is notified of a change well within 50 ms.
pub const NOTIFY_DEBOUNCE: Debounce = Debounce::window(Duration::from_millis(5));

/// Feeds that change events come from.
pub(crate) struct EventSources {
    pub(crate) changes: FeedSubscription<ChangeItem>,
    pub(crate) live: FeedSubscription<LiveChange>,
    pub(crate) functions: Option<watch::Receiver<u64>>,
    pub(crate) tools_refreshes: watch::Receiver<u64>,
}

impl EventSources {
    /// Returns the events of the layers that `sees` accepts.
    pub(crate) fn into_events(
        self,
        sees: impl Fn(&Layer) -> bool + Send + 'static,
        affects_tools: impl Fn(&Change) -> bool + Send + 'static,
        prefix: Prefix,
    ) -> OwnedChangeEvents {
        let stored = feed_items(self.changes).flat_map(move |item| {
            let events = match item {
                FeedItem::Item(ChangeItem::Change { change, .. }) if sees(&change.key.layer) => {
                    let tools = change.affects_served && affects_tools(&change);
                    let tools = tools.then_some(ChangeEvent::Tools);
                    // The shorter name without the prefix may resolve to something else as well.
                    let names = || prefix.affected_names(&change.key.id).map(Arc::from);
                    let version = withdrawn_version(&change).into_iter();
                    let version = version.flat_map(|version| {
                        names().map(move |id| ChangeEvent::SkillVersion { id, version })
                    });
                    let events = names().map(ChangeEvent::of(&change)).chain(version).chain(tools);
                    let owner = private_owner(&change.key.layer);
                    events.map(|event| OwnedChangeEvent { owner: owner.cloned(), event }).collect()
                }
                FeedItem::Item(ChangeItem::Change { .. }) => vec![],
                // Versions that are not served may be different too.
                FeedItem::Item(ChangeItem::Reset(_)) | FeedItem::Missed(_) => {
                    vec![ChangeEvent::Everything.into()]
                }
            };
            stream::iter(events)
        });
        let live = feed_items(self.live).map(|item| match item {
            FeedItem::Item(LiveChange { kind, id, .. }) => ChangeEvent::entry(kind)(id),
            FeedItem::Missed(_) => ChangeEvent::Everything,
        });
        let refreshes = repeat_on_change(self.tools_refreshes, ChangeEvent::Tools);
        let public = stream::select(live, refreshes);
        let public = match self.functions {
            Some(functions) => {
                let functions = repeat_on_change(functions, ChangeEvent::Functions);
                stream::select(public, functions).boxed()
            }
            None => public.boxed(),
        };
        stream::select(stored, public.map(OwnedChangeEvent::from)).boxed()
    }
}

fn feed_items<T: Clone + Send + 'static>(
    feed: FeedSubscription<T>,
) -> impl Stream<Item = FeedItem<T>> + Send {
    stream::unfold(feed, |mut feed| async move { feed.next().await.map(|item| (item, feed)) })
}

/// Yields `event` each time the number changes.
fn repeat_on_change(
    number: watch::Receiver<u64>,
    event: ChangeEvent,
) -> impl Stream<Item = ChangeEvent> {
    stream::unfold((number, event), |(mut number, event)| async move {
        number.changed().await.ok()?;
        Some((event.clone(), (number, event)))
    })
}

/// Returns the version of a skill whose exact address reads something else after a change.
fn withdrawn_version(change: &Change) -> Option<u64> {
    match change.action {
        Action::Yank { version, .. }
        | Action::Unyank { version }
        | Action::Purge { version, .. }
        | Action::Collect { version } => {
            Some(version).filter(|_| change.key.kind == EntryKind::Skill)
        }
        Action::Put { .. } | Action::Remove | Action::Label { .. } => None,
    }
}

/// Returns the owner of a private layer.
const fn private_owner(layer: &Layer) -> Option<&Owner> {
    match layer {
        Layer::Private(owner) => Some(owner),
        Layer::Official | Layer::Market => None,
    }
}

/// Returns whether a caller with the private layer of `owner`, if any, sees a layer.
pub(crate) fn is_visible(layer: &Layer, owner: Option<&Owner>) -> bool {
    private_owner(layer).is_none_or(|other| owner == Some(other))
}

impl ChangeEvent {
    /// Returns the event of a change, given the name that it affects.
    fn of(change: &Change) -> fn(Arc<str>) -> Self {
        match (change.affects_served, change.key.kind) {
            (true, kind) => Self::entry(kind),
            (false, EntryKind::Skill) => Self::SkillVersions,
            (false, EntryKind::Prompt) => Self::PromptVersions,
            (false, EntryKind::Collection) => Self::Collection,
        }
    }

    fn entry(kind: EntryKind) -> fn(Arc<str>) -> Self {
        match kind {
            EntryKind::Skill => Self::Skill,
            EntryKind::Prompt => Self::Prompt,
            EntryKind::Collection => Self::Collection,
        }
    }
}
