//! Views: the skills that an address stands for.
//!
//! A view is built from a list of skill ids with version selectors, or from all skills of some tiers. Whatever can name
//! such a list can be a repository.

use std::{collections::HashSet, sync::Arc};

use skills_core::{Owner, Tier, VersionSelector};

/// Skills of a view.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Selection {
    /// All skills that are visible.
    All,
    /// All skills of one tier.
    Tier(Tier),
    /// One skill, with its versions as tags and its labels as branches.
    Skill(Arc<str>),
    /// Collection: a named list of skills, each at the version that it serves, or at one that a label or number selects.
    List {
        /// Name of the list.
        name: Arc<str>,
        /// Purpose of the list, which its plugin shows.
        description: Arc<str>,
        /// Address of the MCP endpoint that its plugin names.
        mcp_url: Option<Arc<str>>,
        /// Skill ids and versions.
        skills: Vec<(Arc<str>, Option<VersionSelector>)>,
    },
}

impl Selection {
    /// Returns whether the view may have a skill.
    #[must_use]
    pub fn has(&self, id: &str) -> bool {
        match self {
            Self::All | Self::Tier(_) => true,
            Self::Skill(only) => **only == *id,
            Self::List { skills, .. } => skills.iter().any(|(member, _)| **member == *id),
        }
    }

    /// Returns the version that the view has of a skill; `None` for the one that the plain id reads.
    #[must_use]
    pub fn version(&self, id: &str) -> Option<&VersionSelector> {
        match self {
            Self::List { skills, .. } => {
                skills.iter().find(|(member, _)| **member == *id)?.1.as_ref()
            }
            Self::All | Self::Tier(_) | Self::Skill(_) => None,
        }
    }

    /// Iterates over the skills of a list and their versions, each skill once.
    pub(crate) fn members(&self) -> impl Iterator<Item = (&Arc<str>, Option<&VersionSelector>)> {
        let skills = match self {
            Self::List { skills, .. } => &skills[..],
            Self::All | Self::Tier(_) | Self::Skill(_) => &[],
        };
        let mut seen = HashSet::new();
        let members = skills.iter().map(|(id, version)| (id, version.as_ref()));
        members.filter(move |(id, _)| seen.insert(&**id))
    }

    /// Returns the tier that the log is read of.
    #[must_use]
    pub const fn tier(&self) -> Option<Tier> {
        match self {
            Self::Tier(tier) => Some(*tier),
            Self::All | Self::Skill(_) | Self::List { .. } => None,
        }
    }

    /// Returns whether all callers have the same view, so that it never has private skills.
    pub(crate) const fn is_public(&self) -> bool {
        matches!(self, Self::All | Self::Tier(_))
    }

    /// Returns the skill that the log is read of.
    #[must_use]
    pub fn skill(&self) -> Option<&str> {
        match self {
            Self::Skill(id) => Some(id),
            Self::All | Self::Tier(_) | Self::List { .. } => None,
        }
    }
}

/// View of one caller: what repositories and marketplaces are built from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct View {
    /// Owner of the private skills that the view has; `None` if it has public skills alone.
    pub owner: Option<Owner>,
    /// Skills.
    pub selection: Selection,
}

impl View {
    /// Returns the name of the marketplace of the view.
    #[must_use]
    pub fn marketplace_name(&self) -> String {
        match (&self.selection, &self.owner) {
            (Selection::All, None) => "skills".to_owned(),
            (Selection::All, Some(_)) => "my-skills".to_owned(),
            (Selection::Tier(tier), _) => format!("skills-{tier}"),
            (Selection::Skill(id), _) => plain_name(&format!("skill-{id}")),
            (Selection::List { name, .. }, _) => plain_name(&format!("collection-{name}")),
        }
    }
}

/// Returns a text with only the characters that names of plugins and marketplaces may have.
#[must_use]
pub fn plain_name(text: &str) -> String {
    let allowed = |c: char| if c.is_ascii_lowercase() || c.is_ascii_digit() { c } else { '-' };
    let plain: String = text.to_lowercase().chars().map(allowed).collect();
    let parts: Vec<&str> = plain.split('-').filter(|part| !part.is_empty()).collect();
    let name: String = parts.join("-").chars().take(64).collect();
    let name = name.trim_end_matches('-');
    if name.is_empty() { "skill".to_owned() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_only_characters_that_every_client_accepts() {
        for (text, name) in [("pdf", "pdf"), ("a_b", "a-b"), ("Ä", "skill"), ("a--b-", "a-b")] {
            assert_eq!(plain_name(text), name, "{text}");
        }
        assert_eq!(plain_name(&"x".repeat(80)).len(), 64);
        let view = View { owner: None, selection: Selection::Skill("x".repeat(64).into()) };
        assert_eq!(view.marketplace_name().len(), 64, "the longest name of an Agent Plugin");
    }

    #[test]
    fn a_list_selects_versions_of_its_members() {
        let stable = VersionSelector::Name("stable".to_owned());
        let skills = vec![("a".into(), Some(stable.clone())), ("b".into(), None)];
        let (name, description) = ("team".into(), "Team.".into());
        let list = Selection::List { name, description, mcp_url: None, skills };
        assert!(list.has("a") && list.has("b") && !list.has("c"));
        assert_eq!((list.version("a"), list.version("b")), (Some(&stable), None));
    }
}
