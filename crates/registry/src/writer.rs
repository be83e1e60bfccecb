//! The writer, which alone changes the store and the catalog.
//!
//! Batches wait in one queue. The writer commits all waiting batches as one group (one flush of the disk), publishes
//! the result, and only then replies. So a client that has a reply can read what it wrote, and notifications are in
//! commit order. On a store that carries out batches concurrently, `concurrent_writes` takes the place of the groups. A
//! panic is caught; `recovery` brings the catalog up to the store again. `request_inbox` decides on which thread the writer
//! runs.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use skills_core::Timestamp;
use skills_store::{Batch, BatchError, Change, Effect, Mutation, NewValue, Store, StoreError};
use tokio::sync::oneshot;

use crate::{
    PendingWrite, RegistryError,
    concurrent_writes::{ConcurrentWrites, StoredWrite},
    live::LiveUpdate,
    publisher::Publisher,
    recovery::{self, Panicked},
    request_inbox::RequestInbox,
};

/// Most batches of a group; more would keep the first of them waiting.
pub(crate) const MAX_GROUP_BATCHES: usize = 512;
/// Most bytes of a group, unless its first batch alone has more.
pub(crate) const MAX_GROUP_BYTES: usize = 8 << 20;
/// Most bytes that may wait in the queue.
const MAX_QUEUED_BYTES: usize = 256 << 20;
/// Memory that a batch takes in the queue beside its content.
const BATCH_OVERHEAD: usize = 512;

/// Result of one batch, whose group was committed.
pub(crate) type BatchResult = Result<Vec<Effect>, BatchError>;
pub(crate) type WriteReply = oneshot::Sender<Result<BatchResult, RegistryError>>;

/// Compares what was read from the store with the known entries and returns the changes that other processes made, in
/// the order of their revisions. It must not block, except to read the catalog of a store that lost commits again.
pub(crate) type ExternalCheck = Box<dyn FnOnce(Timestamp) -> Vec<Change> + Send>;
/// Receives the number of changes when they are published. Dropped if they are not.
pub(crate) type ExternalReply = Box<dyn FnOnce(usize) + Send>;
type LiveReply = oneshot::Sender<()>;

pub(crate) enum Request {
    Write(QueuedWrite),
    /// Writes of one group.
    WriteTogether(Vec<QueuedWrite>),
    Stored(StoredWrite),
    External {
        check: ExternalCheck,
        reply: ExternalReply,
    },
    Live {
        updates: Vec<LiveUpdate>,
        reply: LiveReply,
    },
    /// The registry closes: the thread ends after the requests before this one.
    Close,
}

/// A write in the queue.
pub(crate) struct QueuedWrite {
    pub(crate) batch: Batch,
    pub(crate) bytes: usize,
    pub(crate) reply: WriteReply,
    /// True if it is committed in the same group as the write before it, whatever the limits of a group.
    joins_previous: bool,
}

/// Handle of the writer. Dropping it ends the thread after the requests before.
#[derive(Debug)]
pub(crate) struct Writer(Arc<RequestInbox>);

impl Writer {
    pub(crate) fn start(
        store: Arc<dyn Store>,
        publisher: Arc<Publisher>,
    ) -> std::io::Result<(Self, thread::JoinHandle<()>)> {
        let inbox = RequestInbox::new(store, publisher);
        let worker = Arc::clone(&inbox);
        let thread = thread::Builder::new()
            .name("registry-writer".to_owned())
            .spawn(move || worker.run_thread())?;
        Ok((Self(inbox), thread))
    }

