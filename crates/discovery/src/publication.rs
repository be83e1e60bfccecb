//! Index of the published skills, with the digests of their artifacts.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use lru::LruCache;
use serde_json::{Value, json};
use skills_core::{Digest, MemoryBudget, Owner, version::VERSION_SEPARATOR};
use skills_http::TaggedBody;
use skills_registry::{
    Catalog, SkillRegistry, SkillRow, available::has_own_frontmatter, bundles,
    catalog::StoredRevision,
};
use tokio::sync::Mutex as AsyncMutex;

use crate::{
    archive_cache::ArchiveCache,
    artifact::{self, ArtifactError},
    scope::Scope,
};

/// Folder of the current index format.
pub(crate) const FOLDER: &str = "/.well-known/agent-skills";
/// Identifier of the index format; clients do not fetch it.
const SCHEMA: &str = "https://schemas.agentskills.io/discovery/0.2.0/schema.json";

/// Id of a skill, digest of its content, and whether it is published as an archive.
type Version = (Arc<str>, Digest, bool);

/// Indexes of one revision of the catalog.
pub(crate) struct PublishedIndex {
    /// `index.json` in the current format.
    pub(crate) current: TaggedBody,
    /// `index.json` in the legacy format.
    pub(crate) legacy: TaggedBody,
    /// Ids by published name, with the version of those that are not the served ones.
    pub(crate) ids: HashMap<String, String>,
}

/// Owner and scope of an index.
type ViewKey = (Option<Owner>, Scope);

/// Number of cached views.
const MAX_VIEWS: usize = 16;
/// Number of cached digests.
const MAX_DIGESTS: usize = 1 << 17;

/// Builds and caches indexes, one for each owner, scope and revision of the stored skills. Live clients do not change them.
pub(crate) struct Publisher {
    /// Held while an index is built, so that concurrent requests for it build it once.
    building: AsyncMutex<()>,
    views: Mutex<LruCache<ViewKey, View>>,
    /// Cache of digests: computing one may need the whole artifact.
    digests: Mutex<LruCache<Version, Digest>>,
    pub(crate) archives: ArchiveCache,
}

/// Index in the view of one owner.
struct View {
    /// Revision of the catalog that the index was built from.
    revision: StoredRevision,
    index: Arc<PublishedIndex>,
}

impl Publisher {
    pub(crate) fn new(budget: MemoryBudget) -> Self {
        // Unbounded, since a bounded cache allocates its whole capacity at once; inserting evicts.
        Self {
            building: AsyncMutex::default(),
            views: Mutex::new(LruCache::unbounded()),
            digests: Mutex::new(LruCache::unbounded()),
            archives: ArchiveCache::new(budget),
        }
    }

    /// Returns the index in the view of `skills`. If it cannot be built at the moment, for lack of memory or in an outage,
    /// returns the previous one.
    pub(crate) async fn index(
        &self,
        skills: &dyn SkillRegistry,
        scope: &Scope,
        share: Option<&MemoryBudget>,
    ) -> Result<Arc<PublishedIndex>, ArtifactError> {
        let catalog = skills.catalog().await?;
        let (revision, owner) = catalog.stored_version();
        let key = (owner.cloned(), scope.clone());
        if let (Some(index), true) = self.cached(&key, revision) {
            return Ok(index);
        }
        let _lock = self.building.lock().await;
        let previous = match self.cached(&key, revision) {
            (Some(index), true) => return Ok(index),
            (previous, _) => previous,
        };
        let index = match (self.build(skills, scope, share, &catalog).await, previous) {
            (Ok(index), _) => Arc::new(index),
            (Err(error), Some(previous)) if error.is_unavailable() => return Ok(previous),
            (Err(error), _) => return Err(error),
        };
        let view = View { revision, index: Arc::clone(&index) };
        insert(&self.views, key, view, MAX_VIEWS);
        Ok(index)
    }

    /// Returns the cached index of a view, and whether it is of this revision.
    fn cached(
        &self,
        key: &ViewKey,
        revision: StoredRevision,
    ) -> (Option<Arc<PublishedIndex>>, bool) {
        match lock(&self.views).get(key) {
            Some(view) => (Some(Arc::clone(&view.index)), view.revision == revision),
            None => (None, false),
        }
    }

    async fn build(
        &self,
        skills: &dyn SkillRegistry,
        scope: &Scope,
        share: Option<&MemoryBudget>,
        catalog: &Arc<Catalog>,
    ) -> Result<PublishedIndex, ArtifactError> {
        let (mut index, mut legacy, mut ids) = (Vec::new(), Vec::new(), HashMap::new());
        for (row, skill) in scope.skills(skills, catalog).await? {
            let id = match &row.pinned {
                Some(pinned) => format!("{}{VERSION_SEPARATOR}{}", row.id, pinned.version),
                None => row.id.to_string(),
            };
            // A name that equals the id of another skill belongs to that skill.
            let is_taken = catalog.skill(&skill.name).is_some_and(|other| other.id != row.id);
            if is_taken || ids.contains_key(&skill.name) {
                tracing::warn!(%id, name = skill.name, "skill not published: another skill has its name");
                continue;
            }
            let digest = match self.digest(skills, share, &row).await {
                Ok(digest) => digest,
                // The digests so far are cached, so the next request gets further.
                Err(error) if error.is_unavailable() => return Err(error),
                // It may have been removed since the catalog was loaded.
                Err(error) => {
                    tracing::warn!(%id, %error, "skill not published");
                    continue;
                }
            };
            let (kind, file) = if is_archive(&row) {
                ("archive", format!("{id}.tar.gz"))
            } else {
                ("skill-md", format!("{id}/SKILL.md"))
            };
            index.push(json!({
                "name": skill.name,
                "type": kind,
                "description": skill.description,
                "url": format!("{FOLDER}/{file}"),
                "digest": format!("sha256:{digest}"),
            }));
            // Clients write the listed files to disk.
            let unwritable: Vec<&str> =
                bundles::unwritable_files(&row.meta).map(|(path, _)| path).collect();
            let files = row.meta.files.iter().map(|file| file.path.as_str());
            let files: Vec<&str> = files.filter(|path| !unwritable.contains(path)).collect();
            let files = if files.is_empty() { vec!["SKILL.md"] } else { files };
            legacy.push(json!({
                "name": skill.name, "description": skill.description, "files": files,
            }));
            ids.insert(skill.name, id);
        }
        Ok(PublishedIndex {
            current: json_body(&json!({ "$schema": SCHEMA, "skills": index })),
            legacy: json_body(&json!({ "skills": legacy })),
            ids,
        })
    }

