//! Folder names of skills: the name as an Agent Skill, each used once.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use skills_agent_skills::{AgentDocument, frontmatter::is_skill_name};
use skills_bundles::sync::{SyncFolder, check_folder_name};
use skills_core::{Coded, Digest, EntryKind, skill::ROOT_PATH};
use skills_registry::{
    RegistryError, RejectedRows, SkillRegistry, SkillRow,
    bundles::{unwritable_files, version},
};
use skills_remote::is_unreachable;

use super::sync_once::READ_CONCURRENCY;

/// A skill and the name of its folder.
pub(super) struct NamedSkill {
    pub(super) row: Arc<SkillRow>,
    pub(super) version: Digest,
    pub(super) name: String,
}

/// A skill or a file of it that is not written, with the reason.
pub(super) struct SkippedSkill {
    pub(super) id: String,
    pub(super) reason: String,
}

/// Assigns names to skills. If two have the same name, the one whose id equals it gets it, else the one with the
/// first id.
pub(super) async fn assign_names(
    skills: &dyn SkillRegistry,
    rows: Vec<Arc<SkillRow>>,
    folders: &[SyncFolder],
) -> Result<(Vec<NamedSkill>, Vec<SkippedSkill>), RegistryError> {
    let recorded: HashMap<(&str, Digest), &str> = folders
        .iter()
        .flat_map(SyncFolder::written_skills)
        .map(|(id, version, name)| ((id, version), name))
        .collect();
    let name = |row: Arc<SkillRow>| {
        let version = version(&row);
        let declared = row.meta.agent.as_ref().map(|agent| &agent.name);
        let declared = declared.filter(|name| is_skill_name(name)).cloned();
        let name =
            declared.or_else(|| recorded.get(&(&*row.id, version)).map(|name| (*name).to_owned()));
        async move {
            let name = match name {
                Some(name) => name,
                None => read_name(skills, &row).await?,
            };
            Ok::<_, RegistryError>(NamedSkill { row, version, name })
        }
    };
    let named = stream::iter(rows).map(name).buffered(READ_CONCURRENCY);
    let (named, mut skipped) = separate_duplicates(named.try_collect().await?);
    let (named, unsafe_names): (Vec<NamedSkill>, Vec<NamedSkill>) =
        named.into_iter().partition(|named| check_folder_name(&named.name).is_ok());
    skipped.extend(unsafe_names.into_iter().map(|named| SkippedSkill {
        id: named.row.id.to_string(),
        reason: format!("{} is not a valid folder name on every system", named.name),
    }));
    skipped.extend(named.iter().flat_map(skipped_files));
    skipped.extend(rejected(&skills.rejected_rows()));
    Ok((named, skipped))
}

/// Returns files that an earlier version accepted and that cannot be written.
fn skipped_files(named: &NamedSkill) -> impl Iterator<Item = SkippedSkill> {
    let id = &named.row.id;
    unwritable_files(&named.row.meta).map(move |(_, error)| SkippedSkill {
        id: id.to_string(),
        reason: format!("a file is not written: {error}"),
    })
}

/// Returns listed skills of the registry that are invalid.
fn rejected(rows: &RejectedRows) -> Vec<SkippedSkill> {
    let skills = rows.rows().iter().filter(|row| row.kind == EntryKind::Skill);
    let mut skipped: Vec<SkippedSkill> =
        skills.map(|row| SkippedSkill { id: row.id.clone(), reason: row.reason.clone() }).collect();
    let more = rows.count(EntryKind::Skill) - skipped.len();
    if more > 0 {
        let reason = format!("{more} more invalid rows of the registry");
        skipped.push(SkippedSkill { id: "…".to_owned(), reason });
    }
    skipped
}

/// Reads the name from the document, or derives it from the id if the document has none or cannot be read.
async fn read_name(skills: &dyn SkillRegistry, row: &SkillRow) -> Result<String, RegistryError> {
    let body = match skills.document(row, ROOT_PATH).await {
        Ok(document) => String::from_utf8_lossy(&document.body).into_owned(),
        Err(error) if is_unreachable(error.code()) => return Err(error),
        Err(_) => String::new(),
    };
    Ok(AgentDocument::new(&row.id, &row.meta, &body).name)
}

fn separate_duplicates(mut all: Vec<NamedSkill>) -> (Vec<NamedSkill>, Vec<SkippedSkill>) {
    // A stable sort, so that the rest stays in the order of ids.
    all.sort_by_key(|named| named.name != *named.row.id);
    let mut used = HashSet::new();
    let (mut named, duplicates): (Vec<NamedSkill>, Vec<NamedSkill>) =
        all.into_iter().partition(|named| used.insert(named.name.clone()));
    named.sort_by(|one, other| one.name.cmp(&other.name));
    let skipped = |named: NamedSkill| SkippedSkill {
        id: named.row.id.to_string(),
        reason: format!("another skill has the same name, {}", named.name),
    };
    (named, duplicates.into_iter().map(skipped).collect())
}
