//! Broadcast feeds: items in order, for any number of subscribers, in bounded memory.
//!
//! A feed buffers the newest items up to a number of bytes. A subscriber that falls behind the buffer receives the
//! number of missed items and goes on from there; it never blocks the sender. [`ChangeFeed`] loses no change even
//! then: it reads missed changes from the change log, for as long as the store keeps them. A store that lost commits begins
//! another history of changes; the feed has the differences then.

use std::{collections::VecDeque, sync::Arc};

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
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
    pub(crate) to: StoredRevision,
    /// Last revision of the history before.
    pub(crate) from: u64,
    /// Entries that are different, each once.
    pub(crate) changes: Vec<Arc<Change>>,
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
        if reset.to.history <= self.seen.history {
            return;
        }
        self.backlog.extend(reset.changes.iter().cloned());
        // The differences are those to the last revision before. A subscriber that missed some of that history reads the
        // log on from the newest revision that both histories may have.
        self.has_more = self.seen.revision < reset.from;
        let revision = if self.has_more {
            self.seen.revision.min(reset.to.revision)
        } else {
            reset.to.revision
        };
        self.seen = StoredRevision { revision, ..reset.to };
    }

    async fn read_log(&mut self) -> Result<(), RegistryError> {
        let (store, seen) = (Arc::clone(&self.store), self.seen.revision);
        let page = tokio::task::spawn_blocking(move || store.changes(seen, Self::PAGE))
            .await
            .map_err(|_| RegistryError::Closed)?
            .inspect_err(|error| {
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
    use skills_core::{EntryKey, EntryKind, Layer, Timestamp};
    use skills_store::MemoryStore;

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

    fn change(revision: u64, id: &str) -> Arc<Change> {
        let key = EntryKey { kind: EntryKind::Skill, layer: Layer::Official, id: id.into() };
        let (at, actor) = (Timestamp::from_micros(0), "t".into());
        Arc::new(Change::without_history(revision, at, actor, key, None))
    }

    /// Sends the end of one history, a reset and a change of the next one, and returns what a subscriber of both gets.
    async fn received_with(max_bytes: usize) -> Vec<String> {
        let (feed, last_reset) = (Feed::new(max_bytes), Arc::new(ArcSwapOption::empty()));
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let seen = StoredRevision { history: 0, revision: 4 };
        let mut changes = ChangeFeed::new(feed.subscribe(), Arc::clone(&last_reset), store, seen);
        feed.send(ChangeItem::Change { history: 0, change: change(5, "old") }, 1);
        let to = StoredRevision { history: 1, revision: 3 };
        let differences = vec![change(3, "one"), change(3, "two")];
        let reset = Arc::new(HistoryReset { to, from: 5, changes: differences });
        last_reset.store(Some(Arc::clone(&reset)));
        feed.send(ChangeItem::Reset(reset), 1);
        feed.send(ChangeItem::Change { history: 1, change: change(4, "new") }, 1);
        drop(feed);
        let mut received = vec![];
        while let Some(change) = changes.next().await.unwrap() {
            received.push(change.key.id.to_string());
        }
        received
    }

    #[tokio::test]
    async fn a_subscriber_goes_on_in_another_history_after_its_differences() {
        assert_eq!(received_with(1000).await, ["old", "one", "two", "new"]);
    }

    #[tokio::test]
    async fn a_subscriber_that_missed_the_reset_receives_its_differences() {
        assert_eq!(received_with(1).await, ["one", "two", "new"]);
    }
}
