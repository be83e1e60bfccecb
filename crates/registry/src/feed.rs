//! Broadcast feeds: items in order, for any number of subscribers, in bounded memory.
//!
//! A feed buffers the newest items up to a number of bytes. A subscriber that falls behind the buffer receives the
//! number of missed items and goes on from there; it never blocks the sender. [`ChangeFeed`] loses no change even
//! then: it reads missed changes from the change log, for as long as the store keeps them. A store that lost commits begins
//! another history of changes; the feed has the differences then.

use std::{
    cmp::Ordering,
    collections::{HashSet, VecDeque},
    sync::Arc,
};

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use skills_core::{EntryKey, work::run_own};
use skills_store::{Store, StoreError};
use tokio::sync::watch;

use crate::{Change, RegistryError, catalog::StoredRevision};

/// Item that a subscriber receives.
#[derive(Debug, PartialEq, Eq)]
pub enum FeedItem<T> {
    /// Next item.
    Item(T),
    /// Number of items that this subscriber missed because it fell behind.
    Missed(u64),
}

/// Buffer of the newest items.
#[derive(Debug)]
struct Ring<T> {
    /// Items with their sizes.
    items: VecDeque<(T, usize)>,
    /// Number of the first item.
    first: u64,
    bytes: usize,
    max_bytes: usize,
}

/// Sending side of a feed.
#[derive(Debug)]
pub struct Feed<T> {
    ring: Arc<Mutex<Ring<T>>>,
    end: watch::Sender<u64>,
}

/// Receiving side of a feed, with its own position.
#[derive(Debug)]
pub struct FeedSubscription<T> {
    ring: Arc<Mutex<Ring<T>>>,
    end: watch::Receiver<u64>,
    next: u64,
}

impl<T: Clone> Feed<T> {
    /// Creates a feed that buffers at most `max_bytes`, and always the newest item.
    #[must_use]
    pub fn new(max_bytes: usize) -> Self {
        let ring = Ring { items: VecDeque::new(), first: 0, bytes: 0, max_bytes };
        Self { ring: Arc::new(Mutex::new(ring)), end: watch::Sender::new(0) }
    }

    /// Sends an item that takes `bytes` of memory.
    pub fn send(&self, item: T, bytes: usize) {
        let mut ring = self.ring.lock();
        ring.items.push_back((item, bytes));
        ring.bytes += bytes;
        while ring.bytes > ring.max_bytes && ring.items.len() > 1 {
            if let Some((_, bytes)) = ring.items.pop_front() {
                ring.bytes -= bytes;
                ring.first += 1;
            }
        }
        let end = ring.first + ring.items.len() as u64;
        drop(ring);
        self.end.send_replace(end);
    }

    /// Subscribes to all items that are sent from now on.
    #[must_use]
    pub fn subscribe(&self) -> FeedSubscription<T> {
        let ring = self.ring.lock();
        let next = ring.first + ring.items.len() as u64;
        drop(ring);
        FeedSubscription { ring: Arc::clone(&self.ring), end: self.end.subscribe(), next }
    }
}

impl<T: Clone> FeedSubscription<T> {
    /// Waits for the next item; `None` when the feed is dropped.
    pub async fn next(&mut self) -> Option<FeedItem<T>> {
        loop {
            if let Some(item) = self.try_next() {
                return Some(item);
            }
            let next = self.next;
            if self.end.wait_for(|end| *end > next).await.is_err() {
                return self.try_next();
            }
        }
    }

    /// Returns the next item, if it was sent already.
    pub fn try_next(&mut self) -> Option<FeedItem<T>> {
        let ring = self.ring.lock();
        if self.next < ring.first {
            let missed = ring.first - self.next;
            self.next = ring.first;
            return Some(FeedItem::Missed(missed));
        }
        let at = usize::try_from(self.next - ring.first).ok()?;
        let item = ring.items.get(at)?.0.clone();
        self.next += 1;
        Some(FeedItem::Item(item))
    }
}

/// Item of the feed of changes.
#[derive(Debug, Clone)]
pub(crate) enum ChangeItem {
    /// Change of a history, in the order of its revisions.
    Change {
        /// Number of the history.
        history: u64,
        /// The change.
        change: Arc<Change>,
    },
    /// The store lost commits.
    Reset(Arc<HistoryReset>),
}

/// Begin of another history, after the store lost commits.
#[derive(Debug)]
pub(crate) struct HistoryReset {
    /// Revision in the new history from which on its changes follow.
    to: StoredRevision,
    /// Last revision of the history before.
    from: u64,
    /// Lowest revision from which on the changes of one of the merged histories follow.
    oldest_to: u64,
    /// Entries that are different, each once, with the number of the newest history that began with a difference.
    changes: Vec<(u64, Arc<Change>)>,
}

