//! Packs of a history, streamed object by object. Which objects are sent is decided first, because a pack begins with
//! their number; their bytes are read and compressed one at a time, unless the cache of pack entries has them.

use std::{collections::HashSet, sync::Arc};

use bytes::Bytes;
use foldhash::{HashMap, HashMapExt as _, HashSet as IdSet, HashSetExt as _};
use skills_core::{MemoryBudget, VersionSelector};
use skills_git::{ObjectId, ObjectKind, PackWriter, SideBand, delta::delta};
use skills_registry::{Catalog, SkillRegistry, SkillRow};
use tokio::sync::mpsc;

use crate::{
    error::DistributionError,
    history::{self, FolderSkill, Folders, History, Slot, wrapper},
    pack_entries::PackEntries,
    skill_tree::{BlobIds, read_file},
};

/// Bytes of a pack that are sent together.
const CHUNK: usize = 32 << 10;
/// Files above this size are compressed on a blocking thread, and reserved in the memory budget.
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

/// Objects of a pack, in the order in which they are sent.
#[derive(Debug)]
pub(crate) struct PackPlan {
    items: Vec<Item>,
    objects: usize,
    commits: usize,
    is_thin: bool,
}

#[derive(Debug)]
enum Item {
    /// Commit, given its number. The items up to the next commit belong to it.
    Commit {
        number: usize,
        parent: Parent,
    },
    /// Objects of a skill that the client lacks.
    Skill(Arc<FolderSkill>, Lacking),
    /// Objects of a plugin wrapper that the client lacks.
    Wrapper(Arc<FolderSkill>, Lacking),
    Slot(Slot),
}

/// Objects of a list that the client lacks.
#[derive(Debug)]
enum Lacking {
    All,
    Some(Box<[ObjectId]>),
}

impl Lacking {
    /// Returns the objects that are new in a set, and their number.
    fn new(ids: &[ObjectId], known: &mut IdSet<ObjectId>) -> (Self, usize) {
        // Most objects are new, so the first known one decides whether a list is needed.
        let known_at = ids.iter().position(|id| !known.insert(*id));
        let Some(at) = known_at else { return (Self::All, ids.len()) };
        let rest = ids[at..].iter().filter(|id| known.insert(**id));
        let lacking: Box<[ObjectId]> = ids[..at].iter().chain(rest).copied().collect();
        let count = lacking.len();
        (Self::Some(lacking), count)
    }

    fn has(&self, id: &ObjectId) -> bool {
        match self {
            Self::All => true,
            Self::Some(ids) => ids.contains(id),
        }
    }
}

/// Commit before the one that is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Parent {
    /// The client lacks it, or there is none.
    Unavailable,
    /// The client has it.
    Had(usize),
    /// It is in the same pack.
    Sent(usize),
}

impl PackPlan {
    /// Decides which objects a client lacks.
    pub(crate) fn new(
        history: &History,
        commits: &[ObjectId],
        had: &HashSet<ObjectId>,
        is_thin: bool,
    ) -> Self {
        let mut plan = Self { items: Vec::new(), objects: 0, commits: 0, is_thin };
        let mut known = IdSet::new();
        // No commit has an object for the slots that it does not use.
        known.insert(ObjectId::ZERO);
        let mut sent = IdSet::new();
        let mut cursor = Cursor::default();
        for number in commits.iter().filter_map(|id| history.number(id)) {
            let commit = &history.commits[number];
            let parent = match commit.parent {
                Some(parent) if sent.contains(&parent) => Parent::Sent(parent),
                Some(parent) if had.contains(&history.commits[parent].id) => Parent::Had(parent),
                _ => Parent::Unavailable,
            };
            plan.push(Item::Commit { number, parent }, 1);
            plan.commits += 1;
            let mut changed = Vec::new();
            if let Parent::Had(before) | Parent::Sent(before) = parent {
                let slots = &history.commits[before].slots;
                known.extend(Slot::ALL.map(|slot| slots.get(slot)));
                cursor.move_to(history, before);
                for (name, skill) in &commit.changes {
                    if let Some(before) = cursor.folders.get(name) {
                        known.extend(before.objects.iter());
                    }
                    changed.extend(skill.clone());
                }
            } else {
                cursor.move_to(history, number);
                changed.extend(cursor.folders.values().cloned());
            }
            for skill in changed {
                plan.push_skill(&skill, &mut known);
            }
            for slot in Slot::ALL {
                if known.insert(commit.slots.get(slot)) {
                    plan.push(Item::Slot(slot), 1);
                }
            }
            sent.insert(number);
        }
        plan
    }

    fn push(&mut self, item: Item, objects: usize) {
        self.items.push(item);
        self.objects += objects;
    }

