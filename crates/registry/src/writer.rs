//! The one thread that writes.
//!
//! Batches wait in one queue. The thread takes all that are waiting, commits them as one group (one
//! flush of the disk for all of them), swaps the catalog, announces the changes, and only then answers
//! those who wait. So whoever has an answer can read what they wrote, and announcements are in commit
//! order.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use arc_swap::ArcSwap;
use skills_core::Timestamp;
use skills_store::{Batch, BatchError, Change, Effect, Mutation, StateChange, Store, StoreError};
use tokio::sync::{mpsc, oneshot};

use crate::{Catalog, RegistryError, feed::Feed};

/// How many batches one group may have; more would keep the first of them waiting.
const GROUP: usize = 512;
/// How many bytes one group may have, for the same reason.
const GROUP_BYTES: usize = 8 << 20;
/// How much may wait in the queue.
const MAX_QUEUED_BYTES: usize = 256 << 20;
/// What a batch costs in the queue beside its content.
const BATCH_OVERHEAD: usize = 512;

/// Why a batch was not carried out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WriteError {
    #[error(transparent)]
    Batch(#[from] BatchError),
    #[error(transparent)]
    Registry(#[from] RegistryError),
}

type Reply = oneshot::Sender<Result<Vec<Effect>, WriteError>>;

struct Request {
    batch: Batch,
    bytes: usize,
    reply: Reply,
}

/// What the writer changes besides the store.
#[derive(Debug)]
pub(crate) struct Published {
    pub(crate) catalog: ArcSwap<Catalog>,
    pub(crate) changes: Feed<Arc<Change>>,
    pub(crate) state: Feed<Arc<StateChange>>,
}

/// The queue in front of the thread.
#[derive(Debug)]
pub(crate) struct Writer {
    queue: mpsc::UnboundedSender<Request>,
    queued_bytes: Arc<AtomicUsize>,
}

impl Writer {
    pub(crate) fn start(
        store: Arc<dyn Store>,
        published: Arc<Published>,
    ) -> std::io::Result<(Self, thread::JoinHandle<()>)> {
        let (queue, requests) = mpsc::unbounded_channel();
        let queued_bytes = Arc::new(AtomicUsize::new(0));
        let waiting = Arc::clone(&queued_bytes);
        let thread = thread::Builder::new()
            .name("registry-writer".to_owned())
            .spawn(move || run(requests, &*store, &published, &waiting))?;
        Ok((Self { queue, queued_bytes }, thread))
    }

    /// Puts a batch in the queue, at once and in order, and returns what to wait for.
    pub(crate) fn submit(
        &self,
        batch: Batch,
    ) -> impl Future<Output = Result<Vec<Effect>, WriteError>> + use<> {
        let bytes = BATCH_OVERHEAD + batch.mutations.iter().map(weight).sum::<usize>();
        let answer = self.enqueue(batch, bytes);
        async move { answer?.await.unwrap_or(Err(RegistryError::Closed.into())) }
    }

    fn enqueue(
        &self,
        batch: Batch,
        bytes: usize,
    ) -> Result<oneshot::Receiver<Result<Vec<Effect>, WriteError>>, RegistryError> {
        if self.queued_bytes.fetch_add(bytes, Ordering::Relaxed) > MAX_QUEUED_BYTES {
            self.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
            return Err(RegistryError::Overloaded);
        }
        let (reply, answer) = oneshot::channel();
        self.queue.send(Request { batch, bytes, reply }).map_err(|_| RegistryError::Closed)?;
        Ok(answer)
    }
}

fn weight(mutation: &Mutation) -> usize {
    match mutation {
        Mutation::Put { blobs, .. } => blobs.iter().map(|(_, bytes)| bytes.len()).sum(),
        Mutation::StateSet { value, .. } => value.len(),
        Mutation::Remove(_) | Mutation::StateDelete { .. } => 0,
    }
}

fn run(
    mut requests: mpsc::UnboundedReceiver<Request>,
    store: &dyn Store,
    published: &Published,
    queued_bytes: &AtomicUsize,
) {
    while let Some(first) = requests.blocking_recv() {
        let (mut batches, mut replies) = (vec![first.batch], vec![first.reply]);
        let mut bytes = first.bytes;
        while batches.len() < GROUP
            && bytes < GROUP_BYTES
            && let Ok(request) = requests.try_recv()
        {
            bytes += request.bytes;
            batches.push(request.batch);
            replies.push(request.reply);
        }
        let outcome = store.commit(batches, now());
        queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
        match outcome {
            Ok(outcome) => {
                publish(published, outcome.iter().flatten().flatten());
                for (reply, result) in replies.into_iter().zip(outcome) {
                    let _ = reply.send(result.map_err(Into::into));
                }
            }
            Err(error) => refuse(replies, error),
        }
    }
}

/// Swaps the catalog, then announces: who hears of a change can already read it.
fn publish<'a>(published: &Published, effects: impl Iterator<Item = &'a Effect>) {
    let (mut changes, mut state) = (Vec::new(), Vec::new());
    for effect in effects {
        match effect {
            Effect::Changed(change) => changes.push(Arc::new(change.clone())),
            Effect::State(change) => state.push(change),
            Effect::Nothing => {}
        }
    }
    if !changes.is_empty() {
        let next = published.catalog.load().with(changes.iter().map(AsRef::as_ref));
        published.catalog.store(Arc::new(next));
    }
    for change in changes {
        published.changes.send(change, BATCH_OVERHEAD);
    }
    for change in state {
        let size = |value: &Option<String>| value.as_ref().map_or(0, String::len);
        let bytes = BATCH_OVERHEAD + size(&change.old) + size(&change.new);
        published.state.send(Arc::new(change.clone()), bytes);
    }
}

fn refuse(replies: Vec<Reply>, error: StoreError) {
    tracing::error!(%error, waiting = replies.len(), "a group of writes was not stored");
    let error = RegistryError::from(error);
    for reply in replies {
        let _ = reply.send(Err(error.clone().into()));
    }
}

fn now() -> Timestamp {
    Timestamp::from_micros(jiff::Timestamp::now().as_microsecond())
}
