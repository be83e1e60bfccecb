//! Cache of version lookups, of bounded size. Versions are not in the catalog, so that its memory does not grow with them.
//!
//! A lookup depends on labels and yanks, so a change of an entry must end the cached lookups of that entry. Entries share
//! a fixed number of generations, which the writer thread advances after a commit. A lookup is cached with the generation
//! before it read the store, so one that crossed a commit is not used afterwards.

use std::{
    hash::BuildHasher as _,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use foldhash::fast::RandomState;
use skills_core::{EntryKey, PromptDefinition, Provenance, SkillCollection, VersionSelector};
use skills_store::StoredVersion;

use crate::{SizedLruCache, SkillRow};

/// Most memory of cached lookups, in bytes.
const MAX_BYTES: usize = 16 << 20;
/// Memory of a lookup beside its content: key, version and row.
const OVERHEAD: usize = 1024;
/// Generations that all entries share.
const GENERATIONS: usize = 1024;

/// Version that a selector means.
#[derive(Debug)]
pub(crate) struct SelectedVersion {
    pub(crate) version: StoredVersion,
    pub(crate) content: SelectedContent,
}

/// Content of a version, in the form that its readers need.
#[derive(Debug)]
pub(crate) enum SelectedContent {
    Skill(Arc<SkillRow>),
    Prompt(PromptDefinition),
    Collection(SkillCollection),
    /// Content that cannot be read.
    Corrupt(String),
    /// The content was removed.
    Gone,
}

impl SelectedContent {
    /// Returns the place that the content was imported from. The author of other versions is their actor.
    pub(crate) fn provenance(&self) -> Option<Box<Provenance>> {
        match self {
            Self::Skill(row) => {
                row.meta.provenance.clone().filter(|source| source.can_be_fetched())
            }
            _ => None,
        }
    }
}

type CacheKey = (EntryKey, VersionSelector);

#[derive(Debug)]
pub(crate) struct VersionCache {
    lookups: SizedLruCache<CacheKey, (u64, Arc<SelectedVersion>)>,
    generations: Box<[AtomicU64]>,
    hasher: RandomState,
}

impl Default for VersionCache {
    fn default() -> Self {
        Self {
            lookups: SizedLruCache::new(MAX_BYTES),
            generations: (0..GENERATIONS).map(|_| AtomicU64::new(0)).collect(),
            hasher: RandomState::default(),
        }
    }
}

impl VersionCache {
    fn generation_of(&self, key: &EntryKey) -> &AtomicU64 {
        let number = usize::try_from(self.hasher.hash_one(key)).unwrap_or(0);
        &self.generations[number % GENERATIONS]
    }

    /// Returns the generation of an entry, which must be read before the store.
    pub(crate) fn generation(&self, key: &EntryKey) -> u64 {
        self.generation_of(key).load(Ordering::Acquire)
    }

    /// Ends the cached lookups of an entry, after a commit.
    pub(crate) fn invalidate(&self, key: &EntryKey) {
        self.generation_of(key).fetch_add(1, Ordering::Release);
    }

    /// Ends all cached lookups.
    pub(crate) fn invalidate_all(&self) {
        for generation in &self.generations {
            generation.fetch_add(1, Ordering::Release);
        }
    }

    pub(crate) fn get(
        &self,
        key: &EntryKey,
        selector: &VersionSelector,
    ) -> Option<Arc<SelectedVersion>> {
        let (generation, found) = self.lookups.get(&(key.clone(), selector.clone()))?;
        (generation == self.generation(key)).then_some(found)
    }

    /// Caches a lookup whose content has the given memory size.
    pub(crate) fn put(
        &self,
        key: EntryKey,
        selector: VersionSelector,
        generation: u64,
        found: &Arc<SelectedVersion>,
        weight: usize,
    ) {
        self.lookups.put((key, selector), (generation, Arc::clone(found)), OVERHEAD + weight);
    }
}
