//! Input of the index: what is searchable about an entry.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use skills_core::EntryKind;

/// Kind of a search result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HitKind {
    /// A skill without a manifest.
    Skill,
    /// A prompt.
    Prompt,
    /// A skill with a manifest, which can be called.
    Tool,
}

impl HitKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Skill, Self::Prompt, Self::Tool];

    /// Returns the name of the kind in filters and answers.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Skill => "skill",
            Self::Prompt => "prompt",
            Self::Tool => "tool",
        }
    }

    /// Returns the kind of a name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str().eq_ignore_ascii_case(name))
    }
}

/// Searchable field of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SearchField {
    /// Id of a skill or name of a prompt.
    Id,
    /// Name in the frontmatter.
    Name,
    /// Title.
    Title,
    /// Tags, keywords and triggers.
    Tags,
    /// Description.
    Description,
    /// Headings of the document.
    Headings,
    /// Text of the document.
    Body,
    /// Names of files and sections.
    Files,
    /// Names of a tool's parameters or a prompt's arguments.
    Parameters,
}

impl SearchField {
    /// Number of fields.
    pub(crate) const COUNT: usize = 9;

    /// Returns the name of the field in answers.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Id => "id",
            Self::Name => "name",
            Self::Title => "title",
            Self::Tags => "tags",
            Self::Description => "description",
            Self::Headings => "headings",
            Self::Body => "body",
            Self::Files => "files",
            Self::Parameters => "parameters",
        }
    }
}

/// Key of a document in its partition.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DocumentKey {
    /// Kind of the entry. A tool is a skill.
    pub kind: EntryKind,
    /// Id or name.
    pub id: Arc<str>,
}

/// Document to index.
#[derive(Debug, Clone)]
pub struct SearchDocument {
    /// Key.
    pub key: DocumentKey,
    /// Kind shown in answers.
    pub kind: HitKind,
    /// Name in the frontmatter, if it differs from the id.
    pub name: Option<String>,
    /// Title.
    pub title: String,
    /// Tags, keywords and triggers.
    pub tags: Vec<String>,
    /// Names of allowed tools.
    pub allowed_tools: Vec<String>,
    /// Description in full.
    pub description: String,
    /// Markdown text without its frontmatter.
    pub body: String,
    /// Paths of further files, and names of sections.
    pub files: Vec<String>,
    /// Names of parameters.
    pub parameters: Vec<String>,
}

impl SearchDocument {
    /// Creates a document with an id and nothing else.
    #[must_use]
    pub fn new(kind: HitKind, id: Arc<str>) -> Self {
        let entry = if kind == HitKind::Prompt { EntryKind::Prompt } else { EntryKind::Skill };
        Self {
            key: DocumentKey { kind: entry, id },
            kind,
            name: None,
            title: String::new(),
            tags: vec![],
            allowed_tools: vec![],
            description: String::new(),
            body: String::new(),
            files: vec![],
            parameters: vec![],
        }
    }

    /// Returns the bytes of text that are indexed.
    #[must_use]
    pub fn text_bytes(&self) -> usize {
        let lists = [&self.tags, &self.files, &self.parameters, &self.allowed_tools];
        let lists = lists.iter().flat_map(|list| list.iter()).map(String::len).sum::<usize>();
        let name = self.name.as_ref().map_or(0, String::len);
        self.key.id.len()
            + name
            + self.title.len()
            + self.description.len()
            + self.body.len()
            + lists
    }
}
