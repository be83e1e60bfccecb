//! All layers of all owners, as they are stored. Views are made of this data.

use std::sync::{Arc, OnceLock};

use imbl::OrdMap;
use skills_core::{EntryKey, EntryKind, Layer, SkillCollection, Timestamp, resolve::Prefix};
use skills_store::{Action, EntryContent, ServedVersion, StoredEntry, VersionHeads};

use super::{
    Catalog, CollectionRow, PromptRow, SkillRow, layer_index::LayerIndex, live_index::LiveIndex,
    tools::ToolList,
};
use crate::{Change, lost_commits::HistoryPosition};

/// Data of a catalog. Clones share structure and cost next to nothing.
#[derive(Debug, Clone, Default)]
pub(super) struct CatalogData {
    pub(super) position: HistoryPosition,
    pub(super) prefix: Prefix,
    pub(super) layers: OrdMap<Layer, Arc<LayerIndex>>,
    pub(super) live: LiveIndex,
    /// Number of stored skills that an anonymous caller sees, once it was computed.
    pub(super) public_count: Arc<OnceLock<usize>>,
}

impl CatalogData {
    pub(super) fn new(prefix: Prefix) -> Self {
        Self { prefix, ..Self::default() }
    }

    pub(super) fn from_entries(
        entries: Vec<StoredEntry>,
        position: HistoryPosition,
        prefix: Prefix,
    ) -> Self {
        let mut data = Self { position, ..Self::new(prefix) };
        for StoredEntry { key, registered_at, content, heads, .. } in entries {
            data.put(&key, &content, registered_at, heads);
        }
        data
    }

    pub(super) fn apply(&mut self, change: &Change) {
        self.position.advance(change);
        let tools = self.tools_around(change);
        match &change.served {
            Some(ServedVersion { registered_at, content: Some(content), heads }) => {
                self.put(&change.key, content, *registered_at, heads.clone());
            }
            Some(ServedVersion { content: None, heads, .. }) => {
                self.update_heads(&change.key, heads.as_ref());
            }
            None if change.action == Action::Remove => self.remove(&change.key),
            // All versions are yanked. A change of an entry that served nothing before leaves it as it is.
            None if change.affects_served => self.withdraw(&change.key),
            None => {}
        }
        if tools != self.tools_around(change)
            && let Some(layer) = self.layers.get_mut(&change.key.layer)
        {
            Arc::make_mut(layer).tools_revision = change.revision;
        }
    }

    /// Returns the tools that a change can affect for callers that see its layer. Callers that see more layers may
    /// see fewer of these tools.
    fn tools_around(&self, change: &Change) -> Option<ToolList> {
        let EntryKey { kind: EntryKind::Skill, layer, id } = &change.key else { return None };
        let owner = match layer {
            Layer::Private(owner) => Some(owner.clone()),
            Layer::Official | Layer::Market => None,
        };
        Some(Catalog::new(self.clone(), owner).tools_around(id))
    }

    /// Returns the index of a layer, which is created if it has no entries yet.
    pub(super) fn layer_mut(&mut self, layer: &Layer) -> &mut LayerIndex {
        // A layer that was emptied and refilled between two snapshots may have lost a tool.
        let tools_revision = self.position.revision.saturating_sub(1);
        let new = || Arc::new(LayerIndex { tools_revision, ..LayerIndex::new(layer.clone()) });
        Arc::make_mut(self.layers.entry(layer.clone()).or_insert_with(new))
    }

    /// Updates the version numbers of an entry whose content stays.
    fn update_heads(&mut self, key: &EntryKey, heads: Option<&VersionHeads>) {
        let (Some(heads), Some(layer)) = (heads, self.layers.get_mut(&key.layer)) else { return };
        match key.kind {
            EntryKind::Skill => {
                if let Some(row) = layer.skills.get(&key.id).map(|row| row.with_heads(heads)) {
                    Arc::make_mut(layer).put_skill(row);
                }
            }
            EntryKind::Prompt => {
                if let Some(row) = layer.prompts.get(&key.id).map(|row| row.with_heads(heads)) {
                    Arc::make_mut(layer).prompts.insert(&key.id, row);
                }
            }
            EntryKind::Collection => {
                if let Some(row) = layer.collections.get(&key.id) {
                    let row = CollectionRow { heads: Some(heads.clone()), ..row.as_ref().clone() };
                    Arc::make_mut(layer).collections.insert(&key.id, row);
                }
            }
        }
    }

    fn put(
        &mut self,
        key: &EntryKey,
        content: &EntryContent,
        at: Timestamp,
        heads: Option<VersionHeads>,
    ) {
        let EntryKey { kind, layer, id } = key;
        let (tier, layer) = (layer.tier(), self.layer_mut(layer));
        match content.clone() {
            EntryContent::Skill(meta) => {
                let bytes = meta.root().map_or(0, |root| root.size);
                let mut row = SkillRow::new(Arc::clone(id), tier, meta, bytes, at);
                row.heads = heads;
                layer.put_skill(row);
            }
            EntryContent::Prompt(definition) => {
                let mut row = PromptRow::new(Arc::clone(id), tier, definition, at);
                row.heads = heads;
                layer.prompts.insert(id, row);
            }
            EntryContent::Collection(collection) => {
                let (name, registered_at) = (Arc::clone(id), at);
                let row =
                    CollectionRow { name, tier, collection, registered_at, heads, corrupt: None };
                layer.collections.insert(id, row);
            }
            EntryContent::Corrupt { reason, .. } => {
                tracing::error!(entry = %key, reason, "corrupt entry in the store");
                match kind {
                    EntryKind::Skill => {
                        layer.put_skill(SkillRow::corrupt(Arc::clone(id), tier, &reason, at));
                    }
                    EntryKind::Prompt => {
                        let row = PromptRow::corrupt(Arc::clone(id), tier, &reason, at);
                        layer.prompts.insert(id, row);
                    }
                    EntryKind::Collection => {
                        let row = CollectionRow {
                            name: Arc::clone(id),
                            tier,
                            collection: SkillCollection::default(),
                            registered_at: at,
                            heads: None,
                            corrupt: Some(reason.into()),
                        };
                        layer.collections.insert(id, row);
                    }
                }
            }
        }
    }

    /// Marks an entry as one that exists and serves nothing.
    pub(super) fn withdraw(&mut self, key: &EntryKey) {
        let layer = self.layer_mut(&key.layer);
        match key.kind {
            EntryKind::Skill => layer.withdraw_skill(&key.id),
            EntryKind::Prompt => layer.prompts.withdraw(&key.id),
            EntryKind::Collection => layer.collections.withdraw(&key.id),
        }
    }

    fn remove(&mut self, key: &EntryKey) {
        if !self.layers.contains_key(&key.layer) {
            return;
        }
        let layer = self.layer_mut(&key.layer);
        match key.kind {
            EntryKind::Skill => layer.remove_skill(&key.id),
            EntryKind::Prompt => layer.prompts.remove(&key.id),
            EntryKind::Collection => layer.collections.remove(&key.id),
        }
        // Owners come and go; those without entries take no memory.
        if layer.is_empty() {
            self.layers.remove(&key.layer);
        }
    }
}
