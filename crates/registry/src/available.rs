//! Skills of the catalog as Agent Skills.
//!
//! A skill without Agent Skills frontmatter is listed with its id and its description in other listings. A description
//! that is too long is truncated. A skill that breaks another rule of the specification is excluded with a reason.

use std::borrow::Cow;

use serde::Serialize;
use skills_agent_skills::{
    AgentDocument, frontmatter::is_skill_name, validate::MAX_COMPATIBILITY_CHARS,
};
use skills_core::{AgentSkill, limits::MAX_DESCRIPTION_CHARS};

use crate::{Catalog, SkillRow, live};

/// Skill in the list of Agent Skills.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AvailableSkill {
    /// Skill id.
    pub id: String,
    /// Frontmatter fields.
    #[serde(flatten)]
    pub skill: AgentSkill,
}

/// Skill that is not a valid Agent Skill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExcludedSkill {
    /// Skill id.
    pub id: String,
    /// Broken rule.
    pub reason: String,
}

/// Agent Skills of a catalog, and the skills that are none.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Available {
    /// Agent Skills, sorted by id.
    pub skills: Vec<AvailableSkill>,
    /// Excluded skills, sorted by id.
    pub left_out: Vec<ExcludedSkill>,
}

/// Filter of Agent Skills. All given conditions must hold; case does not matter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Text that the license contains.
    pub license: Option<String>,
    /// Text that the compatibility statement contains.
    pub compatibility: Option<String>,
    /// Allowed tool, with any arguments.
    pub tool: Option<String>,
}

impl Filter {
    fn matches(&self, skill: &AgentSkill) -> bool {
        let contains = |text: &Option<String>, wanted: &Option<String>| match (text, wanted) {
            (_, None) => true,
            (None, Some(_)) => false,
            (Some(text), Some(wanted)) => text.to_lowercase().contains(&wanted.to_lowercase()),
        };
        let may_use = |wanted: &String| {
            let name = |tool: &str| tool.split('(').next().unwrap_or(tool).trim().to_lowercase();
            skill.allowed_tools.iter().any(|tool| {
                name(tool) == wanted.to_lowercase() || tool.eq_ignore_ascii_case(wanted)
            })
        };
        contains(&skill.license, &self.license)
            && contains(&skill.compatibility, &self.compatibility)
            && self.tool.as_ref().is_none_or(may_use)
    }
}

/// Returns the Agent Skills of a catalog that match a filter.
#[must_use]
pub fn available(catalog: &Catalog, filter: &Filter) -> Available {
    let mut answer = Available::default();
    for row in catalog.skills_after(None) {
        let id = row.id.to_string();
        match to_agent_skill(row) {
            Ok(skill) if filter.matches(&skill) => answer.skills.push(AvailableSkill { id, skill }),
            Ok(_) => {}
            Err(reason) => answer.left_out.push(ExcludedSkill { id, reason }),
        }
    }
    answer
}

/// Converts a skill to an Agent Skill.
///
/// # Errors
/// The rule that it breaks.
pub fn to_agent_skill(row: &SkillRow) -> Result<AgentSkill, String> {
    if let Some(reason) = row.corruption() {
        return Err(format!("it is corrupt: {reason}"));
    }
    let mut skill = row.meta.agent.as_deref().cloned().unwrap_or_else(|| default_agent_skill(row));
    if skill.name.is_empty() {
        skill.name = row.id.to_string();
    }
    let length = |text: &str| text.chars().count();
    if !is_skill_name(&skill.name) {
        return Err(format!("{:?} is not a name that Agent Skills may have", skill.name));
    }
    if skill.description.trim().is_empty() {
        return Err("it has no description".to_owned());
    }
    if length(&skill.description) > MAX_DESCRIPTION_CHARS {
        skill.description = row.description().unwrap_or_default().into_owned();
    }
    if skill.compatibility.as_deref().is_some_and(|text| length(text) > MAX_COMPATIBILITY_CHARS) {
        return Err(format!(
            "its compatibility is longer than {MAX_COMPATIBILITY_CHARS} characters"
        ));
    }
    Ok(skill)
}

