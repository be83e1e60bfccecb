//! Which skills can be offered as Agent Skills, and as what.
//!
//! A skill that says nothing of itself as an Agent Skill is offered under its id and the description of the
//! index. One that does not fit the rules of those who take the list is left out, and it is said why; it is
//! not bent until it fits.

use serde::Serialize;
use skills_core::{AgentSkill, frontmatter::is_skill_name};

use crate::{Catalog, SkillRow, live};

/// Longest description, in characters.
const MAX_DESCRIPTION: usize = 1024;
/// Longest statement of what a skill needs, in characters.
const MAX_COMPATIBILITY: usize = 500;

/// A skill that can be offered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AvailableSkill {
    /// Where it is registered.
    pub id: String,
    /// What it says of itself.
    #[serde(flatten)]
    pub skill: AgentSkill,
}

/// One that cannot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// Where it is registered.
    pub id: String,
    /// Why not.
    pub reason: String,
}

/// The answer: what can be offered, and what cannot.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Available {
    /// Sorted by id.
    pub skills: Vec<AvailableSkill>,
    /// Sorted by id.
    pub left_out: Vec<LeftOut>,
}

/// What is asked for; all that is given must hold. Upper and lower case are the same.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Its license contains this.
    pub license: Option<String>,
    /// What it needs to run contains this.
    pub compatibility: Option<String>,
    /// It may use this tool, with whatever arguments.
    pub tool: Option<String>,
}

impl Filter {
    fn admits(&self, skill: &AgentSkill) -> bool {
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

/// The skills of a catalog that can be offered.
#[must_use]
pub fn available(catalog: &Catalog, filter: &Filter) -> Available {
    let mut answer = Available::default();
    for row in catalog.skills_after(None) {
        let id = row.id.to_string();
        match offered(row) {
            Ok(skill) if filter.admits(&skill) => answer.skills.push(AvailableSkill { id, skill }),
            Ok(_) => {}
            Err(reason) => answer.left_out.push(LeftOut { id, reason }),
        }
    }
    answer
}

/// What a skill is offered as, or why it is not.
fn offered(row: &SkillRow) -> Result<AgentSkill, String> {
    if let Some(reason) = row.corruption() {
        return Err(format!("it is corrupt: {reason}"));
    }
    let mut skill = row.meta.agent.as_deref().cloned().unwrap_or_else(|| plain(row));
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
    if length(&skill.description) > MAX_DESCRIPTION {
        return Err(format!("its description is longer than {MAX_DESCRIPTION} characters"));
    }
    if skill.compatibility.as_deref().is_some_and(|text| length(text) > MAX_COMPATIBILITY) {
        return Err(format!("its compatibility is longer than {MAX_COMPATIBILITY} characters"));
    }
    Ok(skill)
}

fn plain(row: &SkillRow) -> AgentSkill {
    // The id of a live one is an address, which names may not be.
    let live = row.origin().and_then(|(client, path)| live::name(&client.parse().ok()?, path));
    AgentSkill {
        name: live.map_or_else(|| row.id.to_string(), |name| name.to_string()),
        description: row
            .meta
            .description
            .clone()
            .or_else(|| row.meta.title.clone())
            .unwrap_or_default(),
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
    use crate::catalog::tests::of_documents;

    fn with(fields: &str) -> String {
        format!("---\n{fields}\n---\n# Body\n")
    }

    fn ids(available: &Available) -> Vec<&str> {
        available.skills.iter().map(|skill| skill.id.as_str()).collect()
    }

    #[test]
    fn what_does_not_fit_is_left_out_and_said() {
        let long = "d".repeat(1025);
        let catalog = of_documents(&[
            ("a_b", "# T\n\nText.".to_owned()),
            ("empty", "# \n".to_owned()),
            ("long", with(&format!("name: long\ndescription: {long}"))),
            ("plain", "# Plain\n\nDoes it.".to_owned()),
            ("nameless", with("description: Does it.\nuser-invocable: false")),
            ("spec", with("name: spec\ndescription: Does it.\nlicense: MIT")),
        ]);
        let answer = available(&catalog, &Filter::default());
        assert_eq!(ids(&answer), ["nameless", "plain", "spec"]);
        let left_out: Vec<&str> = answer.left_out.iter().map(|left| left.id.as_str()).collect();
        assert_eq!(left_out, ["a_b", "empty", "long"]);
        assert_eq!(answer.skills[1].skill.description, "Does it.");
        let nameless = &answer.skills[0].skill;
        assert_eq!((nameless.name.as_str(), nameless.user_invocable), ("nameless", false));
    }

    #[test]
    fn filters() {
        let catalog = of_documents(&[
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
