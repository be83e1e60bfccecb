//! Metadata of a skill, derived from its root document.

use std::borrow::Cow;

use skills_core::{
    AgentSkill, Digest, Field, FileMeta, RuleError, SkillMeta,
    limits::{MAX_AGENT_SKILL_BYTES, MAX_DESCRIPTION_CHARS, MAX_SKILL_BYTES},
    skill::ROOT_PATH,
    text::truncate_within,
    version::is_author_version,
};

use crate::{
    frontmatter::{self, YamlNode},
    markdown, read_agent_skill,
};

/// Builds the metadata of a skill that is one Markdown document.
///
/// # Errors
/// When the document is empty or too large.
pub fn skill_meta(body: &str) -> Result<SkillMeta, RuleError> {
    // The id is not known here, so a missing name stays empty.
    skill_meta_with(body, || read_agent_skill(body, Some("")).ok())
}

/// Builds the metadata of a document whose frontmatter was parsed before; `agent` returns its Agent Skill fields.
pub(crate) fn skill_meta_with(
    body: &str,
    agent: impl FnOnce() -> Option<AgentSkill>,
) -> Result<SkillMeta, RuleError> {
    if body.is_empty() {
        return Err(RuleError::Empty(Field::Skill));
    }
    if body.len() > MAX_SKILL_BYTES {
        return Err(RuleError::TooLarge {
            field: Field::Skill,
            len: body.len(),
            max: MAX_SKILL_BYTES,
        });
    }
    let markdown::DocumentSummary { title: heading, description: first_paragraph } =
        markdown::summarize(body);
    let root = FileMeta {
        path: ROOT_PATH.to_owned(),
        digest: Digest::of(body.as_bytes()),
        size: body.len() as u64,
        executable: None,
    };
    let frontmatter_version = author_version(body);
    let agent = agent().map(|agent| Box::new(with_short_description(agent)));
    let mut meta = SkillMeta {
        heading,
        first_paragraph,
        files: vec![root],
        agent,
        frontmatter_version,
        ..SkillMeta::default()
    };
    if meta.agent.as_ref().is_some_and(|agent| agent.bytes() > MAX_AGENT_SKILL_BYTES) {
        // The other fields are too large; title and description are not.
        meta.heading = meta.title().map(str::to_owned);
        meta.first_paragraph = meta.description().map(Cow::into_owned);
        meta.agent = None;
    }
    Ok(meta)
}

/// Reads the author's own version from the frontmatter: `metadata.version` or `version`. Most documents have none and
/// are not parsed for it.
fn author_version(body: &str) -> Option<String> {
    let text = markdown::strip_bom(body);
    let markdown::FrontmatterBlock::Closed { yaml, .. } = markdown::find_frontmatter(text) else {
        return None;
    };
    let yaml = Some(&text[yaml]).filter(|yaml| yaml.contains("version"))?;
    let fields = frontmatter::parse(yaml).ok()?;
    let in_metadata = fields.get("metadata").and_then(|found| match &found.value {
        YamlNode::Mapping(entries) => entries.iter().find(|entry| entry.key.value == "version"),
        _ => None,
    });
    let found = in_metadata.map(|entry| &entry.value).or_else(|| fields.get("version"))?;
    let version = found.value.text()?.trim();
    is_author_version(version).then(|| version.to_owned())
}

/// Truncates a description that is longer than the specification allows, so that no length of it is a reason to drop
/// the other fields.
fn with_short_description(mut agent: AgentSkill) -> AgentSkill {
    let description = truncate_within(agent.description.as_str(), MAX_DESCRIPTION_CHARS);
    if let Cow::Owned(truncated) = description {
        agent.description = truncated;
    }
    agent
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_have_one_byte_up_to_the_limit() {
        assert_eq!(skill_meta("").expect_err("empty").to_string(), "skill must be non-empty");
        assert!(skill_meta("x").is_ok());
        assert!(skill_meta(&"x".repeat(262_144)).is_ok());
        let error = skill_meta(&"x".repeat(262_145)).expect_err("too large");
        assert!(error.to_string().starts_with("skill too large: 262145 bytes"));
    }

    #[test]
    fn the_limit_counts_bytes_not_characters() {
        assert!(skill_meta(&"é".repeat(131_072)).is_ok());
        assert!(skill_meta(&"é".repeat(131_073)).is_err());
    }

    #[test]
    fn agent_skill_fields_are_kept_without_a_name() {
        let body = "---\ndescription: d\nuser-invocable: false\n---\n";
        let agent = skill_meta(body).unwrap().agent.unwrap();
        assert_eq!((agent.name.as_str(), agent.user_invocable), ("", false));
        assert!(skill_meta("---\nname: a\n---\n").unwrap().agent.is_none());
    }

    #[test]
    fn the_authors_version_is_in_the_metadata_or_beside_it() {
        for (fields, expected) in [
            ("version: 1.4.0", Some("1.4.0")),
            ("version: 1.0\nmetadata: {version: '2.0'}", Some("2.0")),
            ("description: d\nmetadata:\n  version: \"3.1-rc.1\"", Some("3.1-rc.1")),
            ("version: [1]", None),
            ("version: a b", None),
            ("name: version", None),
        ] {
            let meta = skill_meta(&format!("---\n{fields}\n---\n# T\n")).unwrap();
            assert_eq!(meta.author_version(), expected, "{fields}");
        }
        assert_eq!(skill_meta("# T\n\nversion: 1\n").unwrap().author_version(), None);
    }

    #[test]
    fn a_description_of_any_length_is_shown_and_keeps_the_other_fields() {
        let long = "d".repeat(20_000);
        let meta = skill_meta(&format!("---\nname: a\ndescription: {long}\n---\nText.\n")).unwrap();
        assert_eq!(meta.agent.as_ref().unwrap().name, "a");
        assert_eq!(meta.description().unwrap(), format!("{}...", &long[..1021]));
    }

    #[test]
    fn fields_that_are_too_large_leave_title_and_description() {
        let body =
            format!("---\nname: a\ndescription: D.\nlicense: {}\n---\nText.\n", "l".repeat(9_000));
        let meta = skill_meta(&body).unwrap();
        assert!(meta.agent.is_none());
        assert_eq!((meta.title(), meta.description().as_deref()), (Some("a"), Some("D.")));
    }
}