    /// Queues a batch. `convert` makes the result of the write from that of the batch.
    pub(crate) fn submit<T: Send + 'static>(
        &self,
        batch: Batch,
        convert: impl FnOnce(BatchResult) -> Result<T, RegistryError> + Send + 'static,
    ) -> PendingWrite<T> {
        let bytes = batch_bytes(&batch);
        if let Err(error) = self.reserve(bytes) {
            return PendingWrite::reject(error);
        }
        let joins_previous = false;
        let request = |reply| Request::Write(QueuedWrite { batch, bytes, reply, joins_previous });
        self.send(request, |result| convert(result?))
    }

    /// Queues batches that are committed in one group: no other process sees some of them without the others. Each is
    /// atomic by itself. A store that carries out batches concurrently has no groups.
    pub(crate) fn submit_together<T: Send + 'static>(
        &self,
        batches: Vec<Batch>,
        convert: impl Fn(BatchResult) -> Result<T, RegistryError> + Send + 'static,
    ) -> PendingWrite<Vec<Result<T, RegistryError>>> {
        if let Err(error) = self.reserve(batches.iter().map(batch_bytes).sum()) {
            return PendingWrite::reject(error);
        }
        let (mut writes, mut results) = (Vec::new(), Vec::new());
        for batch in batches {
            let (reply, result) = oneshot::channel();
            let (bytes, joins_previous) = (batch_bytes(&batch), !writes.is_empty());
            writes.push(QueuedWrite { batch, bytes, reply, joins_previous });
            results.push(result);
        }
        let publisher = Arc::clone(&self.0.publisher);
        if self.0.push(Request::WriteTogether(writes)).is_err() {
            return PendingWrite::reject(publisher.closed_error());
        }
        PendingWrite::new(async move {
            let mut converted = Vec::with_capacity(results.len());
            for result in results {
                let result: Result<BatchResult, _> =
                    result.await.unwrap_or_else(|_| Err(publisher.dropped_error()));
                converted.push(result.and_then(&convert));
            }
            Ok(converted)
        })
    }

    /// Counts bytes that will wait in the queue. While the store is lost nothing may wait: the group before may take until
    /// its time limit.
    fn reserve(&self, bytes: usize) -> Result<(), RegistryError> {
        self.0.publisher.store_contact.check_reachable()?;
        let queued_bytes = &self.0.queued_bytes;
        if queued_bytes.fetch_add(bytes, Ordering::Relaxed) > MAX_QUEUED_BYTES {
            queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
            return Err(RegistryError::Overloaded);
        }
        Ok(())
    }

    /// Queues a check for external changes. At most one runs between two groups of writes.
    pub(crate) fn check_external(&self, check: ExternalCheck) -> PendingWrite<usize> {
        let request = |reply: oneshot::Sender<usize>| {
            let reply: ExternalReply = Box::new(|count| {
                let _ = reply.send(count);
            });
            Request::External { check, reply }
        };
        self.send(request, Ok)
    }

    /// Queues a check for external changes. `reply` is dropped if it does not run.
    pub(crate) fn queue_external(&self, check: ExternalCheck, reply: ExternalReply) {
        let _ = self.0.push(Request::External { check, reply });
    }

    /// Queues updates of live clients. They are not stored, but only the writer swaps the catalog.
    pub(crate) fn update_live(&self, updates: Vec<LiveUpdate>) -> PendingWrite<()> {
        self.send(|reply| Request::Live { updates, reply }, Ok)
    }

    fn send<T: Send + 'static, U: Send + 'static>(
        &self,
        request: impl FnOnce(oneshot::Sender<T>) -> Request,
        convert: impl FnOnce(T) -> Result<U, RegistryError> + Send + 'static,
    ) -> PendingWrite<U> {
        let (reply, result) = oneshot::channel();
        let publisher = Arc::clone(&self.0.publisher);
        if self.0.push(request(reply)).is_err() {
            return PendingWrite::reject(publisher.closed_error());
        }
        PendingWrite::new(
            async move { convert(result.await.map_err(|_| publisher.dropped_error())?) },
        )
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.0.push(Request::Close);
    }
}

fn batch_bytes(batch: &Batch) -> usize {
    BATCH_OVERHEAD + batch.mutations.iter().map(mutation_bytes).sum::<usize>()
}

fn mutation_bytes(mutation: &Mutation) -> usize {
    match mutation {
        Mutation::Put { content, blobs, .. } => {
            content.weight() + blobs.iter().map(|(_, bytes)| bytes.len()).sum::<usize>()
        }
        Mutation::StateSet { value: NewValue::Given(value), .. } => value.len(),
        Mutation::StateSet { .. }
        | Mutation::Remove(_)
        | Mutation::Version { .. }
        | Mutation::StateDelete { .. } => 0,
    }
}

/// Replies of a group that panicked. Dropping them tells the clients that the outcome is unknown.
pub(crate) struct Unanswered(
    #[expect(dead_code, reason = "kept for its drop")] pub(crate) Vec<WriteReply>,
);

impl From<Panicked> for Unanswered {
    fn from(_: Panicked) -> Self {
        Self(vec![])
    }
}

/// Received requests by kind, each in order. A write waits for one external check at most, however many came before it.
#[derive(Default)]
pub(crate) struct RequestQueues {
    writes: VecDeque<QueuedWrite>,
    checks: VecDeque<(ExternalCheck, ExternalReply)>,
    live: VecDeque<(Vec<LiveUpdate>, LiveReply)>,
    /// Writes in progress on a store that carries them out concurrently.
    concurrent: Option<ConcurrentWrites>,
    /// Replies of a panic after which the thread has to bring the catalog up to the store.
    pub(crate) interrupted: Option<Unanswered>,
    pub(crate) is_closing: bool,
}

impl RequestQueues {
    pub(crate) fn new(concurrent: Option<ConcurrentWrites>) -> Self {
        Self { concurrent, ..Self::default() }
    }

    /// Returns whether a write can be carried out before the next request.
    pub(crate) fn has_writes(&self) -> bool {
        match &self.concurrent {
            Some(open) => open.has_work() || (open.has_room() && !self.writes.is_empty()),
            None => !self.writes.is_empty(),
        }
    }

