//! Reading Agent Skills from documents, and writing them as documents.
//!
//! A document is read as the client guide prescribes: leniently, and refused only if no client could offer it. The
//! rules of the specification are in [`crate::validate`].

mod agent_document;
mod allowed_tools;

use std::collections::BTreeMap;

use skills_core::AgentSkill;

pub(crate) use self::allowed_tools::AllowedTools;
pub use self::{agent_document::AgentDocument, allowed_tools::allowed_tools};
use crate::{
    frontmatter::{self, FrontmatterEntry, FrontmatterError, FrontmatterFields, YamlNode},
    markdown::{FrontmatterBlock, find_frontmatter, strip_bom},
};

/// Error of reading an Agent Skill.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AgentSkillError {
    /// The document does not start with frontmatter.
    #[error("there is no frontmatter")]
    NoFrontmatter,
    /// The frontmatter is not closed.
    #[error("the frontmatter is not closed by a line ---")]
    NotClosed,
    /// The frontmatter cannot be parsed.
    #[error(transparent)]
    FrontmatterError(#[from] FrontmatterError),
    /// The skill has no name.
    #[error("there is no name")]
    NoName,
    /// The skill has no description.
    #[error("there is no description")]
    NoDescription,
}

/// Reads an Agent Skill from a document. The directory's name replaces a missing name.
///
/// # Errors
/// When no client could offer it.
pub fn read_agent_skill(
    document: &str,
    directory: Option<&str>,
) -> Result<AgentSkill, AgentSkillError> {
    let text = strip_bom(document);
    let yaml = match find_frontmatter(text) {
        FrontmatterBlock::Missing => return Err(AgentSkillError::NoFrontmatter),
        FrontmatterBlock::Unclosed => return Err(AgentSkillError::NotClosed),
        FrontmatterBlock::Closed { yaml, .. } => &text[yaml],
    };
    agent_skill_from_fields(&frontmatter::parse(yaml)?, directory)
}

/// Builds an Agent Skill from parsed frontmatter.
///
/// # Errors
/// When no client could offer it.
pub fn agent_skill_from_fields(
    fields: &FrontmatterFields,
    directory: Option<&str>,
) -> Result<AgentSkill, AgentSkillError> {
    let name = text_field(fields, "name").or_else(|| directory.map(str::to_owned));
    let tools = fields.get("allowed-tools").map(|tools| allowed_tools(&tools.value.to_value()));
    Ok(AgentSkill {
        name: name.ok_or(AgentSkillError::NoName)?,
        description: text_field(fields, "description").ok_or(AgentSkillError::NoDescription)?,
        license: text_field(fields, "license"),
        compatibility: text_field(fields, "compatibility"),
        metadata: fields.get("metadata").map(|found| metadata(&found.value)).unwrap_or_default(),
        allowed_tools: tools.unwrap_or_default(),
        user_invocable: bool_field(fields, "user-invocable").unwrap_or(true),
        model_invocable: !bool_field(fields, "disable-model-invocation").unwrap_or(false),
        argument_hint: fields.get("argument-hint").and_then(|hint| argument_hint(&hint.value)),
    })
}

/// Parses a YAML boolean in any common spelling; `None` for anything else.
pub(crate) fn parse_bool(value: &YamlNode) -> Option<bool> {
    match value.text()?.trim().to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" => Some(true),
        "false" | "no" | "off" => Some(false),
        _ => None,
    }
}

fn bool_field(fields: &FrontmatterFields, key: &str) -> Option<bool> {
    fields.get(key).and_then(|found| parse_bool(&found.value))
}

fn text_field(fields: &FrontmatterFields, key: &str) -> Option<String> {
    let text = fields.get(key)?.value.text()?.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

fn metadata(value: &YamlNode) -> BTreeMap<String, String> {
    let YamlNode::Mapping(entries) = value else { return BTreeMap::new() };
    let pair = |entry: &FrontmatterEntry| {
        let value = &entry.value.value;
        let text = value.text().map_or_else(|| value.to_value().to_string(), str::to_owned);
        (entry.key.value.clone(), text)
    };
    entries.iter().filter(|entry| !entry.value.value.is_null()).map(pair).collect()
}

/// Reads an argument hint. YAML parses an unquoted `[file]` as a list, which is written back as it was.
fn argument_hint(value: &YamlNode) -> Option<String> {
    match value {
        YamlNode::Sequence(items) => {
            let words: Vec<&str> = items.iter().filter_map(|item| item.value.text()).collect();
            (!words.is_empty()).then(|| format!("[{}]", words.join(", ")))
        }
        other => other.text().map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(frontmatter: &str) -> Result<AgentSkill, AgentSkillError> {
        read_agent_skill(&format!("---\n{frontmatter}\n---\n# Body\n"), None)
    }

    #[test]
    fn all_fields_are_read() {
        let skill = read(
            "name: pdf\ndescription: ' Reads PDF: when asked '\nlicense: MIT\ncompatibility: git\n\
             metadata:\n  version: 1.10\n  nested: {a: [1]}\n  none:\nallowed-tools: [Bash, Read]\n\
             user-invocable: no\ndisable-model-invocation: true\nargument-hint: [file, page]",
        );
        let pairs = [("version", "1.10"), ("nested", r#"{"a":[1]}"#)];
        let expected = AgentSkill {
            name: "pdf".into(),
            description: "Reads PDF: when asked".into(),
            license: Some("MIT".into()),
            compatibility: Some("git".into()),
            metadata: pairs.map(|(key, value)| (key.into(), value.into())).into(),
            allowed_tools: vec!["Bash".into(), "Read".into()],
            user_invocable: false,
            model_invocable: false,
            argument_hint: Some("[file, page]".into()),
        };
        assert_eq!(skill, Ok(expected));
    }

    #[test]
    fn a_description_is_enough() {
        let skill =
            read_agent_skill("\u{feff}---\r\ndescription: d\r\n---\r\n", Some("dir")).unwrap();
        assert_eq!((skill.name.as_str(), skill.description.as_str()), ("dir", "d"));
        assert!(skill.user_invocable && skill.model_invocable);
        assert_eq!(read("name: 123\ndescription: Use when: so").unwrap().name, "123");
        assert_eq!(
            read("name: 123\ndescription: Use when: so").unwrap().description,
            "Use when: so"
        );
    }

    #[test]
    fn unusable_documents_are_refused() {
        assert_eq!(read_agent_skill("# A", None), Err(AgentSkillError::NoFrontmatter));
        assert_eq!(read_agent_skill("---\nname: a\n", None), Err(AgentSkillError::NotClosed));
        assert_eq!(read("description: d"), Err(AgentSkillError::NoName));
        for none in ["name: a", "name: a\ndescription: ''", "name: a\ndescription: [x]"] {
            assert_eq!(read(none), Err(AgentSkillError::NoDescription), "{none}");
        }
        assert!(matches!(read("a: ["), Err(AgentSkillError::FrontmatterError(_))));
        assert!(matches!(
            read("- a"),
            Err(AgentSkillError::FrontmatterError(FrontmatterError::NotAMapping { .. }))
        ));
    }
}
