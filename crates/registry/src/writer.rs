//! The one thread that writes.
//!
//! Batches wait in one queue. The thread takes all that are waiting, commits them as one group (one
//! flush of the disk for all of them), swaps the catalog, announces the changes, and only then answers
//! those who wait. So whoever has an answer can read what they wrote, and announcements are in commit
//! order.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use arc_swap::ArcSwap;
use skills_core::Timestamp;
use skills_store::{
    Batch, BatchError, Change, Effect, Mutation, NewValue, StateChange, Store, StoreError,
};
use tokio::sync::{mpsc, oneshot, watch};

use crate::{
    Catalog, RegistryError,
    feed::Feed,
    live::{LiveChange, LiveUpdate},
};

/// How many batches one group may have; more would keep the first of them waiting.
const GROUP: usize = 512;
/// How many bytes one group may have, for the same reason.
const GROUP_BYTES: usize = 8 << 20;
/// How much may wait in the queue.
const MAX_QUEUED_BYTES: usize = 256 << 20;
/// What a batch costs in the queue beside its content.
const BATCH_OVERHEAD: usize = 512;
/// What the news of something that is not stored cost beside its id.
const LIVE_OVERHEAD: usize = 64;

/// Why a batch was not carried out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WriteError {
    #[error(transparent)]
    Batch(#[from] BatchError),
    #[error(transparent)]
    Registry(#[from] RegistryError),
}

type Reply = oneshot::Sender<Result<Vec<Effect>, WriteError>>;

/// What somebody else has done to the store, and whether finding that out went well.
#[derive(Debug, Default)]
pub struct Foreign {
    /// In the order of their revisions.
    pub changes: Vec<Change>,
    /// Why there may be more.
    pub error: Option<StoreError>,
}

impl From<Result<Option<Change>, StoreError>> for Foreign {
    fn from(result: Result<Option<Change>, StoreError>) -> Self {
        match result {
            Ok(change) => Self { changes: change.into_iter().collect(), error: None },
            Err(error) => Self { changes: vec![], error: Some(error) },
        }
    }
}

type Look = Box<dyn FnOnce(Timestamp) -> Foreign + Send>;
type LookReply = oneshot::Sender<Result<usize, RegistryError>>;

type LiveReply = oneshot::Sender<()>;

enum Request {
    Write { batch: Batch, bytes: usize, reply: Reply },
    Look { look: Look, reply: LookReply },
    Live { updates: Vec<LiveUpdate>, reply: LiveReply },
}

/// What the writer changes besides the store.
#[derive(Debug)]
pub(crate) struct Published {
    pub(crate) catalog: ArcSwap<Catalog>,
    pub(crate) changes: Feed<Arc<Change>>,
    pub(crate) state: Feed<Arc<StateChange>>,
    pub(crate) live: Feed<LiveChange>,
    /// How often the tools were to be asked for again.
    pub(crate) refreshed: watch::Sender<u64>,
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
        self.queue
            .send(Request::Write { batch, bytes, reply })
            .map_err(|_| RegistryError::Closed)?;
        Ok(answer)
    }

    /// Queues a look at what others have done. Between two groups of writes there is one at most.
    pub(crate) fn look(
        &self,
        look: Look,
    ) -> impl Future<Output = Result<usize, RegistryError>> + Send + use<> {
        let (reply, answer) = oneshot::channel();
        let sent = self.queue.send(Request::Look { look, reply });
        async move {
            sent.map_err(|_| RegistryError::Closed)?;
            answer.await.unwrap_or(Err(RegistryError::Closed))
        }
    }
}

impl Writer {
    /// Queues what became of live clients, which is not stored. It comes here because the catalog is swapped
    /// by one thread alone.
    pub(crate) fn live(
        &self,
        updates: Vec<LiveUpdate>,
    ) -> impl Future<Output = Result<(), RegistryError>> + Send + use<> {
        let (reply, answer) = oneshot::channel();
        let sent = self.queue.send(Request::Live { updates, reply });
        async move {
            sent.map_err(|_| RegistryError::Closed)?;
            answer.await.map_err(|_| RegistryError::Closed)
        }
    }
}

fn weight(mutation: &Mutation) -> usize {
    match mutation {
        Mutation::Put { content, blobs, .. } => {
            content.weight() + blobs.iter().map(|(_, bytes)| bytes.len()).sum::<usize>()
        }
        Mutation::StateSet { value: NewValue::Given(value), .. } => value.len(),
        Mutation::StateSet { .. } | Mutation::Remove(_) | Mutation::StateDelete { .. } => 0,
    }
}

