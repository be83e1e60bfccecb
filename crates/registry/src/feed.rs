//! Announcements in order, for any number of subscribers, in bounded memory.
//!
//! A feed keeps the newest announcements up to a number of bytes. A subscriber that is slower than that
//! is told how many it missed and goes on from there; it never holds anyone up and is never skipped in
//! silence. For changes nothing is lost even then: [`ChangeFeed`] reads what was missed from the log, for as
//! long as the store keeps it.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use skills_store::{Change, Store, StoreError};
use tokio::sync::watch;

use crate::RegistryError;

/// What a subscriber receives.
#[derive(Debug, PartialEq, Eq)]
pub enum Delivery<T> {
    /// The next announcement.
    Item(T),
    /// So many announcements are gone: this subscriber fell behind.
    Missed(u64),
}

#[derive(Debug)]
struct Ring<T> {
    items: VecDeque<(T, usize)>,
    first: u64,
    bytes: usize,
    max_bytes: usize,
}

/// The sending side.
#[derive(Debug)]
pub struct Feed<T> {
    ring: Arc<Mutex<Ring<T>>>,
    end: watch::Sender<u64>,
}

/// One subscriber.
#[derive(Debug)]
pub struct Subscription<T> {
    ring: Arc<Mutex<Ring<T>>>,
    end: watch::Receiver<u64>,
    next: u64,
}

fn lock<T>(ring: &Mutex<Ring<T>>) -> MutexGuard<'_, Ring<T>> {
    ring.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T: Clone> Feed<T> {
    /// A feed that remembers at most `max_bytes`, and always the newest announcement.
    #[must_use]
    pub fn new(max_bytes: usize) -> Self {
        let ring = Ring { items: VecDeque::new(), first: 0, bytes: 0, max_bytes };
        Self { ring: Arc::new(Mutex::new(ring)), end: watch::Sender::new(0) }
    }

    /// Announces something that takes up `bytes`.
    pub fn send(&self, item: T, bytes: usize) {
        let mut ring = lock(&self.ring);
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

    /// A subscriber to everything that is announced from now on.
    #[must_use]
    pub fn subscribe(&self) -> Subscription<T> {
        let ring = lock(&self.ring);
        let next = ring.first + ring.items.len() as u64;
        drop(ring);
        Subscription { ring: Arc::clone(&self.ring), end: self.end.subscribe(), next }
    }
}

impl<T: Clone> Subscription<T> {
    /// Waits for the next announcement; `None` when the feed is gone.
    pub async fn next(&mut self) -> Option<Delivery<T>> {
        loop {
            if let Some(delivery) = self.try_next() {
                return Some(delivery);
            }
            let next = self.next;
            if self.end.wait_for(|end| *end > next).await.is_err() {
                return self.try_next();
            }
        }
    }

    /// The next announcement, if it is there already.
    pub fn try_next(&mut self) -> Option<Delivery<T>> {
        let ring = lock(&self.ring);
        if self.next < ring.first {
            let missed = ring.first - self.next;
            self.next = ring.first;
            return Some(Delivery::Missed(missed));
        }
        let at = usize::try_from(self.next - ring.first).ok()?;
        let item = ring.items.get(at)?.0.clone();
        self.next += 1;
        Some(Delivery::Item(item))
    }
}

/// Every change after a revision, in commit order, without gaps: what fell out of memory is read from
/// the log.
#[derive(Debug)]
pub struct ChangeFeed {
    live: Subscription<Arc<Change>>,
    store: Arc<dyn Store>,
    seen: u64,
    backlog: VecDeque<Arc<Change>>,
    /// The log may have more than was read.
    has_more: bool,
}

impl ChangeFeed {
    /// How many changes are read from the log at a time.
    const PAGE: usize = 500;

    pub(crate) fn new(
        live: Subscription<Arc<Change>>,
        store: Arc<dyn Store>,
        after_revision: u64,
    ) -> Self {
        Self { live, store, seen: after_revision, backlog: VecDeque::new(), has_more: false }
    }

    /// Waits for the next change; `None` when the registry is gone.
    ///
    /// # Errors
    /// When the log has to be read and cannot be; asking again tries again. A log that does not go back
    /// so far is such an error once ([`StoreError::Forgotten`]), and the next change is the oldest it has.
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
            match self.live.next().await {
                // What was announced may have been read from the log already.
                Some(Delivery::Item(change)) if change.revision <= self.seen => {}
                Some(Delivery::Item(change)) if change.revision == self.seen + 1 => {
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
    async fn everyone_gets_everything_in_order() {
        let feed = Feed::new(1000);
        let (mut one, mut two) = (feed.subscribe(), feed.subscribe());
        for number in 0..10 {
            feed.send(number, 1);
        }
        for number in 0..10 {
            assert_eq!(one.next().await, Some(Delivery::Item(number)));
            assert_eq!(two.next().await, Some(Delivery::Item(number)));
        }
        assert!(one.try_next().is_none());
    }

    #[tokio::test]
    async fn a_slow_subscriber_is_told_what_it_missed() {
        let feed = Feed::new(30);
        let mut slow = feed.subscribe();
        for number in 0..10 {
            feed.send(number, 10);
        }
        assert_eq!(slow.next().await, Some(Delivery::Missed(7)));
        assert_eq!(slow.next().await, Some(Delivery::Item(7)));
    }

    #[tokio::test]
    async fn one_large_announcement_still_arrives() {
        let feed = Feed::new(10);
        let mut subscription = feed.subscribe();
        feed.send("large", 1_000_000);
        assert_eq!(subscription.next().await, Some(Delivery::Item("large")));
    }

    #[tokio::test]
    async fn the_end_of_the_feed_comes_after_its_last_item() {
        let feed = Feed::new(10);
        let mut subscription = feed.subscribe();
        feed.send(1, 1);
        drop(feed);
        assert_eq!(subscription.next().await, Some(Delivery::Item(1)));
        assert_eq!(subscription.next().await, None);
    }
}
