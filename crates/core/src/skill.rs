//! What a skill holds, and what makes one acceptable.

use serde::{Deserialize, Serialize};

use crate::{
    AgentSkill, Digest, Field, RuleError, ToolMeta,
    limits::{MAX_AGENT_SKILL_BYTES, MAX_SKILL_BYTES},
    markdown,
};

/// The path of a bundle's root document.
pub const ROOT_PATH: &str = "SKILL.md";

/// What the last segment of an address may be under which a live client has a skill.
pub const LEAVES: [&str; 2] = ["skill.md", ROOT_PATH];

/// Whether a path ends as that of a live client's skill does.
#[must_use]
pub fn has_leaf(path: &str) -> bool {
    LEAVES.contains(&path.rsplit('/').next().unwrap_or(path))
}

/// One file of a bundle: where it stands, and which bytes it holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileMeta {
    /// Path inside the bundle, with forward slashes.
    pub path: String,
    /// Content address.
    pub digest: Digest,
    /// Size in bytes.
    pub size: u64,
}

/// All that is known of a skill without reading a body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillMeta {
    /// First H1 of the root document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// First paragraph of the root document, cut for an index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The bundle's files, the root document first.
    pub files: Vec<FileMeta>,
    /// What the root document says of itself as an Agent Skill, if it does, within bounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<Box<AgentSkill>>,
    /// What its manifest says, if it is a tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<Box<ToolMeta>>,
}

impl SkillMeta {
    /// The metadata of a skill that is one Markdown document.
    ///
    /// # Errors
    /// When the document is empty or too large.
    pub fn of_document(body: &str) -> Result<Self, RuleError> {
        // Where it is registered is not known here; that stands in for a name that it does not give itself.
        Self::examined(body, || AgentSkill::read(body, Some("")).ok())
    }

    /// The same of a document that was looked into before; `agent` is what was found.
    pub(crate) fn examined(
        body: &str,
        agent: impl FnOnce() -> Option<AgentSkill>,
    ) -> Result<Self, RuleError> {
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
        let markdown::Summary { title, description } = markdown::summarise(body);
        let root = FileMeta {
            path: ROOT_PATH.to_owned(),
            digest: Digest::of(body.as_bytes()),
            size: body.len() as u64,
        };
        let agent = agent().filter(|agent| agent.bytes() <= MAX_AGENT_SKILL_BYTES).map(Box::new);
        Ok(Self { title, description, files: vec![root], agent, tool: None })
    }

    /// The root document.
    #[must_use]
    pub fn root(&self) -> Option<&FileMeta> {
        self.files.first()
    }

    /// The file at a path.
    #[must_use]
    pub fn file(&self, path: &str) -> Option<&FileMeta> {
        self.files.iter().find(|file| file.path == path)
    }

    /// What identifies this version of the bundle as a whole: the digest of the root document for a
    /// bundle of one file, otherwise of the list of paths and digests, and of a tool's manifest too.
    #[must_use]
    pub fn digest(&self) -> Digest {
        match (self.files.as_slice(), &self.tool) {
            ([only], None) => only.digest,
            (files, tool) => {
                let lines = files.iter().map(|file| format!("{} {}\n", file.digest, file.path));
                // No path is empty.
                let tool = tool.iter().map(|tool| format!("{} \n", tool.source.digest));
                Digest::of(lines.chain(tool).collect::<String>().as_bytes())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_from_one_byte_to_the_limit() {
        assert_eq!(
            SkillMeta::of_document("").expect_err("empty").to_string(),
            "skill must be non-empty"
        );
        assert!(SkillMeta::of_document("x").is_ok());
        assert!(SkillMeta::of_document(&"x".repeat(262_144)).is_ok());
        let error = SkillMeta::of_document(&"x".repeat(262_145)).expect_err("too large");
        assert!(error.to_string().starts_with("skill too large: 262145 bytes"));
    }

    #[test]
    fn the_limit_counts_bytes_not_characters() {
        assert!(SkillMeta::of_document(&"é".repeat(131_072)).is_ok());
        assert!(SkillMeta::of_document(&"é".repeat(131_073)).is_err());
    }

    #[test]
    fn what_it_says_of_itself_is_kept_also_without_a_name() {
        let body = "---\ndescription: d\nuser-invocable: false\n---\n";
        let agent = SkillMeta::of_document(body).unwrap().agent.unwrap();
        assert_eq!((agent.name.as_str(), agent.user_invocable), ("", false));
        assert!(SkillMeta::of_document("---\nname: a\n---\n").unwrap().agent.is_none());
    }

    #[test]
    fn a_bundle_of_one_has_its_documents_digest() {
        let meta = SkillMeta::of_document("# T\n\nD").unwrap();
        assert_eq!(meta.digest(), Digest::of(b"# T\n\nD"));
        let mut two = meta.clone();
        two.files.push(FileMeta { path: "a.md".into(), digest: Digest::of(b"a"), size: 1 });
        assert_ne!(two.digest(), meta.digest());
    }
}
