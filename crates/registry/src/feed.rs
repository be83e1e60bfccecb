//! Broadcast feeds: items in order, for any number of subscribers, in bounded memory.
//!
//! A feed buffers the newest items up to a number of bytes. A subscriber that falls behind the buffer receives the
//! number of missed items and goes on from there; it never blocks the sender. [`ChangeFeed`] loses no change even
//! then: it reads missed changes from the change log, for as long as the store keeps them.

use std::{collections::VecDeque, sync::Arc};

use parking_lot::Mutex;
use skills_store::{Store, StoreError};
use tokio::sync::watch;

use crate::{Change, RegistryError};

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

/// Subscription to all changes after a revision, in commit order and without gaps: changes that are no longer
/// buffered are read from the change log.
#[derive(Debug)]
pub struct ChangeFeed {
    feed: FeedSubscription<Arc<Change>>,
    store: Arc<dyn Store>,
    /// Revision of the last returned change.
    seen: u64,
    backlog: VecDeque<Arc<Change>>,
    /// True if the log may have more changes than were read.
    has_more: bool,
}

impl ChangeFeed {
    /// Changes that are read from the log at once.
    const PAGE: usize = 500;

    pub(crate) fn new(
        feed: FeedSubscription<Arc<Change>>,
        store: Arc<dyn Store>,
        after_revision: u64,
    ) -> Self {
        Self { feed, store, seen: after_revision, backlog: VecDeque::new(), has_more: false }
    }

    /// Waits for the next change; `None` when the registry is dropped.
    ///
    /// # Errors
    /// When the log has to be read and cannot be; the next call tries again. A log that begins later fails once with
    /// [`StoreError::Forgotten`]; the next change is then the oldest in the log.
    pub async fn next(&mut self) -> Result<Option<Arc<Change>>, RegistryError> {
        loop {
            if let Some(change) = self.backlog.pop_front() {
                self.seen = change.revision;
                return Ok(Some(change));
            }
            if self.has_more {
                self.read_log().await?;
                continue;
            }
            match self.feed.next().await {
                // It may have been read from the log already.
                Some(FeedItem::Item(change)) if change.revision <= self.seen => {}
                Some(FeedItem::Item(change)) if change.revision == self.seen + 1 => {
                    self.seen = change.revision;
                    return Ok(Some(change));
                }
                Some(_) => self.read_log().await?,
                None => return Ok(None),
            }
        }
    }

    async fn read_log(&mut self) -> Result<(), RegistryError> {
        let (store, seen) = (Arc::clone(&self.store), self.seen);
        let page = tokio::task::spawn_blocking(move || store.changes(seen, Self::PAGE))
            .await
            .map_err(|_| RegistryError::Closed)?
            .inspect_err(|error| {
                if let StoreError::Forgotten { until } = error {
                    self.seen = *until;
                    self.has_more = true;
                }
            })?;
        self.has_more = page.len() == Self::PAGE;
        self.backlog.extend(page.into_iter().map(Arc::new));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
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
}