/// Returns the frontmatter that a published root document needs before it; empty if it has its own.
#[must_use]
pub fn agent_header(row: &SkillRow, body: &str) -> String {
    if has_own_frontmatter(row) {
        return String::new();
    }
    AgentDocument::new(&row.id, &row.meta, body).header
}

/// Returns whether the root document is published unchanged, since it has the frontmatter that Agent Skills require.
#[must_use]
pub fn has_own_frontmatter(row: &SkillRow) -> bool {
    row.meta.agent.as_ref().is_some_and(|agent| !agent.name.is_empty())
}

fn default_agent_skill(row: &SkillRow) -> AgentSkill {
    // The id of a live skill has a slash, which names may not have.
    let live =
        row.origin().and_then(|(client, path)| live::prompt_name(&client.parse().ok()?, path));
    AgentSkill {
        name: live.map_or_else(|| row.id.to_string(), |name| name.to_string()),
        description: row
            .description()
            .or_else(|| row.meta.title().map(Cow::Borrowed))
            .unwrap_or_default()
            .into_owned(),
        license: None,
        compatibility: None,
        metadata: Default::default(),
        allowed_tools: vec![],
        user_invocable: true,
        model_invocable: true,
        argument_hint: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::tests::catalog_with_documents;

    fn with(fields: &str) -> String {
        format!("---\n{fields}\n---\n# Body\n")
    }

    fn ids(available: &Available) -> Vec<&str> {
        available.skills.iter().map(|skill| skill.id.as_str()).collect()
    }

    #[test]
    fn invalid_skills_are_excluded_with_a_reason() {
        let long = "d".repeat(1025);
        let catalog = catalog_with_documents(&[
            ("a_b", "# T\n\nText.".to_owned()),
            ("empty", "# \n".to_owned()),
            ("long", with(&format!("name: long\ndescription: {long}"))),
            ("plain", "# Plain\n\nDoes it.".to_owned()),
            ("nameless", with("description: Does it.\nuser-invocable: false")),
            ("spec", with("name: spec\ndescription: Does it.\nlicense: MIT")),
        ]);
        let answer = available(&catalog, &Filter::default());
        assert_eq!(ids(&answer), ["long", "nameless", "plain", "spec"]);
        let left_out: Vec<&str> = answer.left_out.iter().map(|left| left.id.as_str()).collect();
        assert_eq!(left_out, ["a_b", "empty"]);
        let description = |index: usize| answer.skills[index].skill.description.as_str();
        assert_eq!(description(0), format!("{}...", "d".repeat(1021)));
        assert_eq!(description(2), "Does it.");
        let nameless = &answer.skills[1].skill;
        assert_eq!((nameless.name.as_str(), nameless.user_invocable), ("nameless", false));
    }

    #[test]
    fn filters_match_license_compatibility_and_tools() {
        let catalog = catalog_with_documents(&[
            (
                "mit",
                with("name: mit\ndescription: d\nlicense: MIT\nallowed-tools: Bash(git:*) Read"),
            ),
            ("net", with("name: net\ndescription: d\ncompatibility: Needs network access")),
            ("none", "# N\n\nText.".to_owned()),
        ]);
        let found = |filter: Filter| {
            let answer = available(&catalog, &filter);
            ids(&answer).join(" ")
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(found(Filter { license: some("mit"), ..Filter::default() }), "mit");
        assert_eq!(found(Filter { compatibility: some("Network"), ..Filter::default() }), "net");
        assert_eq!(found(Filter { tool: some("bash"), ..Filter::default() }), "mit");
        assert_eq!(found(Filter { tool: some("Bash(git:*)"), ..Filter::default() }), "mit");
        assert_eq!(found(Filter { tool: some("Write"), ..Filter::default() }), "");
        assert_eq!(found(Filter::default()), "mit net none");
    }
}
