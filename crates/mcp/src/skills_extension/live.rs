//! Skills of live clients: `skill://{client}/{folders}/SKILL.md`.
//!
//! The files of such a skill are unknown and may change at any time, so it is `"dynamic"` and described without being
//! read.

use std::sync::Arc;

use serde_json::{Value, json};
use skills_agent_skills::{AgentDocument, frontmatter::is_skill_name};
use skills_core::{
    ResourceUri,
    skill::{ROOT_PATH, SKILL_LEAVES},
    uri::SKILL_SCHEME,
};
use skills_registry::{Catalog, SkillRow};

/// Returns the folder of a live skill: its id without the last segment.
fn folder(row: &SkillRow) -> Option<&str> {
    row.origin()?;
    row.id.rsplit_once('/').map(|(folder, _)| folder)
}

/// Returns the name of a live skill: the last segment before `SKILL.md`, if it is a valid name.
fn name(row: &SkillRow) -> Option<&str> {
    let folder = folder(row)?;
    let name = folder.rsplit('/').next().unwrap_or(folder);
    is_skill_name(name).then_some(name)
}

/// Returns the entry of a live skill in a listing; `None` if its folder is no valid name.
pub(super) fn entry(row: &SkillRow) -> Option<Value> {
    let (folder, name) = (folder(row)?, name(row)?);
    let fields = AgentDocument::new(name, &row.meta, "").fields;
    let uri = format!("{SKILL_SCHEME}{folder}/{ROOT_PATH}");
    Some(json!({ "uri": uri, "frontmatter": fields, "resources": "dynamic" }))
}

/// Finds the live skill at a URI. URIs of a tier never lead to one.
pub(super) fn find<'a>(catalog: &'a Catalog, uri: &str) -> Option<&'a Arc<SkillRow>> {
    if matches!(uri.parse(), Ok(ResourceUri::InTier { .. } | ResourceUri::Version { .. })) {
        return None;
    }
    let folder = uri.strip_prefix(SKILL_SCHEME)?.strip_suffix(ROOT_PATH)?;
    let row =
        SKILL_LEAVES.into_iter().find_map(|leaf| catalog.skill(&format!("{folder}{leaf}")))?;
    (row.is_live() && name(row).is_some()).then_some(row)
}

/// Returns the frontmatter to prepend to the document.
pub(super) fn header(row: &SkillRow, body: &str) -> String {
    AgentDocument::new(name(row).unwrap_or(&row.id), &row.meta, body).header
}

#[cfg(test)]
mod tests {
    use skills_core::Timestamp;
    use skills_registry::live::{LiveClient, LiveSkill, LiveUpdate};

    use super::*;

    #[test]
    fn the_uri_of_a_tier_leads_to_no_client() {
        let client = |id: &str| {
            let path = "/deploy/skill.md".to_owned();
            LiveUpdate::Connected(LiveClient {
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
            assert_eq!(found(&format!("skill://{tier}/deploy/SKILL.md")), None, "{tier:?}");
        }
    }
}
