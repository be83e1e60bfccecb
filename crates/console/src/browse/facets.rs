//! Values that entries can be filtered by, and the tags and sources of a skill.

use std::{
    collections::{HashMap, HashSet},
    num::NonZeroUsize,
    sync::Arc,
};

use lru::LruCache;
use parking_lot::Mutex;
use skills_core::{Owner, SourceKind};
use skills_registry::{Catalog, SkillRow, catalog::StoredRevision};

use crate::{error::ConsoleError, rendering::scan};

/// Most values of a filter that are offered; the most frequent ones.
const MAX_VALUES: usize = 100;

/// Views whose values are cached.
const MAX_VIEWS: NonZeroUsize = NonZeroUsize::new(64).unwrap();

/// Cache of the values of catalogs, by view and version. Collecting them reads every row.
pub(crate) struct FacetCache(Mutex<LruCache<Option<Owner>, VersionedFacets>>);

/// Values, and the version of the catalog that they are of.
type VersionedFacets = ((StoredRevision, u64), Arc<Facets>);

impl FacetCache {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(LruCache::new(MAX_VIEWS)))
    }

    /// Returns the values of a view, which are collected once for each version of it.
    ///
    /// # Errors
    /// When the server is busy.
    pub(super) async fn of(&self, catalog: &Arc<Catalog>) -> Result<Arc<Facets>, ConsoleError> {
        let (owner, version) = (catalog.stored_version().1.cloned(), catalog.version());
        let cached = self.0.lock().get(&owner).filter(|(of, _)| *of == version).cloned();
        if let Some((_, facets)) = cached {
            return Ok(facets);
        }
        let facets = Arc::new(scan(catalog, Facets::of).await?);
        self.0.lock().put(owner, (version, Arc::clone(&facets)));
        Ok(facets)
    }
}

/// Tags and sources of a catalog, sorted.
#[derive(Debug, Default)]
pub(super) struct Facets {
    pub(super) tags: Vec<String>,
    pub(super) sources: Vec<String>,
}

impl Facets {
    /// Collects the values of all skills.
    fn of(catalog: &Catalog) -> Self {
        let (mut tags, mut sources) = (HashMap::new(), HashMap::new());
        for row in catalog.skills_after(None) {
            for tag in tags_of(row) {
                *tags.entry(tag).or_insert(0_usize) += 1;
            }
            if let Some(source) = source_of(row) {
                *sources.entry(source).or_insert(0_usize) += 1;
            }
        }
        Self { tags: most_frequent(tags), sources: most_frequent(sources) }
    }
}

fn most_frequent(counts: HashMap<&str, usize>) -> Vec<String> {
    let mut counts: Vec<(&str, usize)> = counts.into_iter().collect();
    counts.sort_unstable_by_key(|(value, count)| (std::cmp::Reverse(*count), *value));
    counts.truncate(MAX_VALUES);
    let mut values: Vec<String> = counts.into_iter().map(|(value, _)| value.to_owned()).collect();
    values.sort_unstable();
    values
}

/// Returns the tags of a skill: those of its manifest, and `tags` of its metadata.
pub(super) fn tags_of(row: &Arc<SkillRow>) -> impl Iterator<Item = &str> {
    let of_tool = row.meta.tool.iter().flat_map(|tool| &tool.tags).map(String::as_str);
    let metadata = row.meta.agent.as_ref().and_then(|agent| agent.metadata.get("tags"));
    let separators = [',', ' ', '[', ']', '"'];
    let of_agent = metadata.into_iter().flat_map(move |tags| tags.split(separators));
    let mut seen = HashSet::new();
    of_tool.chain(of_agent).filter(move |tag| !tag.is_empty() && seen.insert(*tag))
}

/// Returns the place that a skill came from. Skills on disk have a folder each; those beside each other are of one place.
pub(crate) fn source_of(row: &SkillRow) -> Option<&str> {
    let provenance = row.meta.provenance.as_ref()?;
    let location = provenance.location.as_str();
    let is_path = provenance.kind == SourceKind::Path;
    let folder = location.rsplit_once('/').map(|(folder, _)| folder).filter(|it| !it.is_empty());
    Some(folder.filter(|_| is_path).unwrap_or(location))
}
