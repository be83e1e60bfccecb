//! Skills that an import registers together. They become one commit of the store, and so one commit of the git remotes; an
//! import that is interrupted before has stored nothing.

use skills_core::Tier;
use skills_registry::{BundlePublication, Published, RegistryError, SkillRegistry};

/// Most bytes of skills that are registered together. A larger import is several commits: its skills are in memory until
/// they are sent, and a message on the bus has at most twice as many bytes.
const MAX_BYTES: u64 = 32 << 20;
/// Most skills that are registered together.
const MAX_SKILLS: usize = 10_000;

/// Skills that wait to be registered, each with what the importer has to remember about it.
pub(crate) struct PublicationBatch<T> {
    items: Vec<(T, BundlePublication)>,
    bytes: u64,
}

impl<T> Default for PublicationBatch<T> {
    fn default() -> Self {
        Self { items: Vec::new(), bytes: 0 }
    }
}

impl<T> PublicationBatch<T> {
    /// Adds a skill. Returns the skills before it if they do not fit together.
    pub(crate) fn push(&mut self, item: T, publication: BundlePublication) -> Option<Self> {
        let files = &publication.bundle.meta().files;
        let bytes: u64 = files.iter().map(|file| file.size).sum();
        let is_full = self.bytes + bytes > MAX_BYTES || self.items.len() >= MAX_SKILLS;
        let full = (is_full && !self.items.is_empty()).then(|| std::mem::take(self));
        self.items.push((item, publication));
        self.bytes += bytes;
        full
    }

    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    /// Registers the skills. Returns the result of each.
    ///
    /// # Errors
    /// When the registry cannot be reached, or stores none of them.
    pub(crate) async fn publish(
        self,
        skills: &dyn SkillRegistry,
        tier: Tier,
    ) -> Result<Vec<(T, Result<Published, RegistryError>)>, RegistryError> {
        if self.items.is_empty() {
            return Ok(vec![]);
        }
        let (items, publications): (Vec<T>, Vec<_>) = self.items.into_iter().unzip();
        let results = skills.publish_bundles(tier, publications).await?;
        Ok(items.into_iter().zip(results).collect())
    }
}