    fn push_skill(&mut self, skill: &Arc<FolderSkill>, known: &mut IdSet<ObjectId>) {
        let (lacking, count) = Lacking::new(&skill.objects, known);
        if count > 0 {
            self.push(Item::Skill(Arc::clone(skill), lacking), count);
        }
        if known.contains(&skill.wrapper_tree()) {
            return;
        }
        let (lacking, count) = Lacking::new(&skill.wrapper, known);
        self.push(Item::Wrapper(Arc::clone(skill), lacking), count);
    }

    /// Returns the memory of the plan and of what is rendered while it is carried out, in bytes.
    pub(crate) fn memory(&self, history: &History) -> usize {
        // Slots of one commit are rendered one by one and without waiting; some are held for the next delta.
        let held = if self.commits > 1 {
            let lists: usize = history.skills().map(|skill| 3 * skill.entry.len() + 128).sum();
            let folders = history.skills().count() * 2 * FOLDER;
            folders + lists.min(DELTA_SLOTS.len() * MAX_KEPT_SLOT)
        } else {
            0
        };
        let lacking = |item: &Item| match item {
            Item::Skill(_, Lacking::Some(ids)) | Item::Wrapper(_, Lacking::Some(ids)) => ids.len(),
            _ => 0,
        };
        let lacking: usize = self.items.iter().map(lacking).sum();
        lacking * size_of::<ObjectId>() + self.items.len() * size_of::<Item>() + held + (1 << 19)
    }
}

/// Folders of one commit, moved from commit to commit.
#[derive(Debug, Default)]
struct Cursor {
    number: Option<usize>,
    folders: Arc<Folders>,
}

impl Cursor {
    /// Moves to a commit: by the changes since the cursor's own, if that is one before it.
    fn move_to(&mut self, history: &History, number: usize) {
        if self.number == Some(number) {
            return;
        }
        let mut line = Vec::new();
        let mut next = Some(number);
        while next != self.number
            && let Some(commit) = next.and_then(|number| history.commits.get(number))
        {
            line.push(commit);
            next = commit.parent;
        }
        if next.is_some() {
            let folders = Arc::make_mut(&mut self.folders);
            line.iter().rev().for_each(|commit| history::apply_changes(folders, &commit.changes));
        } else {
            self.folders = history.folders_at(number);
        }
        self.number = Some(number);
    }
}

/// Sender of one pack.
pub(crate) struct PackSender {
    pub(crate) history: Arc<History>,
    pub(crate) skills: Arc<dyn SkillRegistry>,
    pub(crate) blobs: Arc<BlobIds>,
    pub(crate) entries: Arc<PackEntries>,
    pub(crate) budget: MemoryBudget,
    pub(crate) side_band: SideBand,
    pub(crate) chunks: mpsc::Sender<Bytes>,
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

/// Slot as it was last sent.
struct SentSlot {
    id: ObjectId,
    /// Bytes, if they were rendered, are small, and a later commit may need them.
    bytes: Option<Vec<u8>>,
    chain: u32,
}

/// Progress of a pack.
struct PackState {
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
}

impl PackSender {
    /// Sends a pack. A failure is the last frame, so that git shows it.
    pub(crate) async fn send(self, plan: PackPlan) {
        match self.try_send(plan).await {
            Ok(()) | Err(SendError::Disconnected) => {}
            Err(SendError::Failed(error)) => {
                tracing::warn!(%error, "pack not completed");
                let frame = self.side_band.error("the server cannot complete the pack; try again");
                // Fails only if the client has gone.
                let _ = self.chunks.send(frame.into()).await;
            }
        }
    }

    async fn try_send(&self, plan: PackPlan) -> Result<(), SendError> {
        let count = u32::try_from(plan.objects).unwrap_or(u32::MAX);
        let mut state = PackState {
            pack: PackWriter::new(count),
            cursor: Cursor::default(),
            base_cursor: Cursor::default(),
            slots: HashMap::new(),
            current: 0,
            base: None,
            commits_left: plan.commits,
            is_thin: plan.is_thin,
            catalog: None,
        };
        for item in plan.items {
            match item {
                Item::Commit { number, parent } => {
                    self.send_commit(number, parent, &mut state)?;
                }
                Item::Slot(slot) => self.send_slot(slot, &mut state)?,
                Item::Wrapper(skill, lacking) => {
                    let objects = wrapper(&skill.info, skill.tree);
                    for object in objects.iter().filter(|object| lacking.has(&object.id)) {
                        state.pack.object(object.kind, &object.bytes).map_err(into_error)?;
                    }
                }
                Item::Skill(skill, lacking) => {
                    state = self.send_skill(&skill, &lacking, state).await?;
                }
            }
            if state.pack.pending() >= CHUNK {
                self.check_key().await?;
                self.send_chunk(state.pack.take()).await?;
            }
        }
        self.check_key().await?;
        self.send_chunk(state.pack.finish()).await?;
        self.send_bytes(self.side_band.end()).await
    }

