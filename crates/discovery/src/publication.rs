//! Index of the published skills, with the digests of their artifacts.

use std::{
    collections::{HashMap, HashSet},
    hash::{BuildHasher as _, Hash, RandomState},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use lru::LruCache;
use serde_json::{Value, json};
use skills_core::{
    Digest, Owner, WorkAccount, WorkError, WorkKind,
    version::VERSION_SEPARATOR,
    work::{Turn, TurnEnd, Turns},
};
use skills_http::TaggedBody;
use skills_registry::{
    Catalog, SkillRegistry, SkillRow, available::has_own_frontmatter, bundles,
    catalog::StoredRevision,
};

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

const INDEX: WorkKind = WorkKind::compute("index of published skills");
/// Memory of a turn besides the archives that it packs.
const INDEX_BYTES: usize = 1 << 20;
/// Number of places where clients wait for an index; those of one view wait at the same one.
const STRIPES: usize = 16;

/// Builds and caches indexes, one for each owner, scope and revision of the stored skills. Live clients do not change them.
pub(crate) struct Publisher {
    /// Versions without a digest, since they cannot be read: they are not tried again while an index is built.
    building: [Turns<HashSet<Version>>; STRIPES],
    hasher: RandomState,
    views: Mutex<LruCache<ViewKey, View>>,
    /// Cache of digests: computing one may need the whole artifact.
    digests: Mutex<LruCache<Version, Digest>>,
    pub(crate) archives: Arc<ArchiveCache>,
}

/// Index in the view of one owner.
struct View {
    /// Revision of the catalog that the index was built from.
    revision: StoredRevision,
    index: Arc<PublishedIndex>,
}

impl Publisher {
    pub(crate) fn new() -> Self {
        // Unbounded, since a bounded cache allocates its whole capacity at once; inserting evicts.
        Self {
            building: std::array::from_fn(|_| Turns::default()),
            hasher: RandomState::new(),
            views: Mutex::new(LruCache::unbounded()),
            digests: Mutex::new(LruCache::unbounded()),
            archives: Arc::new(ArchiveCache::new()),
        }
    }

    /// Returns the index in the view of `skills`. If it cannot be built at the moment, for lack of memory or in an outage,
    /// returns the previous one.
    pub(crate) async fn index(
        self: &Arc<Self>,
        skills: &Arc<dyn SkillRegistry>,
        scope: &Scope,
    ) -> Result<Arc<PublishedIndex>, ArtifactError> {
        let catalog = skills.catalog().await?;
        let (revision, owner) = catalog.stored_version();
        let key = (owner.cloned(), scope.clone());
        let previous = match self.cached(&key, revision) {
            (Some(index), true) => return Ok(index),
            (previous, _) => previous,
        };
        let stripe = self.hasher.hash_one(&key) % STRIPES as u64;
        let turns = &self.building[usize::try_from(stripe).unwrap_or_default()];
        let account = WorkAccount::current();
        let (publisher, skills, own) = (Arc::clone(self), Arc::clone(skills), account.clone());
        let (scope, view) = (scope.clone(), key.clone());
        let find = |_: &HashSet<Version>| match self.cached(&key, revision) {
            (Some(index), true) => Some(index),
            _ => None,
        };
        let turn = move |unreadable: &mut HashSet<Version>, turn: &Turn<'_>| {
            let source =
                Source { skills: &*skills, scope: &scope, catalog: &catalog, account: &own };
            match own.block_on(publisher.build(&source, unreadable, turn)) {
                Ok(Some(index)) => {
                    unreadable.clear();
                    // Another client may have built the index of a later revision.
                    if !publisher.cached(&view, revision).1 {
                        let view_of = View { revision, index: Arc::new(index) };
                        insert(&publisher.views, view.clone(), view_of, MAX_VIEWS);
                    }
                    Ok(TurnEnd::Over)
                }
                Ok(None) => Ok(TurnEnd::Over),
                Err(error) => Err(error),
            }
        };
        match (turns.take(&account, (INDEX, INDEX_BYTES), find, turn).await, previous) {
            (Err(error), Some(previous)) if error.is_unavailable() => Ok(previous),
            (result, _) => result,
        }
    }

    /// Returns the cached index of a view, and whether it is of this revision or a later one.
    fn cached(
        &self,
        key: &ViewKey,
        revision: StoredRevision,
    ) -> (Option<Arc<PublishedIndex>>, bool) {
        match lock(&self.views).get(key) {
            Some(view) => (Some(Arc::clone(&view.index)), view.revision >= revision),
            None => (None, false),
        }
    }

    /// Builds an index. Returns `None` if the turn is over before all digests are known, which are cached.
    async fn build(
        &self,
        source: &Source<'_>,
        unreadable: &mut HashSet<Version>,
        turn: &Turn<'_>,
    ) -> Result<Option<PublishedIndex>, ArtifactError> {
        let Source { skills, scope, catalog, .. } = *source;
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
            let known = lock(&self.digests).get(&version(&row)).copied();
            if known.is_none() && unreadable.contains(&version(&row)) {
                continue;
            }
            let digest = match known {
                Some(digest) => Ok(digest),
                None => self.digest(source, &row, turn).await,
            };
            if known.is_none() && turn.is_over() {
                // What cannot be read is remembered too, so that the next turn gets further.
                match digest {
                    Err(error) if error.is_unavailable() => return Err(error),
                    Err(_) => drop(unreadable.insert(version(&row))),
                    Ok(_) => {}
                }
                return Ok(None);
            }
            let digest = match digest {
                Ok(digest) => digest,
                // The digests so far are cached, so the next request gets further.
                Err(error) if error.is_unavailable() => return Err(error),
                // It may have been removed since the catalog was loaded.
                Err(error) => {
                    tracing::warn!(%id, %error, "skill not published");
                    unreadable.insert(version(&row));
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
        Ok(Some(PublishedIndex {
            current: json_body(&json!({ "$schema": SCHEMA, "skills": index })),
            legacy: json_body(&json!({ "skills": legacy })),
            ids,
        }))
    }

    /// Returns the digest of a skill's artifact. It is cached at once, so that the next turn gets further.
    async fn digest(
        &self,
        source: &Source<'_>,
        row: &SkillRow,
        turn: &Turn<'_>,
    ) -> Result<Digest, ArtifactError> {
        let digest = match (row.meta.root(), is_archive(row)) {
            (Some(root), false) if has_own_frontmatter(row) => root.digest,
            (_, false) => Digest::of(&artifact::document(source.skills, row).await?),
            (_, true) => {
                let memory = source.account.memory();
                let _reservation =
                    memory.try_reserve(artifact::archive_memory(row)).map_err(WorkError::from)?;
                self.archives.pack(source.skills, row, turn.stop()).await?.digest
            }
        };
        insert(&self.digests, version(row), digest, MAX_DIGESTS);
        Ok(digest)
    }
}

/// What an index is built from.
struct Source<'a> {
    skills: &'a dyn SkillRegistry,
    scope: &'a Scope,
    catalog: &'a Arc<Catalog>,
    account: &'a WorkAccount,
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
    use skills_core::{Layer, MemoryBudget, Timestamp};
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
        let publisher = Arc::new(Publisher::new());
        let skills: Arc<dyn SkillRegistry> = Arc::clone(&registry) as _;
        let first = publisher.index(&skills, &Scope::All).await.unwrap();
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
        assert!(Arc::ptr_eq(&first, &publisher.index(&skills, &Scope::All).await.unwrap()));
        registry
            .register_skill("t", &Layer::Official, "c", "# C\n\nText.\n".to_owned())
            .await
            .unwrap();
        let next = publisher.index(&skills, &Scope::All).await.unwrap();
        assert_eq!((first.ids.len(), next.ids.len()), (1, 2));
    }

    #[tokio::test]
    async fn the_previous_index_is_served_if_there_is_no_memory_for_a_new_archive() {
        let store = Arc::new(MemoryStore::new());
        let registry = Registry::open(store, None, RegistryConfig::default()).unwrap();
        let publisher = Arc::new(Publisher::new());
        let skills: Arc<dyn SkillRegistry> = Arc::clone(&registry) as _;
        // Room for a turn, and not for an archive.
        let account = WorkAccount::with_memory(MemoryBudget::new(INDEX_BYTES));
        registry
            .register_skill("t", &Layer::Official, "a", "# A\n\nText.\n".to_owned())
            .await
            .unwrap();
        let first = publisher.index(&skills, &Scope::All).await.unwrap();
        let files = vec![("more.md".parse().unwrap(), Bytes::from("More."))];
        let bundle = skills_agent_skills::Bundle::new("# B\n\nText.\n".to_owned(), files).unwrap();
        registry.register_bundle("t", &Layer::Official, "b", bundle).await.unwrap();
        assert!(Arc::ptr_eq(
            &first,
            &account.scope(async { publisher.index(&skills, &Scope::All).await }).await.unwrap()
        ));
        let other = Arc::new(Publisher::new());
        let refused = account.scope(async { other.index(&skills, &Scope::All).await }).await;
        assert!(matches!(refused, Err(ArtifactError::Work(WorkError::OverBudget(_)))));
    }
}
