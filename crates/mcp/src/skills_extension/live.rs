//! Skills of live clients: `skill://{client}/{folders}/SKILL.md`. Nobody knows what else such a skill has, or for
//! how long, so it is `"dynamic"`; it is described without being read.

use std::sync::Arc;

use serde_json::{Value, json};
use skills_core::{
    ResourceUri,
    agent_skill::AgentDocument,
    frontmatter::is_skill_name,
    skill::{LEAVES, ROOT_PATH},
};
use skills_registry::{Catalog, SkillRow};

use super::SCHEME;

/// The folder of a live skill, which is its id without the last segment.
fn folder(row: &SkillRow) -> Option<&str> {
    row.origin()?;
    row.id.rsplit_once('/').map(|(folder, _)| folder)
}

/// The name has to be the last segment before `SKILL.md`.
fn name(row: &SkillRow) -> Option<&str> {
    let folder = folder(row)?;
    let name = folder.rsplit('/').next().unwrap_or(folder);
    is_skill_name(name).then_some(name)
}

/// The entry of a live skill in a list; `None` for one whose folder is no name that a skill may have.
pub(super) fn entry(row: &SkillRow) -> Option<Value> {
    let (folder, name) = (folder(row)?, name(row)?);
    let fields = AgentDocument::of(name, &row.meta, "").fields;
    let uri = format!("{SCHEME}{folder}/{ROOT_PATH}");
    Some(json!({ "uri": uri, "frontmatter": fields, "resources": "dynamic" }))
}

/// The live skill that a URI names. The addresses of what tiers hold are theirs alone.
pub(super) fn find<'a>(catalog: &'a Catalog, uri: &str) -> Option<&'a Arc<SkillRow>> {
    if matches!(uri.parse(), Ok(ResourceUri::Stored { .. })) {
        return None;
    }
    let folder = uri.strip_prefix(SCHEME)?.strip_suffix(ROOT_PATH)?;
    let row = LEAVES.into_iter().find_map(|leaf| catalog.skill(&format!("{folder}{leaf}")))?;
    (row.is_live() && name(row).is_some()).then_some(row)
}

/// What has to be put before the document.
pub(super) fn header(row: &SkillRow, body: &str) -> String {
    AgentDocument::of(name(row).unwrap_or(&row.id), &row.meta, body).header
}

#[cfg(test)]
mod tests {
    use skills_core::Timestamp;
    use skills_registry::live::{LiveClient, LiveSkill, LiveUpdate};

    use super::*;

    #[test]
    fn the_address_of_a_tier_is_no_clients() {
        let client = |id: &str| {
            let path = "/deploy/skill.md".to_owned();
            LiveUpdate::Here(LiveClient {
                id: id.parse().unwrap(),
                order: 1,
                since: Timestamp::from_micros(1),
                skills: vec![LiveSkill { path, ..LiveSkill::default() }],
                prompts: vec![],
            })
        };
        let clients = ["desk", "official", "market", "private"].map(client);
        let (catalog, _) = Catalog::default().with_live(&clients, Timestamp::from_micros(1));
        let found = |uri: &str| find(&catalog, uri).map(|row| row.id.to_string());
        assert_eq!(found("skill://desk/deploy/SKILL.md").as_deref(), Some("desk/deploy/skill.md"));
        for tier in ["official", "market", "private"] {
            assert_eq!(found(&format!("skill://{tier}/deploy/SKILL.md")), None);
        }
    }
}