fn run(
    mut requests: mpsc::UnboundedReceiver<Request>,
    store: &dyn Store,
    published: &Published,
    queued_bytes: &AtomicUsize,
) {
    let mut waiting = Waiting::default();
    while let Some(request) = requests.blocking_recv() {
        waiting.add(request);
        waiting.add_all(&mut requests);
        while !waiting.is_empty() {
            if let Some(group) = waiting.group() {
                queued_bytes.fetch_sub(group.bytes, Ordering::Relaxed);
                group.commit(store, published);
            }
            if let Some((look, reply)) = waiting.looks.pop_front() {
                let Foreign { changes, error } = look(now());
                let count = changes.len();
                publish(published, changes.into_iter().map(Effect::Changed).collect());
                let _ = reply.send(error.map_or(Ok(count), |error| Err(error.into())));
            }
            if !waiting.live.is_empty() {
                publish_live(published, waiting.live.drain(..).collect());
            }
            waiting.add_all(&mut requests);
        }
    }
}

/// What waits, each in the order in which it came. A write waits for one look at most, however many came
/// before it: each may take as long as a slow store does.
#[derive(Default)]
struct Waiting {
    writes: VecDeque<(Batch, usize, Reply)>,
    looks: VecDeque<(Look, LookReply)>,
    live: VecDeque<(Vec<LiveUpdate>, LiveReply)>,
}

impl Waiting {
    fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.looks.is_empty() && self.live.is_empty()
    }

    fn add(&mut self, request: Request) {
        match request {
            Request::Write { batch, bytes, reply } => self.writes.push_back((batch, bytes, reply)),
            Request::Look { look, reply } => self.looks.push_back((look, reply)),
            Request::Live { updates, reply } => self.live.push_back((updates, reply)),
        }
    }

    fn add_all(&mut self, requests: &mut mpsc::UnboundedReceiver<Request>) {
        while let Ok(request) = requests.try_recv() {
            self.add(request);
        }
    }

    /// The writes that come next, up to what makes a group.
    fn group(&mut self) -> Option<Group> {
        let (batch, bytes, reply) = self.writes.pop_front()?;
        let mut group = Group { batches: vec![batch], replies: vec![reply], bytes };
        while group.batches.len() < GROUP
            && group.bytes < GROUP_BYTES
            && let Some((batch, bytes, reply)) = self.writes.pop_front()
        {
            group.batches.push(batch);
            group.replies.push(reply);
            group.bytes += bytes;
        }
        Some(group)
    }
}

/// What is committed together.
struct Group {
    batches: Vec<Batch>,
    replies: Vec<Reply>,
    bytes: usize,
}

impl Group {
    fn commit(self, store: &dyn Store, published: &Published) {
        match store.commit(self.batches, now()) {
            Ok(outcome) => {
                publish(published, outcome.iter().flatten().flatten().cloned().collect());
                for (reply, result) in self.replies.into_iter().zip(outcome) {
                    let _ = reply.send(result.map_err(Into::into));
                }
            }
            Err(error) => refuse(self.replies, error),
        }
    }
}

/// Swaps the catalog, then announces: who hears of a change can already read it.
fn publish(published: &Published, effects: Vec<Effect>) {
    let (mut changes, mut state) = (Vec::new(), Vec::new());
    for effect in effects {
        match effect {
            Effect::Changed(change) => changes.push(Arc::new(change)),
            Effect::State(change) => state.push(change),
            Effect::Nothing => {}
        }
    }
    // A store may carry out the batches of a group side by side.
    changes.sort_by_key(|change| change.revision);
    if !changes.is_empty() {
        let next = published.catalog.load().with(changes.iter().map(AsRef::as_ref));
        published.catalog.store(Arc::new(next));
    }
    for change in changes {
        let bytes = BATCH_OVERHEAD + change.content.as_ref().map_or(0, |content| content.weight());
        published.changes.send(change, bytes);
    }
    for change in state {
        let size = |value: &Option<String>| value.as_ref().map_or(0, String::len);
        let bytes = BATCH_OVERHEAD + size(&change.old) + size(&change.new);
        published.state.send(Arc::new(change), bytes);
    }
}

/// The same for what is not stored.
fn publish_live(published: &Published, waiting: Vec<(Vec<LiveUpdate>, LiveReply)>) {
    let (updates, replies): (Vec<_>, Vec<_>) = waiting.into_iter().unzip();
    let updates: Vec<LiveUpdate> = updates.into_iter().flatten().collect();
    let (next, told) = published.catalog.load().with_live(&updates, now());
    published.catalog.store(Arc::new(next));
    for change in told {
        let bytes = LIVE_OVERHEAD + change.id.len();
        published.live.send(change, bytes);
    }
    for reply in replies {
        let _ = reply.send(());
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
