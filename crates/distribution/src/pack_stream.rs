//! Packs of a history, streamed object by object: their bytes are read and compressed one at a time, unless the cache of
//! pack entries has them.
//!
//! A batch of objects is made on a blocking thread, under a permit of the client that reads the pack. Between two batches
//! a pack has no thread: one that waits for its client takes nothing but memory. That is reserved for the whole pack at its
//! start, and until the socket has taken the last batch: a batch is made as soon as those before it leave room for it.

use std::{sync::Arc, vec};

use axum::body::Body;
use bytes::Bytes;
use foldhash::{HashMap, HashMapExt as _, HashSet as IdSet, HashSetExt as _};
use futures_util::stream;
use skills_core::{
    Reservation, VersionSelector, WorkAccount, WorkError, WorkKind,
    work::{MEMORY_RETRY, MEMORY_WAIT, StopFlag},
};
use skills_git::{ObjectId, ObjectKind, PackWriter, SideBand, delta::delta};
use skills_registry::{Catalog, SkillRegistry, SkillRow};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    time::{Instant, sleep},
};

use crate::{
    error::DistributionError,
    history::{self, FolderSkill, History, Slot, wrapper},
    pack_entries::PackEntries,
    pack_plan::{Cursor, Item, Lacking, PackPlan, Parent},
    row_memory::scan_memory,
    skill_tree::{BlobIds, FileObject, read_file},
};

/// Bytes of a pack that are made and sent together.
const BATCH: usize = 128 << 10;
/// Bytes of a pack that were made and are not yet taken by the socket, but for one batch.
const WINDOW: usize = 384 << 10;
/// Batches that wait for the socket. Most are as large as the window allows.
const QUEUE: usize = 64;
/// Memory of the request of a pack that is being sent, besides the pack.
pub(crate) const REQUEST: usize = 16 << 10;
/// Files above this size are compressed in parts, and reserved in the client's share meanwhile.
const LARGE_FILE: usize = 128 << 10;
/// Most deltas that have to be applied for one object, as in packs of git.
const MAX_CHAIN: u32 = 50;
/// Larger slots are rendered again for the next delta: many packs may be sent at once, and each waits for its client.
const MAX_KEPT_SLOT: usize = 256 << 10;
/// Memory of a folder in a map by name.
const FOLDER: usize = 64;
/// Slots that are large and change little.
const DELTA_SLOTS: [Slot; 6] =
    [Slot::ClaudeFile, Slot::CodexFile, Slot::CursorFile, Slot::Readme, Slot::Skills, Slot::Dist];

const PACK: WorkKind = WorkKind::compute("objects of a git pack");
/// Number of times that a batch waits for a thread once more: a clone that fails in the middle begins anew.
const THREAD_RETRIES: usize = 3;

/// Returns the memory of a pack while it is sent, in bytes.
pub(crate) fn memory(plan: &PackPlan, history: &History) -> usize {
    // Slots of one commit are rendered one by one, and the largest may wait for the client; some are held for the next delta.
    let largest: usize = history.skills().map(|skill| skill.entry.len() + 16).sum();
    let held = if plan.commits > 1 {
        let lists: usize = history.skills().map(|skill| 3 * skill.entry.len() + 128).sum();
        history.skills().count() * 2 * FOLDER + lists.min(DELTA_SLOTS.len() * MAX_KEPT_SLOT)
    } else {
        0
    };
    plan.memory() + held + largest + WINDOW + 2 * BATCH
}

/// Sender of one pack.
pub(crate) struct PackSender {
    pub(crate) history: Arc<History>,
    pub(crate) skills: Arc<dyn SkillRegistry>,
    pub(crate) blobs: Arc<BlobIds>,
    pub(crate) entries: Arc<PackEntries>,
    /// Account of the client.
    pub(crate) account: WorkAccount,
    pub(crate) side_band: SideBand,
}

