//! What an Agent Skill says about itself, typed.
//!
//! A document is read as the client guide prescribes: what can be understood is kept, and only a skill that
//! no client could offer is refused. What the specification thinks of it is for [`crate::validate`].

mod document;
mod tools;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub(crate) use self::tools::Tools;
pub use self::{document::AgentDocument, tools::allowed_tools};
use crate::{
    frontmatter::{self, Entry, Fields, Node, Unreadable},
    markdown::{Opening, opening, without_bom},
};

/// The fields of a skill: those of the specification, and the client extensions that are honoured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentSkill {
    /// The name it gives itself, or that of its directory; empty when neither is known.
    pub name: String,
    /// What it does, and when to use it.
    pub description: String,
    /// Name of a license, or of the file that holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub license: Option<String>,
    /// What it needs to run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compatibility: Option<String>,
    /// Its own properties. What is not text is there as it is written, or as JSON.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// The tools it may use without asking.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_tools: Vec<String>,
    /// Whether people may invoke it (`user-invocable`).
    #[serde(default = "yes", skip_serializing_if = "Clone::clone")]
    pub user_invocable: bool,
    /// Whether a model may invoke it (unless `disable-model-invocation`).
    #[serde(default = "yes", skip_serializing_if = "Clone::clone")]
    pub model_invocable: bool,
    /// What is shown as its arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub argument_hint: Option<String>,
}

const fn yes() -> bool {
    true
}

/// Why a document cannot be offered as a skill.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unloadable {
    /// It does not start with frontmatter.
    #[error("there is no frontmatter")]
    NoFrontmatter,
    /// Its frontmatter has no end.
    #[error("the frontmatter is not closed by a line ---")]
    NotClosed,
    /// Its frontmatter cannot be read.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// Neither it nor its directory has a name.
    #[error("there is no name")]
    NoName,
    /// It does not say what it does.
    #[error("there is no description")]
    NoDescription,
}

impl AgentSkill {
    /// The bytes of all its texts.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let optional = [&self.license, &self.compatibility, &self.argument_hint];
        let optional = optional.into_iter().flatten().map(String::len).sum::<usize>();
        let metadata = self.metadata.iter().map(|(key, value)| key.len() + value.len());
        let tools = self.allowed_tools.iter().map(String::len);
        self.name.len()
            + self.description.len()
            + optional
            + metadata.sum::<usize>()
            + tools.sum::<usize>()
    }

    /// Reads a document. The directory's name stands in for one that is missing.
    ///
    /// # Errors
    /// When no client could offer it.
    pub fn read(document: &str, directory: Option<&str>) -> Result<Self, Unloadable> {
        let text = without_bom(document);
        let yaml = match opening(text) {
            Opening::Missing => return Err(Unloadable::NoFrontmatter),
            Opening::Open => return Err(Unloadable::NotClosed),
            Opening::Closed { yaml, .. } => &text[yaml],
        };
        Self::of_fields(&frontmatter::read(yaml)?, directory)
    }

    /// The same of frontmatter that was read.
    ///
    /// # Errors
    /// When no client could offer it.
    pub fn of_fields(fields: &Fields, directory: Option<&str>) -> Result<Self, Unloadable> {
        let name = text_of(fields, "name").or_else(|| directory.map(str::to_owned));
        let tools = fields.get("allowed-tools").map(|tools| allowed_tools(&tools.value.to_value()));
        Ok(Self {
            name: name.ok_or(Unloadable::NoName)?,
            description: text_of(fields, "description").ok_or(Unloadable::NoDescription)?,
            license: text_of(fields, "license"),
            compatibility: text_of(fields, "compatibility"),
            metadata: fields
                .get("metadata")
                .map(|found| metadata(&found.value))
                .unwrap_or_default(),
            allowed_tools: tools.unwrap_or_default(),
            user_invocable: flag_of(fields, "user-invocable").unwrap_or(true),
            model_invocable: !flag_of(fields, "disable-model-invocation").unwrap_or(false),
            argument_hint: fields.get("argument-hint").and_then(|hint| argument_hint(&hint.value)),
        })
    }
}

/// Yes or no, in the words that are used for it; `None` for anything else.
pub(crate) fn flag(value: &Node) -> Option<bool> {
    match value.text()?.trim().to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" => Some(true),
        "false" | "no" | "off" => Some(false),
        _ => None,
    }
}

fn flag_of(fields: &Fields, key: &str) -> Option<bool> {
    fields.get(key).and_then(|found| flag(&found.value))
}

fn text_of(fields: &Fields, key: &str) -> Option<String> {
    let text = fields.get(key)?.value.text()?.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

fn metadata(value: &Node) -> BTreeMap<String, String> {
    let Node::Mapping(entries) = value else { return BTreeMap::new() };
    let pair = |entry: &Entry| {
        let value = &entry.value.value;
        let text = value.text().map_or_else(|| value.to_value().to_string(), str::to_owned);
        (entry.key.value.clone(), text)
    };
    entries.iter().filter(|entry| !entry.value.value.is_null()).map(pair).collect()
}

/// `[file]` without quotes is a list to YAML, and meant as it is written.
fn argument_hint(value: &Node) -> Option<String> {
    match value {
        Node::Sequence(items) => {
            let words: Vec<&str> = items.iter().filter_map(|item| item.value.text()).collect();
            (!words.is_empty()).then(|| format!("[{}]", words.join(", ")))
        }
        other => other.text().map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(frontmatter: &str) -> Result<AgentSkill, Unloadable> {
        AgentSkill::read(&format!("---\n{frontmatter}\n---\n# Body\n"), None)
    }

    #[test]
    fn all_fields() {
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
    fn little_is_enough() {
        let skill =
            AgentSkill::read("\u{feff}---\r\ndescription: d\r\n---\r\n", Some("dir")).unwrap();
        assert_eq!((skill.name.as_str(), skill.description.as_str()), ("dir", "d"));
        assert!(skill.user_invocable && skill.model_invocable);
        assert_eq!(read("name: 123\ndescription: Use when: so").unwrap().name, "123");
        assert_eq!(
            read("name: 123\ndescription: Use when: so").unwrap().description,
            "Use when: so"
        );
    }

    #[test]
    fn what_no_client_could_offer() {
        assert_eq!(AgentSkill::read("# A", None), Err(Unloadable::NoFrontmatter));
        assert_eq!(AgentSkill::read("---\nname: a\n", None), Err(Unloadable::NotClosed));
        assert_eq!(read("description: d"), Err(Unloadable::NoName));
        for none in ["name: a", "name: a\ndescription: ''", "name: a\ndescription: [x]"] {
            assert_eq!(read(none), Err(Unloadable::NoDescription), "{none}");
        }
        assert!(matches!(read("a: ["), Err(Unloadable::Unreadable(_))));
        assert!(matches!(read("- a"), Err(Unloadable::Unreadable(Unreadable::NotAMapping { .. }))));
    }
}