    /// Checks that the key of the view's owner is still active. Trees and lists are rendered without reading the registry.
    async fn check_key(&self) -> Result<(), SendError> {
        if self.history.view.owner.is_some() {
            self.skills.catalog().await.map_err(into_error)?;
        }
        Ok(())
    }

    fn send_commit(
        &self,
        number: usize,
        parent: Parent,
        state: &mut PackState,
    ) -> Result<(), SendError> {
        state.commits_left = state.commits_left.saturating_sub(1);
        state.current = number;
        state.base = match parent {
            Parent::Sent(before) | Parent::Had(before) => Some(before),
            Parent::Unavailable => None,
        };
        state.cursor.move_to(&self.history, number);
        let commit = &self.history.commits[number];
        state.pack.object(ObjectKind::Commit, &commit.bytes).map_err(into_error)
    }

    /// Sends a slot: from the cache, as a delta against that of the parent, or whole.
    fn send_slot(&self, slot: Slot, state: &mut PackState) -> Result<(), SendError> {
        let commit = &self.history.commits[state.current];
        if !DELTA_SLOTS.contains(&slot) {
            let bytes = self.render(slot, state.current, &state.cursor);
            return state.pack.object(slot.kind(), &bytes).map_err(into_error);
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
                state.pack.delta(&base, &delta).map_err(into_error)?;
                Some(base)
            }
            None => {
                state.pack.object(slot.kind(), &bytes).map_err(into_error)?;
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

    async fn send_skill(
        &self,
        skill: &FolderSkill,
        lacking: &Lacking,
        mut state: PackState,
    ) -> Result<PackState, SendError> {
        let mut missing: IdSet<ObjectId> = IdSet::new();
        for id in skill.objects.iter().filter(|id| lacking.has(id)) {
            if self.entries.append(id, None, &mut state.pack).is_none() {
                missing.insert(*id);
            } else if state.pack.pending() >= CHUNK {
                self.send_chunk(state.pack.take()).await?;
            }
        }
        if missing.is_empty() {
            return Ok(state);
        }
        let row = self.row(skill, &mut state).await?;
        let objects = self.blobs.objects(&*self.skills, &row).await.map_err(into_error)?;
        for tree in &objects.trees {
            if missing.remove(&tree.id) {
                let before = state.pack.pending();
                state.pack.object(ObjectKind::Tree, &tree.bytes).map_err(into_error)?;
                self.entries.insert(tree.id, None, state.pack.written_since(before));
            }
        }
        for file in &objects.files {
            if !missing.remove(&file.id) {
                continue;
            }
            let bytes = match &file.bytes {
                Some(bytes) => bytes.clone(),
                None => read_file(&*self.skills, &row, &file.path).await.map_err(into_error)?,
            };
            if bytes.len() < LARGE_FILE {
                let before = state.pack.pending();
                state.pack.object(ObjectKind::Blob, &bytes).map_err(into_error)?;
                self.entries.insert(file.id, None, state.pack.written_since(before));
            } else {
                state.pack = self.send_large(bytes, state.pack).await?;
            }
            if state.pack.pending() >= CHUNK {
                self.send_chunk(state.pack.take()).await?;
            }
        }
        // Content that was replaced since the plan was made.
        if !missing.is_empty() {
            return Err(DistributionError::NotFound.into());
        }
        Ok(state)
    }

    /// Returns the row of a version. Those of served versions are in the catalog.
    async fn row(
        &self,
        skill: &FolderSkill,
        state: &mut PackState,
    ) -> Result<Arc<SkillRow>, SendError> {
        let catalog = match &state.catalog {
            Some(catalog) => Arc::clone(catalog),
            None => self.skills.catalog().await.map_err(into_error)?,
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
        let row = self.skills.skill_version(Some(skill.tier), &skill.id, &number).await;
        row.map_err(into_error)
    }

    async fn send_large(
        &self,
        bytes: Bytes,
        mut pack: PackWriter,
    ) -> Result<PackWriter, SendError> {
        let reserved = self.budget.try_reserve(bytes.len().saturating_mul(2));
        let _reservation = reserved.map_err(into_error)?;
        let compress = move || pack.object(ObjectKind::Blob, &bytes).map(|()| pack);
        let packed = tokio::task::spawn_blocking(compress).await;
        let mut pack = packed.map_err(|_| SendError::Disconnected)?.map_err(into_error)?;
        self.send_chunk(pack.take()).await?;
        Ok(pack)
    }

    async fn send_chunk(&self, bytes: Vec<u8>) -> Result<(), SendError> {
        self.send_bytes(self.side_band.data(bytes)).await
    }

    async fn send_bytes(&self, bytes: Vec<u8>) -> Result<(), SendError> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.chunks.send(bytes.into()).await.map_err(|_| SendError::Disconnected)
    }
}

fn into_error(error: impl Into<DistributionError>) -> SendError {
    SendError::Failed(error.into())
}
