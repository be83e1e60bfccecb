//! Scopes of an index: an installer that is given a URL with a path wants an index below that path.

use std::sync::Arc;

use skills_core::Tier;
use skills_registry::{
    Catalog, SkillRow,
    available::{AvailableSkill, Filter, available, to_agent_skill},
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
}

impl Scope {
    /// Returns the scope of a path: `/official/…`, `/skill/{id}/…`, or everything.
    pub(crate) fn from_path(path: &str) -> Self {
        let mut segments = path.split('/').skip(1);
        match (segments.next(), segments.next()) {
            (Some("skill"), Some(id)) => Self::Skill(id.into()),
            (Some(name), _) => name.parse().map_or(Self::All, Self::Tier),
            _ => Self::All,
        }
    }

    /// Returns the Agent Skills of the scope.
    pub(crate) fn skills(&self, catalog: &Catalog) -> Vec<AvailableSkill> {
        let in_tier = |id: &str, tier: Tier| {
            catalog.stored(id).is_some_and(|row: &Arc<SkillRow>| row.tier == tier)
        };
        match self {
            Self::All => available(catalog, &Filter::default()).skills,
            Self::Tier(tier) => {
                let mut skills = available(catalog, &Filter::default()).skills;
                skills.retain(|skill| in_tier(&skill.id, *tier));
                skills
            }
            Self::Skill(id) => {
                let row = catalog.stored(id);
                let skill = row.and_then(|row| Some((row, to_agent_skill(row).ok()?)));
                skill
                    .map(|(row, skill)| AvailableSkill { id: row.id.to_string(), skill })
                    .into_iter()
                    .collect()
            }
        }
    }
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
        ] {
            assert_eq!(Scope::from_path(path), scope, "{path}");
        }
    }
}