impl HistoryReset {
    /// Creates the reset that begins a history, with the entries that are different in it.
    pub(crate) fn new(to: StoredRevision, from: u64, changes: Vec<Change>) -> Self {
        let changes = changes.into_iter().map(|change| (to.history, Arc::new(change))).collect();
        Self { to, from, oldest_to: to.revision, changes }
    }

    /// Returns this reset for subscribers that missed earlier ones too: with the entries that only these name, as
    /// `change_of` tells their state now. It has each entry once, so it does not grow with the number of resets.
    pub(crate) fn merged_with(
        &self,
        earlier: &Self,
        change_of: impl Fn(&EntryKey) -> Change,
    ) -> Self {
        let named: HashSet<&EntryKey> =
            self.changes.iter().map(|(_, change)| &change.key).collect();
        let missing = earlier.changes.iter().filter(|(_, change)| !named.contains(&change.key));
        let missing = missing.map(|(history, change)| (*history, Arc::new(change_of(&change.key))));
        Self {
            to: self.to,
            from: self.from,
            oldest_to: self.oldest_to.min(earlier.oldest_to),
            changes: self.changes.iter().cloned().chain(missing).collect(),
        }
    }

    /// Returns the entries that are different for a subscriber of an earlier history.
    pub(crate) fn changes_since(&self, history: u64) -> impl Iterator<Item = Arc<Change>> {
        let newer = self.changes.iter().filter(move |(number, _)| *number > history);
        newer.map(|(_, change)| Arc::clone(change))
    }
}

/// Subscription to all changes after a revision, in commit order and without gaps: changes that are no longer
/// buffered are read from the change log.
#[derive(Debug)]
pub struct ChangeFeed {
    feed: FeedSubscription<ChangeItem>,
    last_reset: Arc<ArcSwapOption<HistoryReset>>,
    store: Arc<dyn Store>,
    /// Revision of the last change that was returned or is in the backlog.
    seen: StoredRevision,
    backlog: VecDeque<Arc<Change>>,
    /// True if the log may have more changes than were read.
    has_more: bool,
}

impl ChangeFeed {
    /// Changes that are read from the log at once.
    const PAGE: usize = 500;

    pub(crate) fn new(
        feed: FeedSubscription<ChangeItem>,
        last_reset: Arc<ArcSwapOption<HistoryReset>>,
        store: Arc<dyn Store>,
        after: StoredRevision,
    ) -> Self {
        let backlog = VecDeque::new();
        Self { feed, last_reset, store, seen: after, backlog, has_more: false }
    }

    /// Waits for the next change; `None` when the registry is dropped.
    ///
    /// # Errors
    /// When the log has to be read and cannot be; the next call tries again. A log that begins later fails once with
    /// [`StoreError::Forgotten`]; the next change is then the oldest in the log.
    pub async fn next(&mut self) -> Result<Option<Arc<Change>>, RegistryError> {
        loop {
            if let Some(change) = self.backlog.pop_front() {
                return Ok(Some(change));
            }
            if self.has_more {
                self.read_log().await?;
                continue;
            }
            match self.feed.next().await {
                Some(FeedItem::Item(ChangeItem::Reset(reset))) => self.apply_reset(&reset),
                Some(FeedItem::Item(ChangeItem::Change { history, change })) => {
                    let item = StoredRevision { history, revision: change.revision };
                    if item == self.seen.next() {
                        self.seen = item;
                        return Ok(Some(change));
                    }
                    // It may have been read from the log already.
                    self.has_more = item > self.seen;
                }
                Some(FeedItem::Missed(_)) => {
                    if let Some(reset) = self.last_reset.load_full() {
                        self.apply_reset(&reset);
                    }
                    self.has_more = true;
                }
                None => return Ok(None),
            }
        }
    }

    /// Goes on in the new history, after the entries that are different in it.
    fn apply_reset(&mut self, reset: &HistoryReset) {
        let seen = self.seen;
        if reset.to.history <= seen.history {
            return;
        }
        self.backlog.extend(reset.changes_since(seen.history));
        let has_missed_reset = seen.history + 1 < reset.to.history;
        let (revision, has_more) = match seen.revision.cmp(&reset.from) {
            // The differences are those to the last revision of each history. The log has the rest, from the newest revision
            // that all of the histories may have.
            _ if has_missed_reset => (seen.revision.min(reset.oldest_to), true),
            Ordering::Less => (seen.revision.min(reset.to.revision), true),
            Ordering::Equal => (reset.to.revision, false),
            // Only the log of the new history has later revisions than the history before, and these were read from it.
            Ordering::Greater => (seen.revision.max(reset.to.revision), false),
        };
        self.seen = StoredRevision { revision, ..reset.to };
        self.has_more = has_more;
    }