/// End of a pack that is not complete.
#[derive(Debug, thiserror::Error)]
enum SendError {
    /// The client has gone.
    #[error("the client has disconnected")]
    Disconnected,
    #[error(transparent)]
    Failed(#[from] DistributionError),
}

/// Batches on their way to the client.
struct Batches {
    queue: mpsc::Sender<Bytes>,
    /// Bytes of the window that are free.
    window: Arc<Semaphore>,
    reservation: Arc<Reservation>,
}

/// Batch, which has its part of the window until the socket has taken it.
struct Batch {
    bytes: Vec<u8>,
    _window: OwnedSemaphorePermit,
    _reservation: Arc<Reservation>,
}

impl AsRef<[u8]> for Batch {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Batches {
    /// Sends bytes as soon as the window has room for them.
    async fn send(&self, bytes: Vec<u8>) -> Result<(), SendError> {
        if bytes.is_empty() {
            return Ok(());
        }
        let room = u32::try_from(bytes.len().min(WINDOW)).unwrap_or(u32::MAX);
        let acquired = tokio::select! {
            acquired = Arc::clone(&self.window).acquire_many_owned(room) => acquired,
            () = self.queue.closed() => return Err(SendError::Disconnected),
        };
        let window = acquired.map_err(|_| SendError::Disconnected)?;
        let batch = Batch { bytes, _window: window, _reservation: Arc::clone(&self.reservation) };
        let sent = self.queue.send(Bytes::from_owner(batch)).await;
        sent.map_err(|_| SendError::Disconnected)
    }
}

/// Slot as it was last sent.
struct SentSlot {
    id: ObjectId,
    /// Bytes, if they were rendered, are small, and a later commit may need them.
    bytes: Option<Vec<u8>>,
    chain: u32,
}

/// Progress of a pack.
struct PackState {
    items: vec::IntoIter<Item>,
    pack: PackWriter,
    cursor: Cursor,
    /// Cursor at parents, whose slots are rendered as bases of deltas.
    base_cursor: Cursor,
    slots: HashMap<u8, SentSlot>,
    /// Number of the commit whose objects are sent.
    current: usize,
    /// Commit whose slots are bases of deltas.
    base: Option<usize>,
    /// Commits that follow the current one.
    commits_left: usize,
    is_thin: bool,
    /// Snapshot in which the rows of served versions are looked up.
    catalog: Option<Arc<Catalog>>,
    skill: Option<OpenSkill>,
    file: Option<OpenFile>,
    /// Memory of the pack, also if its client has gone.
    _reservation: Arc<Reservation>,
}

/// Skill of which not all objects were sent.
struct OpenSkill {
    skill: Arc<FolderSkill>,
    lacking: Lacking,
    /// Objects of the skill that the cache was looked up for.
    looked_up: usize,
    /// Objects that the cache did not have, and that were not sent since.
    missing: IdSet<ObjectId>,
    source: Option<SkillSource>,
}

/// Files of a skill that are read.
struct SkillSource {
    row: Arc<SkillRow>,
    files: std::iter::Peekable<vec::IntoIter<FileObject>>,
    /// Memory for the files that are held, and for the small one that is read.
    _reservation: Reservation,
}

/// Large file of which not all was sent.
struct OpenFile {
    bytes: Bytes,
    _reservation: Reservation,
}

/// Part of a pack, in the frames of the client.
enum Filled {
    Batch(Vec<u8>),
    End(Vec<u8>),
}

impl PackSender {
    /// Returns a response body that begins with some lines and ends with a pack. `reservation` is the [memory] of the pack.
    pub(crate) fn stream(self, head: Vec<u8>, plan: PackPlan, reservation: Reservation) -> Body {
        let (queue, mut batches) = mpsc::channel(QUEUE);
        let window = Arc::new(Semaphore::new(WINDOW));
        let sending = Batches { queue, window, reservation: Arc::new(reservation) };
        let account = self.account.clone();
        tokio::spawn(account.scope(Arc::new(self).send(head, plan, sending)));
        Body::from_stream(stream::poll_fn(move |context| {
            batches.poll_recv(context).map(|batch| batch.map(Ok::<_, std::convert::Infallible>))
        }))
    }

    /// Sends a pack. A failure is the last frame, so that git shows it.
    async fn send(self: Arc<Self>, head: Vec<u8>, plan: PackPlan, batches: Batches) {
        match self.try_send(head, plan, &batches).await {
            Ok(()) | Err(SendError::Disconnected) => {}
            Err(SendError::Failed(error)) => {
                tracing::warn!(%error, "pack not completed");
                let frame = self.side_band.error("the server cannot complete the pack; try again");
                // Fails only if the client has gone.
                let _ = batches.send(frame).await;
            }
        }
    }

