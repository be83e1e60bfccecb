//! What each skill is called in a folder: by its name as an Agent Skill, and no two alike.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use skills_bundles::sync::Folder;
use skills_core::{Digest, agent_skill::AgentDocument, frontmatter::is_skill_name, uri::SCHEME};
use skills_registry::{
    Catalog, RegistryError, SkillRow, Skills, bundles::version, remote::is_lost,
};

use super::keep::READ_AHEAD;

/// A skill and the name of its folder.
pub(super) struct Named {
    pub(super) row: Arc<SkillRow>,
    pub(super) version: Digest,
    pub(super) name: String,
}

/// One that has no folder.
pub(super) struct LeftOut {
    pub(super) id: String,
    pub(super) reason: String,
}

/// Names all skills. Where two have one name, the one whose id it is keeps it, else the one whose id comes first.
pub(super) async fn of(
    skills: &dyn Skills,
    catalog: &Catalog,
    folders: &[Folder],
) -> Result<(Vec<Named>, Vec<LeftOut>), RegistryError> {
    let known: HashMap<(&str, Digest), &str> = folders
        .iter()
        .flat_map(Folder::known)
        .map(|(id, version, name)| ((id, version), name))
        .collect();
    let name = |row: &Arc<SkillRow>| {
        let (row, version) = (Arc::clone(row), version(row));
        let said = row.meta.agent.as_ref().map(|agent| &agent.name);
        let said = said.filter(|name| is_skill_name(name)).cloned();
        let name = said.or_else(|| known.get(&(&*row.id, version)).map(|name| (*name).to_owned()));
        async move {
            let name = match name {
                Some(name) => name,
                None => read(skills, &row).await?,
            };
            Ok::<_, RegistryError>(Named { row, version, name })
        }
    };
    // What live clients have is theirs, and gone when they are.
    let stored = catalog.skills_after(None).filter(|row| !row.is_live());
    let named = stream::iter(stored).map(name).buffered(READ_AHEAD);
    Ok(told_apart(named.try_collect().await?))
}

/// What the document says, or else what its id makes. One that cannot be read has only its id, and keeps no other from
/// being written.
async fn read(skills: &dyn Skills, row: &SkillRow) -> Result<String, RegistryError> {
    let body = match skills.read(&format!("{SCHEME}{}", row.id)).await {
        Ok(resource) => resource.into_text(),
        Err(error) if is_lost(error.code()) => return Err(error),
        Err(_) => String::new(),
    };
    Ok(AgentDocument::of(&row.id, &row.meta, &body).name)
}

fn told_apart(mut all: Vec<Named>) -> (Vec<Named>, Vec<LeftOut>) {
    let has_own = |named: &Named| named.name == *named.row.id;
    // Stable, so that the rest keeps its order.
    all.sort_by_key(|named| !has_own(named));
    let mut taken = HashSet::new();
    let (mut named, twice): (Vec<Named>, Vec<Named>) =
        all.into_iter().partition(|named| taken.insert(named.name.clone()));
    named.sort_by(|one, other| one.name.cmp(&other.name));
    let left_out = |named: Named| LeftOut {
        id: named.row.id.to_string(),
        reason: format!("another skill has its name, {}", named.name),
    };
    (named, twice.into_iter().map(left_out).collect())
}
