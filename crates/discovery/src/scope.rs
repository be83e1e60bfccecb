//! Scopes of an index: an installer that is given a URL with a path wants an index below that path.

use std::sync::Arc;

use skills_core::{AgentSkill, Coded as _, Tier, version::split_version};
use skills_http::is_unavailable;
use skills_registry::{
    Catalog, RegistryError, SkillRegistry, SkillRow,
    available::{Filter, available, to_agent_skill},
};

/// Skills that an index lists.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Scope {
    /// All that the caller sees.
    All,
    /// Those of one tier that their ids resolve to.
    Tier(Tier),
    /// One skill.
    Skill(Arc<str>),
    /// Skills of a collection, each at the version that it names.
    Collection(Arc<str>),
}

/// Skill of a scope: its row, which is pinned if it is not the served version, and its frontmatter.
pub(crate) type ScopedSkill = (Arc<SkillRow>, AgentSkill);

impl Scope {
    /// Returns the scope of a path: `/official/…`, `/skill/{id}/…`, `/collection/{name}/…`, or everything.
    pub(crate) fn from_path(path: &str) -> Self {
        let mut segments = path.split('/').skip(1);
        match (segments.next(), segments.next()) {
            (Some("skill"), Some(id)) => Self::Skill(id.into()),
            (Some("collection"), Some(name)) => Self::Collection(name.into()),
            (Some(name), _) => name.parse().map_or(Self::All, Self::Tier),
            _ => Self::All,
        }
    }

    /// Returns the Agent Skills of the scope. Only stored ones: a live client may be gone a moment later.
    ///
    /// # Errors
    /// When a version cannot be read at the moment.
    pub(crate) async fn skills(
        &self,
        skills: &dyn SkillRegistry,
        catalog: &Catalog,
    ) -> Result<Vec<ScopedSkill>, RegistryError> {
        Ok(match self {
            Self::All => stored(catalog),
            Self::Tier(tier) => {
                let mut skills = stored(catalog);
                skills.retain(|(row, _)| row.tier == *tier);
                skills
            }
            Self::Skill(id) => catalog.stored(id).and_then(with_frontmatter).into_iter().collect(),
            Self::Collection(name) => collected(skills, catalog, name).await?,
        })
    }
}

fn stored(catalog: &Catalog) -> Vec<ScopedSkill> {
    let all = available(catalog, &Filter::default()).skills.into_iter();
    all.filter_map(|it| Some((Arc::clone(catalog.stored(&it.id)?), it.skill))).collect()
}

fn with_frontmatter(row: &Arc<SkillRow>) -> Option<ScopedSkill> {
    Some((Arc::clone(row), to_agent_skill(row).ok()?))
}

/// Returns the skills of a collection. Those that the caller does not see are left out.
async fn collected(
    skills: &dyn SkillRegistry,
    catalog: &Catalog,
    name: &str,
) -> Result<Vec<ScopedSkill>, RegistryError> {
    let Ok(info) = catalog.collection_info(name) else { return Ok(vec![]) };
    let mut found = Vec::new();
    for address in &info.collection.skills {
        let row = match split_version(address) {
            Ok((id, None)) => catalog.stored(&id).cloned(),
            Ok((id, Some(version))) => match skills.skill_version(None, &id, &version).await {
                Err(error) if is_unavailable(error.code()) => return Err(error),
                found => found.ok(),
            },
            Err(_) => None,
        };
        found.extend(row.as_ref().and_then(with_frontmatter));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scope_is_in_the_path() {
        let tier = |tier| Scope::Tier(tier);
        for (path, scope) in [
            ("/.well-known/agent-skills/index.json", Scope::All),
            ("/official/.well-known/agent-skills/index.json", tier(Tier::Official)),
            ("/market/.well-known/skills/index.json", tier(Tier::Market)),
            ("/skill/pdf/.well-known/skills/pdf/SKILL.md", Scope::Skill("pdf".into())),
            ("/collection/a/.well-known/skills/index.json", Scope::Collection("a".into())),
        ] {
            assert_eq!(Scope::from_path(path), scope, "{path}");
        }
    }
}