    async fn read_log(&mut self) -> Result<(), RegistryError> {
        let (store, seen) = (Arc::clone(&self.store), self.seen.revision);
        // Feeds belong to the tasks that tell workers of changes.
        let page =
            run_own("reading missed changes", move || store.changes(seen, Self::PAGE)).await?;
        if let Some(reset) = self.last_reset.load_full()
            && reset.to.history > self.seen.history
        {
            // The page may be of either history, so it is read again after the reset.
            self.apply_reset(&reset);
            return Ok(());
        }
        let page = page.inspect_err(|error| {
            if let StoreError::Forgotten { until } = error {
                self.seen.revision = *until;
                self.has_more = true;
            }
        })?;
        self.has_more = page.len() == Self::PAGE;
        self.seen.revision = page.last().map_or(seen, |change| change.revision);
        self.backlog.extend(page.into_iter().map(Arc::new));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use skills_core::{EntryKind, Layer, PromptDefinition, Timestamp};
    use skills_store::{Batch, EntryContent, MemoryStore, Mutation, PublishOptions};

    use super::*;

    #[tokio::test]
    async fn all_subscribers_receive_all_items_in_order() {
        let feed = Feed::new(1000);
        let (mut one, mut two) = (feed.subscribe(), feed.subscribe());
        for number in 0..10 {
            feed.send(number, 1);
        }
        for number in 0..10 {
            assert_eq!(one.next().await, Some(FeedItem::Item(number)));
            assert_eq!(two.next().await, Some(FeedItem::Item(number)));
        }
        assert!(one.try_next().is_none());
    }

    #[tokio::test]
    async fn a_slow_subscriber_receives_the_number_of_missed_items() {
        let feed = Feed::new(30);
        let mut slow = feed.subscribe();
        for number in 0..10 {
            feed.send(number, 10);
        }
        assert_eq!(slow.next().await, Some(FeedItem::Missed(7)));
        assert_eq!(slow.next().await, Some(FeedItem::Item(7)));
    }

    #[tokio::test]
    async fn an_item_larger_than_the_buffer_still_arrives() {
        let feed = Feed::new(10);
        let mut subscription = feed.subscribe();
        feed.send("large", 1_000_000);
        assert_eq!(subscription.next().await, Some(FeedItem::Item("large")));
    }

    #[tokio::test]
    async fn the_end_of_the_feed_comes_after_its_last_item() {
        let feed = Feed::new(10);
        let mut subscription = feed.subscribe();
        feed.send(1, 1);
        drop(feed);
        assert_eq!(subscription.next().await, Some(FeedItem::Item(1)));
        assert_eq!(subscription.next().await, None);
    }

    fn change(revision: u64, id: &str) -> Change {
        let key = EntryKey { kind: EntryKind::Skill, layer: Layer::Official, id: id.into() };
        let (at, actor) = (Timestamp::from_micros(0), "t".into());
        Change::without_history(revision, at, actor, key, None)
    }

    fn changed(history: u64, revision: u64, id: &str) -> ChangeItem {
        ChangeItem::Change { history, change: Arc::new(change(revision, id)) }
    }

    fn reset(history: u64, revision: u64, from: u64, ids: &[&str]) -> HistoryReset {
        let changes = ids.iter().map(|id| change(revision, id)).collect();
        HistoryReset::new(StoredRevision { history, revision }, from, changes)
    }

    /// Feed with a subscriber of history 0, on a store whose log is already that of the newest history.
    struct LaggingSubscriber {
        store: Arc<MemoryStore>,
        feed: Feed<ChangeItem>,
        last_reset: Arc<ArcSwapOption<HistoryReset>>,
        changes: ChangeFeed,
    }

    impl LaggingSubscriber {
        /// Creates a subscriber of a feed that buffers `max_bytes`. The log has entries that are named after their
        /// revisions.
        fn new(max_bytes: usize, seen: u64, log: u64) -> Self {
            let (feed, last_reset) = (Feed::new(max_bytes), Arc::new(ArcSwapOption::empty()));
            let store = Arc::new(MemoryStore::new());
            let seen = StoredRevision { history: 0, revision: seen };
            let (subscription, reset) = (feed.subscribe(), Arc::clone(&last_reset));
            let changes = ChangeFeed::new(subscription, reset, Arc::clone(&store) as _, seen);
            let subscriber = Self { store, feed, last_reset, changes };
            (1..=log).for_each(|revision| subscriber.commit(revision));
            subscriber
        }

        /// Adds the next change to the log.
        fn commit(&self, revision: u64) {
            let content = EntryContent::Prompt(PromptDefinition {
                description: revision.to_string(),
                arguments: vec![],
                function_id: "f::g".to_owned(),
            });
            let (layer, id) = (Layer::Official, revision.to_string().into());
            let (blobs, options) = (vec![], PublishOptions::default());
            let put = Mutation::Put { layer, id, content, blobs, options };
            let at = Timestamp::from_micros(revision.cast_signed());
            self.store.commit(vec![Batch::new("t", vec![put])], at).unwrap();
            assert_eq!(self.store.revision().unwrap(), revision);
        }

        /// Begins another history. `merged` is for subscribers that missed earlier ones too.
        fn reset(&self, reset: HistoryReset, merged: Option<HistoryReset>) {
            let reset = Arc::new(reset);
            let last_reset = merged.map_or_else(|| Arc::clone(&reset), Arc::new);
            self.last_reset.store(Some(last_reset));
            self.feed.send(ChangeItem::Reset(reset), 1);
        }

        async fn next(&mut self) -> String {
            self.changes.next().await.unwrap().unwrap().key.id.to_string()
        }

        /// Returns the rest of the changes.
        async fn received(self) -> Vec<String> {
            let Self { feed, mut changes, .. } = self;
            drop(feed);
            let mut received = vec![];
            while let Some(change) = changes.next().await.unwrap() {
                received.push(change.key.id.to_string());
            }
            received
        }
    }

    /// Sends the end of one history, a reset and a change of the next one, and returns what a subscriber of both gets.
    async fn received_with(max_bytes: usize) -> Vec<String> {
        let subscriber = LaggingSubscriber::new(max_bytes, 4, 0);
        subscriber.feed.send(changed(0, 5, "old"), 1);
        subscriber.reset(reset(1, 3, 5, &["one", "two"]), None);
        subscriber.feed.send(changed(1, 4, "new"), 1);
        subscriber.received().await
    }

    #[tokio::test]
    async fn a_subscriber_goes_on_in_another_history_after_its_differences() {
        assert_eq!(received_with(1000).await, ["old", "one", "two", "new"]);
    }

    #[tokio::test]
    async fn a_subscriber_that_missed_the_reset_receives_its_differences() {
        assert_eq!(received_with(1).await, ["one", "two", "new"]);
    }

    /// Lets a subscriber read a page of a history that began unnoticed, ends the history before at 400, and returns what
    /// the subscriber receives after the page.
    async fn received_after_a_page(to: u64) -> Vec<String> {
        let mut subscriber = LaggingSubscriber::new(1000, 0, 600);
        // The gap makes it read the log.
        subscriber.feed.send(changed(0, 400, "old"), 1);
        for revision in 1..=ChangeFeed::PAGE {
            assert_eq!(subscriber.next().await, revision.to_string());
        }
        subscriber.reset(reset(1, to, 400, &["different"]), None);
        subscriber.commit(601);
        subscriber.feed.send(changed(1, 601, "601"), 1);
        subscriber.received().await
    }

    fn numbers(revisions: std::ops::RangeInclusive<u64>) -> Vec<String> {
        let numbers = revisions.map(|revision| revision.to_string());
        std::iter::once("different".to_owned()).chain(numbers).collect()
    }

    #[tokio::test]
    async fn a_subscriber_that_reads_the_log_of_another_history_receives_each_change_once() {
        assert_eq!(received_after_a_page(550).await, numbers(551..=601));
        assert_eq!(received_after_a_page(450).await, numbers(501..=601), "read on before it");
    }

    #[tokio::test]
    async fn a_subscriber_that_missed_two_resets_receives_the_differences_of_both() {
        // The second history kept the changes 4 and 5 of the first one.
        let subscriber = LaggingSubscriber::new(1, 4, 5);
        let first = reset(1, 3, 4, &["one", "both"]);
        let second = reset(2, 5, 7, &["both", "two"]);
        let merged = second.merged_with(&first, |key| change(5, &key.id));
        subscriber.reset(first, None);
        subscriber.reset(second, Some(merged));
        subscriber.feed.send(changed(2, 6, "new"), 1);
        subscriber.commit(6);
        assert_eq!(subscriber.received().await, ["both", "two", "one", "4", "5", "6"]);
    }

    #[test]
    fn a_merged_reset_has_for_each_history_what_is_different_since() {
        let merged = reset(2, 5, 7, &["both", "two"])
            .merged_with(&reset(1, 3, 4, &["one", "both"]), |key| change(5, &key.id));
        let since = |history| {
            let changes = merged.changes_since(history);
            changes.map(|change| (change.key.id.to_string(), change.revision)).collect::<Vec<_>>()
        };
        let expected = [("both", 5), ("two", 5), ("one", 5)].map(|(id, at)| (id.to_owned(), at));
        assert_eq!(since(0), expected);
        assert_eq!(since(1), expected[..2]);
    }
}