    async fn try_send(
        self: &Arc<Self>,
        head: Vec<u8>,
        plan: PackPlan,
        batches: &Batches,
    ) -> Result<(), SendError> {
        batches.send(head).await?;
        let mut state = Box::new(PackState::new(plan, Arc::clone(&batches.reservation)));
        let mut give_up = Instant::now() + MEMORY_WAIT;
        loop {
            self.check_key().await?;
            let (next, filled) = tokio::select! {
                filled = self.fill_batch(state) => filled?,
                () = batches.queue.closed() => return Err(SendError::Disconnected),
            };
            state = next;
            match filled {
                Ok(Filled::Batch(bytes)) => batches.send(bytes).await?,
                Ok(Filled::End(bytes)) => return batches.send(bytes).await,
                // Other packs of the client are being read: their memory becomes free.
                Err(error) if error.is_over_budget() && Instant::now() < give_up => {
                    sleep(MEMORY_RETRY).await;
                    continue;
                }
                Err(error) => return Err(error.into()),
            }
            give_up = Instant::now() + MEMORY_WAIT;
        }
    }

    /// Checks that the key of the view's owner is still active. Trees and lists are rendered without reading the registry.
    async fn check_key(&self) -> Result<(), SendError> {
        if self.history.view.owner.is_some() {
            self.skills.catalog().await.map_err(into_error)?;
        }
        Ok(())
    }

    /// Makes the next batch on a blocking thread.
    async fn fill_batch(
        self: &Arc<Self>,
        mut state: Box<PackState>,
    ) -> Result<(Box<PackState>, Result<Filled, DistributionError>), SendError> {
        let sender = Arc::clone(self);
        let fill = move |stop: &StopFlag| {
            let filled = sender.account.block_on(sender.fill(&mut state, stop));
            (state, filled)
        };
        let mut retries = THREAD_RETRIES;
        let permit = loop {
            match self.account.permit(PACK, 0).await {
                Err(WorkError::Busy) if retries > 0 => retries -= 1,
                acquired => break acquired.map_err(into_error)?,
            }
        };
        permit.run(fill).await.map_err(into_error)
    }

    /// Makes objects until a batch is full. After an error for lack of memory, the next call goes on with the same object.
    async fn fill(
        &self,
        state: &mut PackState,
        stop: &StopFlag,
    ) -> Result<Filled, DistributionError> {
        // The flag is raised if the batch waited for its thread for a long time, too: the next one goes on.
        while state.pack.pending() < BATCH && !stop.is_raised() {
            if let Some(file) = &state.file {
                if state.pack.continue_object(&file.bytes, BATCH)? {
                    state.file = None;
                }
                continue;
            }
            if let Some(skill) = state.skill.take() {
                self.go_on_with_skill(skill, state).await?;
                continue;
            }
            match state.items.next() {
                Some(Item::Commit { number, parent }) => self.add_commit(number, parent, state)?,
                Some(Item::Slot(slot)) => self.add_slot(slot, state)?,
                Some(Item::Wrapper(skill, lacking)) => {
                    let objects = wrapper(&skill.info, skill.tree);
                    for object in objects.iter().filter(|object| lacking.has(&object.id)) {
                        state.pack.object(object.kind, &object.bytes)?;
                    }
                }
                Some(Item::Skill(skill, lacking)) => {
                    state.skill = Some(OpenSkill::new(skill, lacking));
                }
                None => {
                    let pack = std::mem::replace(&mut state.pack, PackWriter::new(0));
                    let mut end = self.side_band.data(pack.finish());
                    end.extend(self.side_band.end());
                    return Ok(Filled::End(end));
                }
            }
        }
        Ok(Filled::Batch(self.side_band.data(state.pack.take())))
    }

