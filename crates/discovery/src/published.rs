//! Which skills are published, as what, and the digests of what is served for them.

use std::{collections::HashMap, sync::Arc};

use lru::LruCache;
use serde_json::{Value, json};
use skills_core::{Digest, Owner};
use skills_registry::{
    Catalog, SkillRow, Skills,
    available::{AvailableSkill, Filter, available},
    bundles,
};
use tokio::sync::Mutex;

use crate::artifact::{self, ArtifactError};

/// The folder of the present form of the index.
pub(crate) const FOLDER: &str = "/.well-known/agent-skills";
/// Identifies the form of the index; nobody need be able to fetch it.
const SCHEMA: &str = "https://schemas.agentskills.io/discovery/0.2.0/schema.json";

/// A version of a skill.
type Version = (Arc<str>, Digest);

/// What is published at one state of the catalog.
pub(crate) struct Published {
    /// `index.json` of the present form.
    pub(crate) index: Value,
    /// `index.json` of the form before it.
    pub(crate) legacy: Value,
    /// Ids by the names under which they are published.
    pub(crate) ids: HashMap<String, String>,
}

/// How many views of the catalog are remembered, and how many digests.
const VIEWS: usize = 16;
const DIGESTS: usize = 1 << 17;

/// Makes what is published, once for each state and view of what is stored: live clients that come and go change
/// nothing.
#[derive(Default)]
pub(crate) struct Publisher {
    state: Mutex<State>,
}

struct State {
    /// What each sees at the revision asked for last; the one asked for last comes last.
    known: Vec<(Option<Owner>, Arc<Published>)>,
    revision: u64,
    /// Digests of artifacts, some of which had to be made to know them.
    digests: LruCache<Version, Digest>,
}

impl Default for State {
    fn default() -> Self {
        // With a bound of its own it would take all its room at once.
        Self { known: vec![], revision: 0, digests: LruCache::unbounded() }
    }
}

impl Publisher {
    pub(crate) async fn published(
        &self,
        skills: &dyn Skills,
    ) -> Result<Arc<Published>, ArtifactError> {
        let catalog = skills.catalog().await?;
        // Held while making: those who want the same meanwhile get the same.
        let mut state = self.state.lock().await;
        let (revision, owner) = catalog.stored_version();
        if state.revision != revision {
            // What is of another state of the catalog is of no use any more.
            state.known.clear();
            state.revision = revision;
        }
        let known = state.known.iter().position(|(of, _)| of.as_ref() == owner);
        let published = match known {
            Some(at) => state.known.remove(at).1,
            None => Arc::new(state.make(skills, &catalog).await?),
        };
        if state.known.len() == VIEWS {
            state.known.remove(0);
        }
        state.known.push((owner.cloned(), Arc::clone(&published)));
        Ok(published)
    }
}

impl State {
    async fn make(
        &mut self,
        skills: &dyn Skills,
        catalog: &Arc<Catalog>,
    ) -> Result<Published, ArtifactError> {
        let (mut index, mut legacy, mut ids) = (Vec::new(), Vec::new(), HashMap::new());
        for AvailableSkill { id, skill } in available(catalog, &Filter::default()).skills {
            // Published is what is stored: what live clients have may be gone a moment later.
            let Some(row) = catalog.stored(&id) else { continue };
            // A name that is another skill's id belongs to that one.
            let is_taken = catalog.skill(&skill.name).is_some_and(|other| *other.id != *id);
            if is_taken || ids.contains_key(&skill.name) {
                tracing::warn!(%id, name = skill.name, "not published: another skill has that name");
                continue;
            }
            let digest = match self.digest(skills, row).await {
                Ok(digest) => digest,
                // It may have gone since the catalog was looked at.
                Err(error) => {
                    tracing::warn!(%id, %error, "not published");
                    continue;
                }
            };
            // At once: who asks may give up before all are made, and the next who asks is to get further.
            self.digests.put(version(row), digest);
            if self.digests.len() > DIGESTS {
                self.digests.pop_lru();
            }
            let (kind, file) = match is_bundle(row) {
                true => ("archive", format!("{id}.tar.gz")),
                false => ("skill-md", format!("{id}/SKILL.md")),
            };
            index.push(json!({
                "name": skill.name,
                "type": kind,
                "description": skill.description,
                "url": format!("{FOLDER}/{file}"),
                "digest": format!("sha256:{digest}"),
            }));
            let files: Vec<&str> = row.meta.files.iter().map(|file| file.path.as_str()).collect();
            let files = if files.is_empty() { vec!["SKILL.md"] } else { files };
            legacy.push(json!({
                "name": skill.name, "description": skill.description, "files": files,
            }));
            ids.insert(skill.name, id);
        }
        Ok(Published {
            index: json!({ "$schema": SCHEMA, "skills": index }),
            legacy: json!({ "skills": legacy }),
            ids,
        })
    }

    /// The digest of what is served for a skill.
    async fn digest(
        &mut self,
        skills: &dyn Skills,
        row: &SkillRow,
    ) -> Result<Digest, ArtifactError> {
        if let Some(known) = self.digests.get(&version(row)) {
            return Ok(*known);
        }
        match (row.meta.root(), is_bundle(row)) {
            (Some(root), false) if artifact::is_served_as_it_is(row) => Ok(root.digest),
            (_, false) => Ok(Digest::of(&artifact::document(skills, row).await?)),
            (_, true) => Ok(Digest::of(&artifact::archive(skills, row).await?)),
        }
    }
}

pub(crate) fn is_bundle(row: &SkillRow) -> bool {
    row.meta.files.len() > 1
}

fn version(row: &SkillRow) -> Version {
    (Arc::clone(&row.id), bundles::version(row))
}

#[cfg(test)]
mod tests {
    use skills_core::Timestamp;
    use skills_registry::{
        Registry, RegistryConfig,
        live::{LiveClient, LiveSkill, LiveUpdate},
    };
    use skills_store::MemoryStore;

    use super::*;

    #[tokio::test]
    async fn live_clients_that_come_and_go_change_nothing() {
        let store = Arc::new(MemoryStore::new());
        let registry = Registry::open(store, None, RegistryConfig::default()).unwrap();
        registry.register_skill("t", "a", "# A\n\nText.\n".to_owned()).await.unwrap();
        let publisher = Publisher::default();
        let first = publisher.published(&*registry).await.unwrap();
        let path = "/b/skill.md".to_owned();
        let client = LiveClient {
            id: "desk".parse().unwrap(),
            order: 1,
            since: Timestamp::from_micros(1),
            skills: vec![LiveSkill { path, ..LiveSkill::default() }],
            prompts: vec![],
        };
        registry.set_live(vec![LiveUpdate::Here(client)]).await.unwrap();
        assert!(registry.catalog().has_client("desk"));
        assert!(Arc::ptr_eq(&first, &publisher.published(&*registry).await.unwrap()));
        registry.register_skill("t", "c", "# C\n\nText.\n".to_owned()).await.unwrap();
        let next = publisher.published(&*registry).await.unwrap();
        assert_eq!((first.ids.len(), next.ids.len()), (1, 2));
    }
}