    /// Returns whether something can be done before the next request.
    pub(crate) fn has_work(&self) -> bool {
        self.has_writes() || !self.checks.is_empty() || !self.live.is_empty()
    }

    /// Returns whether the registry closes and every request has its reply.
    pub(crate) fn is_finished(&self) -> bool {
        let is_idle = self.concurrent.as_ref().is_none_or(ConcurrentWrites::is_idle);
        self.is_closing && is_idle && !self.has_work()
    }

    pub(crate) fn push(&mut self, request: Request) {
        match request {
            Request::Write(write) => self.writes.push_back(write),
            Request::WriteTogether(writes) => self.writes.extend(writes),
            Request::Stored(stored) => {
                if let Some(open) = &mut self.concurrent {
                    open.push_stored(stored);
                }
            }
            Request::External { check, reply } => self.checks.push_back((check, reply)),
            Request::Live { updates, reply } => self.live.push_back((updates, reply)),
            Request::Close => self.is_closing = true,
        }
    }

    /// Carries out the next writes.
    pub(crate) fn run_writes(
        &mut self,
        store: &dyn Store,
        publisher: &Publisher,
        queued_bytes: &AtomicUsize,
    ) -> Result<(), Unanswered> {
        if let Some(open) = &mut self.concurrent {
            open.advance(&mut self.writes, publisher, queued_bytes)?;
        } else if let Some(group) = self.next_group() {
            queued_bytes.fetch_sub(group.bytes, Ordering::Relaxed);
            group.commit(store, publisher)?;
        }
        Ok(())
    }

    /// Carries out the next writes, one external check, and all updates of live clients.
    pub(crate) fn run_next(
        &mut self,
        store: &dyn Store,
        publisher: &Publisher,
        queued_bytes: &AtomicUsize,
    ) -> Result<(), Unanswered> {
        self.run_writes(store, publisher, queued_bytes)?;
        if let Some((check, reply)) = self.checks.pop_front() {
            recovery::catch_panic(|| {
                let changes = check(Timestamp::now());
                let count = changes.len();
                publisher.publish(changes.into_iter().map(Effect::Changed).collect());
                reply(count);
            })?;
        }
        if !self.live.is_empty() {
            let (updates, replies): (Vec<_>, Vec<_>) = self.live.drain(..).unzip();
            let updates: Vec<LiveUpdate> = updates.into_iter().flatten().collect();
            recovery::catch_panic(|| {
                publisher.publish_live(&updates, Timestamp::now());
                for reply in replies {
                    let _ = reply.send(());
                }
            })?;
        }
        Ok(())
    }

    /// Takes the next writes, up to the limits of a group.
    fn next_group(&mut self) -> Option<WriteGroup> {
        let QueuedWrite { batch, bytes, reply, .. } = self.writes.pop_front()?;
        let mut group = WriteGroup { batches: vec![batch], replies: vec![reply], bytes };
        let fits = |group: &WriteGroup, next: &QueuedWrite| {
            let has_room = group.batches.len() < MAX_GROUP_BATCHES && group.bytes < MAX_GROUP_BYTES;
            has_room || next.joins_previous
        };
        while self.writes.front().is_some_and(|next| fits(&group, next))
            && let Some(QueuedWrite { batch, bytes, reply, .. }) = self.writes.pop_front()
        {
            group.batches.push(batch);
            group.replies.push(reply);
            group.bytes += bytes;
        }
        Some(group)
    }
}

/// Batches that are committed together.
struct WriteGroup {
    batches: Vec<Batch>,
    replies: Vec<WriteReply>,
    bytes: usize,
}

impl WriteGroup {
    fn commit(self, store: &dyn Store, publisher: &Publisher) -> Result<(), Unanswered> {
        let Self { batches, replies, .. } = self;
        // Fails at once; the follower finds out when the store is back.
        if let Err(error) = publisher.store_contact.check_reachable() {
            for reply in replies {
                let _ = reply.send(Err(error.clone()));
            }
            return Ok(());
        }
        let committed = recovery::catch_panic(|| {
            let results = store.commit(batches, Timestamp::now())?;
            let effects = results.iter().flatten().flatten().cloned().collect();
            recovery::publish_in_order(store, publisher, effects);
            Ok::<_, StoreError>(results)
        });
        match committed {
            Ok(Ok(results)) => {
                if results.iter().any(Result::is_ok) {
                    publisher.store_contact.record_commit(None);
                }
                for (reply, result) in replies.into_iter().zip(results) {
                    let _ = reply.send(Ok(result));
                }
            }
            Ok(Err(error)) => {
                tracing::error!(%error, writes = replies.len(), "commit failed");
                publisher.store_contact.record_commit(Some(&error));
                let error = RegistryError::from(error);
                for reply in replies {
                    let _ = reply.send(Err(error.clone()));
                }
            }
            Err(Panicked) => return Err(Unanswered(replies)),
        }
        Ok(())
    }
}
