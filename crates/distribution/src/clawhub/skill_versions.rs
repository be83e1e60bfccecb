//! Semantic versions of skills, which number their versions 1, 2, 3. Clients compare them upwards.

use std::sync::Arc;

use lru::LruCache;
use parking_lot::Mutex;
use skills_core::{EntryKind, Owner, Tier, Timestamp};
use skills_registry::{HistoryRequest, RegistryError, SkillRegistry, SkillRow, VersionInfo};

use crate::plugin_version::{PluginVersion, PluginVersions};

/// Most versions that are remembered, of all skills together.
const MAX_VERSIONS: usize = 1 << 18;
/// Versions that are read at once.
const PAGE: usize = 500;

/// Skill in a layer.
type SkillKey = (Option<Owner>, Tier, Arc<str>);

/// Versions of one skill by number.
#[derive(Debug, Clone, Default)]
pub(super) struct SkillVersions {
    names: PluginVersions,
    /// Time of the first version in milliseconds.
    first_at: u64,
}

impl SkillVersions {
    pub(super) fn name(&self, number: u64) -> PluginVersion {
        self.names.get(number)
    }

    /// Returns the number of a version as clients write it.
    pub(super) fn number(&self, text: &str) -> Option<u64> {
        self.names.number(PluginVersion::parse(text)?)
    }

    /// Returns the highest version; `None` if there was never one.
    pub(super) fn newest(&self) -> Option<(u64, PluginVersion)> {
        self.names.newest()
    }

    pub(super) const fn first_at(&self) -> u64 {
        self.first_at
    }
}

/// Cache of the versions of skills. A version never changes, so only those that are new are read.
#[derive(Debug)]
pub(super) struct SkillVersionCache(Mutex<Cached>);

#[derive(Debug)]
struct Cached {
    skills: LruCache<SkillKey, Arc<SkillVersions>>,
    versions: usize,
}

impl Default for SkillVersionCache {
    fn default() -> Self {
        Self(Mutex::new(Cached { skills: LruCache::unbounded(), versions: 0 }))
    }
}

impl SkillVersionCache {
    /// Returns the versions of a row that a listing has.
    pub(super) async fn of_row(
        &self,
        skills: &dyn SkillRegistry,
        owner: Option<&Owner>,
        row: &SkillRow,
    ) -> Result<Arc<SkillVersions>, RegistryError> {
        let Some(heads) = &row.heads else {
            // A registry without history has one version of each skill.
            let mut versions =
                SkillVersions { first_at: row.registered_at.as_millis(), ..Default::default() };
            versions.names.add(0, row.meta.author_version());
            return Ok(Arc::new(versions));
        };
        self.up_to(skills, owner, row.tier, &row.id, Some(heads.latest)).await
    }

    /// Returns the versions of a skill, also of one that was removed. `latest` is the number of the newest one, if it is
    /// known.
    pub(super) async fn up_to(
        &self,
        skills: &dyn SkillRegistry,
        owner: Option<&Owner>,
        tier: Tier,
        id: &Arc<str>,
        latest: Option<u64>,
    ) -> Result<Arc<SkillVersions>, RegistryError> {
        let owner = owner.filter(|_| tier == Tier::Private).cloned();
        let key = (owner, tier, Arc::clone(id));
        let known = self.0.lock().skills.get(&key).cloned().unwrap_or_default();
        let known_latest = known.newest().map_or(0, |(number, _)| number);
        if latest.is_some_and(|latest| latest <= known_latest) {
            return Ok(known);
        }
        let mut versions = SkillVersions::clone(&known);
        for version in new_versions(skills, tier, id, known_latest).await?.iter().rev() {
            if versions.first_at == 0 {
                versions.first_at = millis(&version.created_at);
            }
            versions.names.add(version.version, version.author_version.as_deref());
        }
        let versions = Arc::new(versions);
        self.0.lock().put(key, &versions);
        Ok(versions)
    }
}

impl Cached {
    fn put(&mut self, key: SkillKey, versions: &Arc<SkillVersions>) {
        if let Some(old) = self.skills.put(key, Arc::clone(versions)) {
            self.versions -= old.names.len();
        }
        self.versions += versions.names.len();
        while self.versions > MAX_VERSIONS && self.skills.len() > 1 {
            let Some((_, evicted)) = self.skills.pop_lru() else { break };
            self.versions -= evicted.names.len();
        }
    }
}

/// Reads the versions of a skill after a number, newest first.
async fn new_versions(
    skills: &dyn SkillRegistry,
    tier: Tier,
    id: &str,
    after: u64,
) -> Result<Vec<VersionInfo>, RegistryError> {
    let mut versions = Vec::new();
    let mut request =
        HistoryRequest { id: id.to_owned(), tier: Some(tier), limit: Some(PAGE), after: None };
    loop {
        let page = match skills.history(EntryKind::Skill, &request).await {
            Ok(page) => page,
            Err(RegistryError::NotFound { .. }) => return Ok(versions),
            Err(error) => return Err(error),
        };
        let known = page.data.iter().position(|version| version.version <= after);
        versions.extend(page.data.into_iter().take(known.unwrap_or(usize::MAX)));
        match page.next {
            Some(next) if known.is_none() => request.after = Some(next),
            _ => return Ok(versions),
        }
    }
}

/// Returns the milliseconds of a time in RFC 3339.
pub(super) fn millis(text: &str) -> u64 {
    text.parse::<Timestamp>().map_or(0, Timestamp::as_millis)
}
