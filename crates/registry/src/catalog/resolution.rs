//! Resolution of names to entries of the visible layers. The rule itself is [`skills_core::resolve`].

use std::sync::Arc;

use skills_core::{
    EntryKind, Tier,
    resolve::{self, Candidates},
};

use super::{
    Catalog, PromptRow, SkillRow,
    layer_index::{LayerIndex, Slot, Table},
};
use crate::RegistryError;

impl Catalog {
    /// Resolves a name in the visible layers, or in one tier.
    fn resolve<'a, T: 'a>(
        &'a self,
        tier: Option<Tier>,
        name: &str,
        table: impl Fn(&'a LayerIndex) -> &'a Table<T> + Copy,
    ) -> Option<(Tier, Slot<'a, T>)> {
        let names = Candidates::new(name, &self.data.prefix);
        let is_wanted = |layer: &&Arc<LayerIndex>| tier.is_none_or(|t| layer.layer.tier() == t);
        let layers = self.layers.iter().filter(is_wanted);
        let hit = resolve::hits(layers, &names, |layer, id| table(layer).slot(id)).next();
        hit.map(|(layer, slot)| (layer.layer.tier(), slot))
    }

    /// Returns tier and id of the stored entry that a name means, in one tier or in all. The entry exists; it may serve
    /// nothing.
    #[must_use]
    pub fn stored_entry(
        &self,
        kind: EntryKind,
        tier: Option<Tier>,
        name: &str,
    ) -> Option<(Tier, &Arc<str>)> {
        match kind {
            EntryKind::Skill => {
                let (tier, slot) = self.resolve(tier, name, |layer| &layer.skills)?;
                Some((tier, slot.id(|row| &row.id)))
            }
            EntryKind::Prompt => {
                let (tier, slot) = self.resolve(tier, name, |layer| &layer.prompts)?;
                Some((tier, slot.id(|row| &row.name)))
            }
            EntryKind::Collection => {
                let (tier, slot) = self.resolve(tier, name, |layer| &layer.collections)?;
                Some((tier, slot.id(|row| &row.name)))
            }
        }
    }

    /// Resolves the name of a skill. The skill may be corrupt: see [`SkillRow::readable`].
    #[must_use]
    pub fn skill(&self, name: &str) -> Option<&Arc<SkillRow>> {
        match self.resolve(None, name, |layer| &layer.skills) {
            Some((_, slot)) => slot.row(),
            None => self.data.live.skills.get(name),
        }
    }

    /// Resolves the name of a skill to a stored one, never to one of a live client.
    #[must_use]
    pub fn stored(&self, name: &str) -> Option<&Arc<SkillRow>> {
        self.skill(name).filter(|row| !row.is_live())
    }

    /// Resolves the name of a prompt. The prompt may be corrupt: see [`PromptRow::readable`].
    #[must_use]
    pub fn prompt(&self, name: &str) -> Option<&Arc<PromptRow>> {
        match self.resolve(None, name, |layer| &layer.prompts) {
            Some((_, slot)) => slot.row(),
            None => self.data.live.prompts.get(name),
        }
    }

    /// Resolves the name of a skill in one visible tier.
    #[must_use]
    pub fn skill_in(&self, tier: Tier, name: &str) -> Option<&Arc<SkillRow>> {
        self.resolve(Some(tier), name, |layer| &layer.skills)?.1.row()
    }

    /// Returns the prompt of a tier with exactly this name, also one that another tier shadows.
    #[must_use]
    pub fn exact_prompt(&self, tier: Tier, name: &str) -> Option<&Arc<PromptRow>> {
        let in_tier = self.resolve(Some(tier), name, |layer| &layer.prompts)?.1.row();
        in_tier.filter(|row| *row.name == *name)
    }

    /// Returns the skill of a tier with exactly this id, for callers that replace it.
    #[must_use]
    pub fn exact_skill(&self, tier: Tier, id: &str) -> Option<&Arc<SkillRow>> {
        self.skill_in(tier, id).filter(|row| *row.id == *id)
    }

    /// Resolves the name of a stored skill, in one tier or in all.
    ///
    /// # Errors
    /// When the skill does not exist or is corrupt.
    pub fn readable_skill(
        &self,
        tier: Option<Tier>,
        name: &str,
    ) -> Result<&Arc<SkillRow>, RegistryError> {
        let row = match tier {
            Some(tier) => self.skill_in(tier, name),
            None => self.stored(name),
        };
        let not_found = || RegistryError::NotFound { kind: EntryKind::Skill, id: name.to_owned() };
        let row = row.ok_or_else(not_found)?;
        row.readable()?;
        Ok(row)
    }
}