    fn add_commit(
        &self,
        number: usize,
        parent: Parent,
        state: &mut PackState,
    ) -> Result<(), DistributionError> {
        state.commits_left = state.commits_left.saturating_sub(1);
        state.current = number;
        state.base = match parent {
            Parent::Sent(before) | Parent::Had(before) => Some(before),
            Parent::Unavailable => None,
        };
        state.cursor.move_to(&self.history, number);
        let commit = &self.history.commits[number];
        Ok(state.pack.object(ObjectKind::Commit, &commit.bytes)?)
    }

    /// Adds a slot: from the cache, as a delta against that of the parent, or whole.
    fn add_slot(&self, slot: Slot, state: &mut PackState) -> Result<(), DistributionError> {
        let commit = &self.history.commits[state.current];
        if !DELTA_SLOTS.contains(&slot) {
            let bytes = self.render(slot, state.current, &state.cursor);
            return Ok(state.pack.object(slot.kind(), &bytes)?);
        }
        let (id, key) = (commit.slots.get(slot), slot as u8);
        let parent =
            state.base.map(|number| (number, self.history.commits[number].slots.get(slot)));
        let parent = parent.filter(|(_, base)| *base != ObjectId::ZERO);
        let sent = state.slots.remove(&key);
        let sent = sent.filter(|sent| parent.is_some_and(|(_, base)| base == sent.id));
        let chain = sent.as_ref().map_or(0, |sent| sent.chain);
        // A pack that is not thin has the bases of all its deltas.
        let has_base = state.is_thin || sent.is_some();
        let parent = parent.filter(|_| has_base && chain < MAX_CHAIN);
        let next_chain = |form: Option<ObjectId>| if form.is_some() { chain + 1 } else { 0 };
        let base = parent.map(|(_, base)| base);
        if let Some(form) = self.entries.append(&id, base, &mut state.pack) {
            state.slots.insert(key, SentSlot { id, bytes: None, chain: next_chain(form) });
            return Ok(());
        }
        let bytes = self.render(slot, state.current, &state.cursor);
        let before = state.pack.pending();
        let delta = parent.and_then(|(number, base)| {
            let old = sent.and_then(|sent| sent.bytes).unwrap_or_else(|| {
                state.base_cursor.move_to(&self.history, number);
                self.render(slot, number, &state.base_cursor)
            });
            Some((base, delta(&old, &bytes)?))
        });
        let form = match delta {
            Some((base, delta)) => {
                state.pack.delta(&base, &delta)?;
                Some(base)
            }
            None => {
                state.pack.object(slot.kind(), &bytes)?;
                None
            }
        };
        self.entries.insert(id, form, state.pack.written_since(before));
        let is_kept = state.commits_left > 0 && bytes.len() <= MAX_KEPT_SLOT;
        let bytes = is_kept.then_some(bytes);
        state.slots.insert(key, SentSlot { id, bytes, chain: next_chain(form) });
        Ok(())
    }

    /// Renders a slot of a commit that a cursor is at.
    fn render(&self, slot: Slot, number: usize, cursor: &Cursor) -> Vec<u8> {
        let (head, commit) = (&self.history.head, &self.history.commits[number]);
        history::render(slot, head, &cursor.folders, commit.revision, &commit.slots)
    }

    /// Adds objects of a skill, which stays open unless all were added.
    async fn go_on_with_skill(
        &self,
        mut open: OpenSkill,
        state: &mut PackState,
    ) -> Result<(), DistributionError> {
        let added = self.add_objects(&mut open, state).await;
        if !matches!(added, Ok(true)) {
            state.skill = Some(open);
        }
        added.map(drop)
    }

    /// Adds some objects of a skill. Returns whether all were added.
    async fn add_objects(
        &self,
        open: &mut OpenSkill,
        state: &mut PackState,
    ) -> Result<bool, DistributionError> {
        while let Some(id) = open.skill.objects.get(open.looked_up) {
            if state.pack.pending() >= BATCH {
                return Ok(false);
            }
            open.looked_up += 1;
            if open.lacking.has(id) && self.entries.append(id, None, &mut state.pack).is_none() {
                open.missing.insert(*id);
            }
        }
        if open.missing.is_empty() {
            return Ok(true);
        }
        let source = match &mut open.source {
            Some(source) => source,
            None => {
                let source = self.source(&open.skill, &mut open.missing, state).await?;
                open.source.insert(source)
            }
        };
        let Some(file) = source.files.peek() else {
            // Content that was replaced since the plan was made is not there.
            let is_complete = open.missing.is_empty();
            return is_complete.then_some(true).ok_or(DistributionError::NotFound);
        };
        if open.missing.contains(&file.id) {
            self.add_file(&source.row, file, state).await?;
            open.missing.remove(&file.id);
        }
        source.files.next();
        Ok(false)
    }

