//! Builder for the catalog of a remote registry, from the rows of its listings.

use std::sync::Arc;

use skills_core::{Layer, PromptDefinition, SkillMeta, Tier, Timestamp, resolve::Prefix};
use skills_store::VersionHeads;

use super::{Catalog, CatalogData, PromptRow, SkillRow};

/// Builds a [`Catalog`] from listed rows. A listing shows the entries that names resolve to, whatever their tier,
/// so all rows share one layer.
#[derive(Debug, Clone, Default)]
pub struct CatalogBuilder(CatalogData);

impl CatalogBuilder {
    /// Starts with an empty catalog whose names resolve with `prefix`.
    #[must_use]
    pub fn new(prefix: Prefix) -> Self {
        Self(CatalogData::new(prefix))
    }

    /// Adds a skill. `bytes` is the size of its root document; `heads` has no labels.
    pub fn add_skill(
        &mut self,
        id: &Arc<str>,
        tier: Tier,
        meta: SkillMeta,
        bytes: u64,
        registered_at: Timestamp,
        heads: Option<VersionHeads>,
    ) {
        let mut row = SkillRow::new(Arc::clone(id), tier, meta, bytes, registered_at);
        row.heads = heads;
        self.put(row);
    }

    /// Adds a skill that the remote registry cannot read.
    pub fn add_corrupt_skill(
        &mut self,
        id: &Arc<str>,
        tier: Tier,
        reason: &str,
        registered_at: Timestamp,
    ) {
        self.put(SkillRow::corrupt(Arc::clone(id), tier, reason, registered_at));
    }

    /// Adds a skill of a live client.
    pub fn add_live_skill(&mut self, id: &Arc<str>, meta: SkillMeta, since: Timestamp) {
        self.put(SkillRow::live(Arc::clone(id), meta, since));
    }

    /// Adds a prompt.
    pub fn add_prompt(
        &mut self,
        name: &Arc<str>,
        definition: PromptDefinition,
        registered_at: Timestamp,
    ) {
        let row = PromptRow::new(Arc::clone(name), Tier::Official, definition, registered_at);
        self.0.layer_mut(&Layer::Official).prompts.insert(name, row);
    }

    /// Removes a skill.
    pub fn remove_skill(&mut self, id: &str) {
        self.0.layer_mut(&Layer::Official).remove_skill(id);
    }

    /// Removes all prompts.
    pub fn remove_prompts(&mut self) {
        self.0.layer_mut(&Layer::Official).prompts = Default::default();
    }

    /// Returns the catalog as an anonymous caller sees it.
    #[must_use]
    pub fn build(self) -> Catalog {
        self.0.into()
    }

    fn put(&mut self, row: SkillRow) {
        self.0.layer_mut(&Layer::Official).put_skill(row);
    }
}

impl Catalog {
    /// Returns a builder that starts with this catalog's rows.
    #[must_use]
    pub fn to_builder(&self) -> CatalogBuilder {
        CatalogBuilder(CatalogData { public_count: Arc::default(), ..self.data.clone() })
    }
}
