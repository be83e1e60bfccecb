//! Packs of a history, streamed object by object. Which objects are sent is decided first, because a pack begins with
//! their number; their bytes are read and compressed one at a time.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use bytes::Bytes;
use skills_core::{MemoryBudget, VersionSelector};
use skills_git::{ObjectId, ObjectKind, PackWriter, SideBand, delta::delta};
use skills_registry::SkillRegistry;
use tokio::sync::mpsc;

use crate::{
    error::DistributionError,
    history::{self, FolderSkill, Folders, History, Slot, wrapper},
    skill_tree::{BlobIds, read_file},
};

/// Bytes of a pack that are sent together.
const CHUNK: usize = 32 << 10;
/// Files above this size are compressed on a blocking thread, and reserved in the memory budget.
const LARGE_FILE: usize = 128 << 10;
/// Most deltas that have to be applied for one object, as in packs of git.
const MAX_CHAIN: u32 = 50;
/// Slots that are large and change little.
const DELTA_SLOTS: [Slot; 6] =
    [Slot::ClaudeFile, Slot::CodexFile, Slot::CursorFile, Slot::Readme, Slot::Skills, Slot::Dist];

/// Objects of a pack, in the order in which they are sent.
#[derive(Debug)]
pub(crate) struct PackPlan {
    items: Vec<Item>,
    objects: usize,
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
    Skill(Arc<FolderSkill>, Vec<ObjectId>),
    /// Objects of a plugin wrapper that the client lacks.
    Wrapper(Arc<FolderSkill>, Vec<ObjectId>),
    Slot(Slot),
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
        let mut plan = Self { items: Vec::new(), objects: 0, is_thin };
        // No commit has an object for the slots that it does not use.
        let mut known: HashSet<ObjectId> = HashSet::from([ObjectId::ZERO]);
        let mut sent = HashSet::new();
        let mut cursor = Cursor::default();
        for number in commits.iter().filter_map(|id| history.number(id)) {
            let commit = &history.commits[number];
            let parent = match commit.parent {
                Some(parent) if sent.contains(&parent) => Parent::Sent(parent),
                Some(parent) if had.contains(&history.commits[parent].id) => Parent::Had(parent),
                _ => Parent::Unavailable,
            };
            plan.push(Item::Commit { number, parent }, 1);
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

    fn push_skill(&mut self, skill: &Arc<FolderSkill>, known: &mut HashSet<ObjectId>) {
        let objects = skill.objects.iter().copied();
        let lacking: Vec<ObjectId> = objects.filter(|id| known.insert(*id)).collect();
        if !lacking.is_empty() {
            let count = lacking.len();
            self.push(Item::Skill(Arc::clone(skill), lacking), count);
        }
        if known.contains(&skill.wrapper) {
            return;
        }
        let objects = wrapper(&skill.info, skill.tree);
        let lacking = objects.iter().map(|object| object.id).filter(|id| known.insert(*id));
        let lacking: Vec<ObjectId> = lacking.collect();
        let count = lacking.len();
        self.push(Item::Wrapper(Arc::clone(skill), lacking), count);
    }

    /// Returns the memory of the plan and of what is rendered while it is carried out, in bytes.
    pub(crate) fn memory(&self, history: &History) -> usize {
        // Lists and trees, as they are sent and as they were before.
        let rendered = 2 * history.skills().map(|skill| 3 * skill.entry.len() + 128).sum::<usize>();
        self.objects * 32 + self.items.len() * 64 + rendered + (1 << 20)
    }
}

/// Folders of one commit, moved from commit to commit.
#[derive(Debug, Default)]
struct Cursor {
    number: Option<usize>,
    folders: Folders,
}

impl Cursor {
    /// Moves to a commit: by its changes if the cursor is at its parent.
    fn move_to(&mut self, history: &History, number: usize) {
        if self.number == Some(number) {
            return;
        }
        let commit = &history.commits[number];
        if commit.parent.is_some() && self.number == commit.parent {
            history::apply_changes(&mut self.folders, &commit.changes);
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

/// Bytes of a slot as they were last sent.
struct SentSlot {
    id: ObjectId,
    bytes: Vec<u8>,
    chain: u32,
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
        let mut pack = PackWriter::new(count);
        let mut cursor = Cursor::default();
        let mut slots: HashMap<u8, SentSlot> = HashMap::new();
        let mut current = None;
        for item in plan.items {
            match item {
                Item::Commit { number, parent } => {
                    if let Parent::Had(before) | Parent::Sent(before) = parent {
                        cursor.move_to(&self.history, before);
                        let is_base = plan.is_thin || matches!(parent, Parent::Sent(_));
                        self.load_bases(&cursor, number, before, is_base, &mut slots);
                    } else {
                        slots.clear();
                    }
                    cursor.move_to(&self.history, number);
                    let commit = &self.history.commits[number];
                    pack.object(ObjectKind::Commit, &commit.bytes).map_err(into_error)?;
                    current = Some(number);
                }
                Item::Slot(slot) => {
                    let Some(number) = current else { continue };
                    self.send_slot(slot, number, &cursor, &mut slots, &mut pack)?;
                }
                Item::Wrapper(skill, ids) => {
                    let objects = wrapper(&skill.info, skill.tree);
                    let lacking: HashSet<ObjectId> = ids.into_iter().collect();
                    for object in objects.iter().filter(|object| lacking.contains(&object.id)) {
                        pack.object(object.kind, &object.bytes).map_err(into_error)?;
                    }
                }
                Item::Skill(skill, ids) => pack = self.send_skill(&skill, ids, pack).await?,
            }
            if pack.pending() >= CHUNK {
                self.check_key().await?;
                self.send_chunk(pack.take()).await?;
            }
        }
        self.check_key().await?;
        self.send_chunk(pack.finish()).await?;
        self.send_bytes(self.side_band.end()).await
    }

    /// Checks that the key of the view's owner is still active. Trees and lists are rendered without reading the registry.
    async fn check_key(&self) -> Result<(), SendError> {
        if self.history.view.owner.is_some() {
            self.skills.catalog().await.map_err(into_error)?;
        }
        Ok(())
    }

    /// Remembers the slots of a parent, against which those of a commit are sent as deltas. The cursor is at the parent.
    fn load_bases(
        &self,
        cursor: &Cursor,
        number: usize,
        parent: usize,
        is_base: bool,
        slots: &mut HashMap<u8, SentSlot>,
    ) {
        let (commit, before) = (&self.history.commits[number], &self.history.commits[parent]);
        for slot in DELTA_SLOTS {
            let (id, key) = (before.slots.get(slot), slot as u8);
            if !is_base {
                slots.remove(&key);
            } else if commit.slots.get(slot) != id
                && slots.get(&key).is_none_or(|sent| sent.id != id)
            {
                let head = &self.history.head;
                let bytes =
                    history::render(slot, head, &cursor.folders, before.revision, &before.slots);
                slots.insert(key, SentSlot { id, bytes, chain: 0 });
            }
        }
    }

    fn send_slot(
        &self,
        slot: Slot,
        number: usize,
        cursor: &Cursor,
        slots: &mut HashMap<u8, SentSlot>,
        pack: &mut PackWriter,
    ) -> Result<(), SendError> {
        let commit = &self.history.commits[number];
        let head = &self.history.head;
        let bytes = history::render(slot, head, &cursor.folders, commit.revision, &commit.slots);
        let (id, key) = (commit.slots.get(slot), slot as u8);
        let base = slots.get(&key).filter(|base| base.chain < MAX_CHAIN);
        let delta = base.and_then(|base| Some((base.id, base.chain, delta(&base.bytes, &bytes)?)));
        let chain = match delta {
            Some((base, chain, delta)) => {
                pack.delta(&base, &delta).map_err(into_error)?;
                chain + 1
            }
            None => {
                pack.object(slot.kind(), &bytes).map_err(into_error)?;
                0
            }
        };
        if DELTA_SLOTS.contains(&slot) {
            slots.insert(key, SentSlot { id, bytes, chain });
        }
        Ok(())
    }

    async fn send_skill(
        &self,
        skill: &FolderSkill,
        ids: Vec<ObjectId>,
        mut pack: PackWriter,
    ) -> Result<PackWriter, SendError> {
        let mut lacking: HashSet<ObjectId> = ids.into_iter().collect();
        let number = VersionSelector::Number(skill.version);
        let row = self.skills.skill_version(Some(skill.tier), &skill.id, &number).await;
        let row = row.map_err(into_error)?;
        let objects = self.blobs.objects(&*self.skills, &row).await.map_err(into_error)?;
        for tree in &objects.trees {
            if lacking.remove(&tree.id) {
                pack.object(ObjectKind::Tree, &tree.bytes).map_err(into_error)?;
            }
        }
        for file in &objects.files {
            if !lacking.remove(&file.id) {
                continue;
            }
            let bytes = read_file(&*self.skills, &row, &file.path).await.map_err(into_error)?;
            if bytes.len() < LARGE_FILE {
                pack.object(ObjectKind::Blob, &bytes).map_err(into_error)?;
            } else {
                pack = self.send_large(bytes, pack).await?;
            }
            if pack.pending() >= CHUNK {
                self.send_chunk(pack.take()).await?;
            }
        }
        // Content that was replaced since the plan was made.
        if !lacking.is_empty() {
            return Err(DistributionError::NotFound.into());
        }
        Ok(pack)
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