    /// Opens the files of a skill, and adds its trees.
    async fn source(
        &self,
        skill: &FolderSkill,
        missing: &mut IdSet<ObjectId>,
        state: &mut PackState,
    ) -> Result<SkillSource, DistributionError> {
        let row = self.row(skill, state).await?;
        let mut reservation = self.account.memory().try_reserve(scan_memory(&row))?;
        let objects = self.blobs.scanned_objects(&*self.skills, &row, true).await?;
        let held: usize =
            objects.files.iter().filter_map(|file| Some(file.bytes.as_ref()?.len())).sum();
        reservation.shrink_to(held + LARGE_FILE);
        for tree in &objects.trees {
            if missing.remove(&tree.id) {
                let before = state.pack.pending();
                state.pack.object(ObjectKind::Tree, &tree.bytes)?;
                self.entries.insert(tree.id, None, state.pack.written_since(before));
            }
        }
        let files = objects.files.into_iter().peekable();
        Ok(SkillSource { row, files, _reservation: reservation })
    }

    /// Adds a file, or begins a large one.
    async fn add_file(
        &self,
        row: &SkillRow,
        file: &FileObject,
        state: &mut PackState,
    ) -> Result<(), DistributionError> {
        let size = row.meta.file(&file.path).map_or(0, |file| file.size);
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        let reservation = self.account.memory().try_reserve(size)?;
        let bytes = match &file.bytes {
            Some(bytes) => bytes.clone(),
            None => read_file(&*self.skills, row, &file.path).await?,
        };
        if bytes.len() < LARGE_FILE {
            let before = state.pack.pending();
            state.pack.object(ObjectKind::Blob, &bytes)?;
            self.entries.insert(file.id, None, state.pack.written_since(before));
        } else {
            state.pack.begin_object(ObjectKind::Blob, bytes.len());
            state.file = Some(OpenFile { bytes, _reservation: reservation });
        }
        Ok(())
    }

    /// Returns the row of a version. Those of served versions are in the catalog.
    async fn row(
        &self,
        skill: &FolderSkill,
        state: &mut PackState,
    ) -> Result<Arc<SkillRow>, DistributionError> {
        let catalog = match &state.catalog {
            Some(catalog) => Arc::clone(catalog),
            None => self.skills.catalog().await?,
        };
        let catalog = state.catalog.insert(catalog);
        let served = catalog.exact_skill(skill.tier, &skill.id);
        let is_served = |row: &&Arc<SkillRow>| {
            row.heads.as_ref().is_some_and(|heads| heads.served == skill.version)
                && row.corruption().is_none()
        };
        if let Some(row) = served.filter(is_served) {
            return Ok(Arc::clone(row));
        }
        let number = VersionSelector::Number(skill.version);
        Ok(self.skills.skill_version(Some(skill.tier), &skill.id, &number).await?)
    }
}

impl PackState {
    fn new(plan: PackPlan, reservation: Arc<Reservation>) -> Self {
        Self {
            pack: PackWriter::new(u32::try_from(plan.objects).unwrap_or(u32::MAX)),
            items: plan.items.into_iter(),
            cursor: Cursor::default(),
            base_cursor: Cursor::default(),
            slots: HashMap::new(),
            current: 0,
            base: None,
            commits_left: plan.commits,
            is_thin: plan.is_thin,
            catalog: None,
            skill: None,
            file: None,
            _reservation: reservation,
        }
    }
}

impl OpenSkill {
    fn new(skill: Arc<FolderSkill>, lacking: Lacking) -> Self {
        Self { skill, lacking, looked_up: 0, missing: IdSet::new(), source: None }
    }
}

fn into_error<E: Into<DistributionError>>(error: E) -> SendError {
    SendError::Failed(error.into())
}