    /// Returns the digest of a skill's artifact. It is cached at once, so that a request that follows a cancelled one gets
    /// further.
    async fn digest(
        &self,
        skills: &dyn SkillRegistry,
        share: Option<&MemoryBudget>,
        row: &SkillRow,
    ) -> Result<Digest, ArtifactError> {
        if let Some(cached) = lock(&self.digests).get(&version(row)) {
            return Ok(*cached);
        }
        let digest = match (row.meta.root(), is_archive(row)) {
            (Some(root), false) if has_own_frontmatter(row) => root.digest,
            (_, false) => Digest::of(&artifact::document(skills, row).await?),
            (_, true) => self.archives.get(skills, row, share).await?.digest,
        };
        insert(&self.digests, version(row), digest, MAX_DIGESTS);
        Ok(digest)
    }
}

fn json_body(value: &Value) -> TaggedBody {
    TaggedBody::new("application/json", value.to_string().into())
}

/// Inserts a value, and evicts the least recently used one over the capacity.
fn insert<K: Hash + Eq, V>(cache: &Mutex<LruCache<K, V>>, key: K, value: V, capacity: usize) {
    let mut cache = lock(cache);
    cache.put(key, value);
    if cache.len() > capacity {
        cache.pop_lru();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn is_bundle(row: &SkillRow) -> bool {
    row.meta.files.len() > 1
}

/// Returns whether a skill is published as an archive: one of several files, and a version that is not the served one.
fn is_archive(row: &SkillRow) -> bool {
    is_bundle(row) || row.pinned.is_some()
}

fn version(row: &SkillRow) -> Version {
    (Arc::clone(&row.id), bundles::version(row), is_archive(row))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use skills_core::{Layer, Timestamp};
    use skills_registry::{
        Registry, RegistryConfig,
        live::{LiveClient, LiveSkill, LiveUpdate},
    };
    use skills_store::MemoryStore;

    use super::*;

    #[tokio::test]
    async fn live_clients_do_not_change_the_index() {
        let store = Arc::new(MemoryStore::new());
        let registry = Registry::open(store, None, RegistryConfig::default()).unwrap();
        registry
            .register_skill("t", &Layer::Official, "a", "# A\n\nText.\n".to_owned())
            .await
            .unwrap();
        let publisher = Publisher::new(MemoryBudget::default());
        let first = publisher.index(&*registry, &Scope::All, None).await.unwrap();
        let path = "/b/skill.md".to_owned();
        let client = LiveClient {
            id: "desk".parse().unwrap(),
            order: 1,
            since: Timestamp::from_micros(1),
            skills: vec![LiveSkill { path, ..LiveSkill::default() }],
            prompts: vec![],
        };
        registry.update_live(vec![LiveUpdate::Connected(client)]).await.unwrap();
        assert!(registry.catalog().has_client("desk"));
        assert!(Arc::ptr_eq(
            &first,
            &publisher.index(&*registry, &Scope::All, None).await.unwrap()
        ));
        registry
            .register_skill("t", &Layer::Official, "c", "# C\n\nText.\n".to_owned())
            .await
            .unwrap();
        let next = publisher.index(&*registry, &Scope::All, None).await.unwrap();
        assert_eq!((first.ids.len(), next.ids.len()), (1, 2));
    }

    #[tokio::test]
    async fn the_previous_index_is_served_if_there_is_no_memory_for_a_new_archive() {
        let store = Arc::new(MemoryStore::new());
        let registry = Registry::open(store, None, RegistryConfig::default()).unwrap();
        let publisher = Publisher::new(MemoryBudget::new(1));
        registry
            .register_skill("t", &Layer::Official, "a", "# A\n\nText.\n".to_owned())
            .await
            .unwrap();
        let first = publisher.index(&*registry, &Scope::All, None).await.unwrap();
        let files = vec![("more.md".parse().unwrap(), Bytes::from("More."))];
        let bundle = skills_agent_skills::Bundle::new("# B\n\nText.\n".to_owned(), files).unwrap();
        registry.register_bundle("t", &Layer::Official, "b", bundle).await.unwrap();
        assert!(Arc::ptr_eq(
            &first,
            &publisher.index(&*registry, &Scope::All, None).await.unwrap()
        ));
        let other = Publisher::new(MemoryBudget::new(1));
        let refused = other.index(&*registry, &Scope::All, None).await;
        assert!(matches!(refused, Err(ArtifactError::OverBudget(_))));
    }
}
