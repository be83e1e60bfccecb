//! A catalog that was read again, because the store lost commits that the catalog before it had.

use std::sync::Arc;

use skills_core::{EntryKey, EntryKind, Layer, Timestamp};
use skills_store::{Action, ServedVersion, VersionHeads};

use super::{Catalog, CatalogDifference, ChangedRow, CollectionRow, PromptRow, layer_index::Table};
use crate::Change;

/// Actor of changes that no one made: the store is different.
const ACTOR: &str = "store";

impl Catalog {
    /// Returns this catalog of stored entries as the successor of another one: with its live entries, in a history of its
    /// own, since the store may give revisions out again.
    #[must_use]
    pub(crate) fn replacing(&self, before: &Self) -> Self {
        let mut data = self.data.clone();
        data.live = before.data.live.clone();
        data.position.history = before.data.position.history + 1;
        Self::new(data, self.owner.clone())
    }

    /// Returns the changes that lead from this catalog to a later one, one for each entry that is different. They have
    /// the revision of the later one and no content.
    pub(crate) fn changes_to(&self, later: &Self, at: Timestamp) -> Vec<Change> {
        let mut changes = Vec::new();
        for CatalogDifference { layer, id, row } in self.differences(later) {
            // Live entries stay as they are.
            let Some(layer) = layer else { continue };
            let (kind, served) = match &row {
                ChangedRow::Prompt(row) if self.serves_prompt(&layer, row) => continue,
                ChangedRow::Prompt(row) => {
                    (EntryKind::Prompt, Some(served(row.registered_at, &row.heads)))
                }
                ChangedRow::Skill(row) => {
                    (EntryKind::Skill, Some(served(row.registered_at, &row.heads)))
                }
                ChangedRow::Removed(kind) => (*kind, None),
            };
            changes.push(later.change(EntryKey { kind, layer, id }, served, at));
        }
        for (key, row) in self.different_collections(later) {
            let served = row.map(|row| served(row.registered_at, &row.heads));
            changes.push(later.change(key, served, at));
        }
        changes
    }

    /// Returns the change that leads to the state of an entry in this catalog. It has no content.
    pub(crate) fn change_to(&self, key: &EntryKey, at: Timestamp) -> Change {
        let (index, id) = (self.data.layers.get(&key.layer), &*key.id);
        let served = index.and_then(|index| match key.kind {
            EntryKind::Skill => {
                index.skills.get(id).map(|row| served(row.registered_at, &row.heads))
            }
            EntryKind::Prompt => {
                index.prompts.get(id).map(|row| served(row.registered_at, &row.heads))
            }
            EntryKind::Collection => {
                index.collections.get(id).map(|row| served(row.registered_at, &row.heads))
            }
        });
        self.change(key.clone(), served, at)
    }

    /// Returns a change of an entry at the revision of this catalog.
    fn change(&self, key: EntryKey, served: Option<ServedVersion>, at: Timestamp) -> Change {
        let version = served.as_ref().and_then(|served| Some(served.heads.as_ref()?.served));
        let action = match &served {
            Some(_) => Action::Put { version, is_new: false, message: None },
            None => Action::Remove,
        };
        let (revision, actor) = (self.revision(), Arc::from(ACTOR));
        Change { revision, at, actor, key, action, affects_served: true, served }
    }

    /// Returns whether this catalog has the content of a row, maybe with other version numbers.
    fn serves_prompt(&self, layer: &Layer, row: &PromptRow) -> bool {
        let known = self.data.layers.get(layer).and_then(|index| index.prompts.get(&row.name));
        known.is_some_and(|known| {
            known.registered_at == row.registered_at && known.definition == row.definition
        })
    }

    /// Returns the collections that are different in a later catalog, with their rows there.
    fn different_collections(&self, later: &Self) -> Vec<(EntryKey, Option<Arc<CollectionRow>>)> {
        let (before, after) = (&self.data.layers, &later.data.layers);
        let removed = before.keys().filter(|layer| !after.contains_key(*layer));
        let (none, mut found) = (Table::default(), Vec::new());
        for layer in after.keys().chain(removed) {
            let known = before.get(layer).map_or(&none, |index| &index.collections);
            let newer = after.get(layer).map_or(&none, |index| &index.collections);
            found.extend(known.differences(newer).map(|(id, row)| {
                let (kind, id) = (EntryKind::Collection, Arc::clone(id));
                (EntryKey { kind, layer: layer.clone(), id }, row.cloned())
            }));
        }
        found
    }
}

fn served(registered_at: Timestamp, heads: &Option<VersionHeads>) -> ServedVersion {
    ServedVersion { registered_at, content: None, heads: heads.clone() }
}
