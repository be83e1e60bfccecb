//! All layers of all owners, as they are stored: what views are made of.

use std::sync::{Arc, OnceLock};

use imbl::OrdMap;
use skills_core::{
    EntryKey, Kind, Layer, PromptDefinition, SkillMeta, Tier, Timestamp, resolve::Prefix,
};
use skills_store::{Change, Entry, EntryContent};

use super::{Catalog, PromptRow, SkillRow, live::Live, shelf::Shelf, tools::Tools};

/// Everything that is registered. Cloning it costs next to nothing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Everything {
    pub(super) revision: u64,
    pub(super) prefix: Prefix,
    pub(super) shelves: OrdMap<Layer, Arc<Shelf>>,
    /// What is not stored.
    pub(super) live: Live,
    /// How many stored skills everyone sees, once somebody wanted to know.
    pub(super) public_count: Arc<OnceLock<usize>>,
}

impl Everything {
    /// With nothing in it.
    pub(crate) fn new(prefix: Prefix) -> Self {
        Self { prefix, ..Self::default() }
    }

    pub(super) fn of_entries(entries: Vec<Entry>, revision: u64, prefix: Prefix) -> Self {
        let mut everything = Self { revision, ..Self::new(prefix) };
        for Entry { key, registered_at, content, .. } in entries {
            everything.put(&key, &content, registered_at);
        }
        everything
    }

    pub(super) fn apply(&mut self, change: &Change) {
        self.revision = change.revision;
        let tools = self.tools_around(change);
        match &change.content {
            Some(content) => self.put(&change.key, content, change.at),
            None => self.remove(&change.key),
        }
        if tools != self.tools_around(change)
            && let Some(shelf) = self.shelves.get_mut(&change.key.layer)
        {
            Arc::make_mut(shelf).tools_at = change.revision;
        }
    }

    /// The tools that a change can have to do with, for those who see the layer that it is in. Who sees more layers
    /// than that may see fewer of those tools.
    fn tools_around(&self, change: &Change) -> Option<Tools> {
        let EntryKey { kind: Kind::Skill, layer, id } = &change.key else { return None };
        let owner = match layer {
            Layer::Private(owner) => Some(owner.clone()),
            Layer::Official | Layer::Market => None,
        };
        Some(Catalog::of(self.clone(), owner).tools_around(id))
    }

    fn shelf(&mut self, layer: &Layer) -> &mut Shelf {
        // Of one that went and came back between two looks it is not known whether a tool went with it.
        let tools_at = self.revision.saturating_sub(1);
        let new = || Arc::new(Shelf { tools_at, ..Shelf::new(layer.clone()) });
        Arc::make_mut(self.shelves.entry(layer.clone()).or_insert_with(new))
    }

    fn put(&mut self, key: &EntryKey, content: &EntryContent, at: Timestamp) {
        let EntryKey { kind, layer, id } = key;
        let (tier, shelf) = (layer.tier(), self.shelf(layer));
        match content.clone() {
            EntryContent::Skill(meta) => {
                let bytes = meta.root().map_or(0, |root| root.size);
                shelf.put_skill(id, SkillRow::new(Arc::clone(id), tier, meta, bytes, at));
            }
            EntryContent::Prompt(definition) => {
                shelf.prompts.insert(id, PromptRow::new(Arc::clone(id), tier, definition, at));
            }
            EntryContent::Corrupt { reason, .. } => {
                tracing::error!(entry = %key, reason, "an entry of the store cannot be read");
                match kind {
                    Kind::Skill => {
                        let row = SkillRow::corrupt(Arc::clone(id), tier, &reason, at);
                        shelf.put_skill(id, row);
                    }
                    Kind::Prompt => {
                        let row = PromptRow::corrupt(Arc::clone(id), tier, &reason, at);
                        shelf.prompts.insert(id, row);
                    }
                }
            }
        }
    }

    fn remove(&mut self, key: &EntryKey) {
        if !self.shelves.contains_key(&key.layer) {
            return;
        }
        let shelf = self.shelf(&key.layer);
        match key.kind {
            Kind::Skill => shelf.remove_skill(&key.id),
            Kind::Prompt => shelf.prompts.remove(&key.id),
        }
        // Owners come and go; those without entries are not remembered.
        if shelf.is_empty() {
            self.shelves.remove(&key.layer);
        }
    }

    /// Adds a skill of which a listing told. A listing shows the entries that answer, wherever they are
    /// stored, so they stand on one shelf.
    pub(crate) fn list_skill(
        &mut self,
        id: &Arc<str>,
        tier: Tier,
        meta: SkillMeta,
        bytes: u64,
        registered_at: Timestamp,
    ) {
        let row = SkillRow::new(Arc::clone(id), tier, meta, bytes, registered_at);
        self.shelf(&Layer::Official).put_skill(id, row);
    }

    /// The same of one that cannot be read there.
    pub(crate) fn list_corrupt_skill(
        &mut self,
        id: &Arc<str>,
        tier: Tier,
        reason: &str,
        registered_at: Timestamp,
    ) {
        let row = SkillRow::corrupt(Arc::clone(id), tier, reason, registered_at);
        self.shelf(&Layer::Official).put_skill(id, row);
    }

    /// The same of one that a live client has there.
    pub(crate) fn list_live_skill(&mut self, id: &Arc<str>, meta: SkillMeta, since: Timestamp) {
        let row = SkillRow::live(Arc::clone(id), meta, since);
        self.shelf(&Layer::Official).put_skill(id, row);
    }

    /// Adds a prompt of which a listing told.
    pub(crate) fn list_prompt(
        &mut self,
        name: &Arc<str>,
        definition: PromptDefinition,
        registered_at: Timestamp,
    ) {
        let row = PromptRow::new(Arc::clone(name), Tier::Official, definition, registered_at);
        self.shelf(&Layer::Official).prompts.insert(name, row);
    }

    /// Takes out a skill that a listing told of.
    pub(crate) fn forget_skill(&mut self, id: &str) {
        self.shelf(&Layer::Official).remove_skill(id);
    }

    /// Takes out the prompts that a listing told of.
    pub(crate) fn forget_prompts(&mut self) {
        self.shelf(&Layer::Official).prompts = Default::default();
    }
}
