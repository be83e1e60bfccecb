//! Description of a stored skill for the extension: its frontmatter and its files.

use std::{num::NonZeroUsize, sync::Arc};

use lru::LruCache;
use parking_lot::Mutex;
use rmcp::model::JsonObject;
use serde_json::{Value, json};
use skills_agent_skills::AgentDocument;
use skills_core::{
    Code, Digest, EntryKind, HandlerId,
    content::media_type,
    skill::ROOT_PATH,
    uri::{self, SKILL_SCHEME, percent_encode_path},
    version::VERSION_SEPARATOR,
};
use skills_registry::{RegistryError, SkillRow};

use super::SECTIONS;
use crate::server::Shared;

/// Most sections of a skill that are described.
const MAX_SECTIONS: usize = 512;
/// Most descriptions in the cache.
const CACHE_CAPACITY: NonZeroUsize = NonZeroUsize::new(2048).expect("not zero");
/// Attempts to describe a skill that is replaced meanwhile.
const MAX_ATTEMPTS: usize = 3;

/// Description of one version of a skill.
#[derive(Debug)]
pub(super) struct SkillDescription {
    pub(super) name: String,
    pub(super) frontmatter: JsonObject,
    pub(super) files: Vec<File>,
    is_dynamic: bool,
}

/// File of a skill, as a host sees it.
#[derive(Debug)]
pub(super) struct File {
    pub(super) path: String,
    pub(super) content: FileContent,
}

#[derive(Debug)]
pub(super) enum FileContent {
    /// Stored bytes.
    Stored { digest: Digest, size: u64 },
    /// Output of a function.
    Section,
}

impl SkillDescription {
    fn new(row: &SkillRow, body: &str) -> Self {
        let AgentDocument { name, fields: frontmatter, header } =
            AgentDocument::new(&row.id, &row.meta, body);
        let document = format!("{header}{body}");
        let content = FileContent::Stored {
            digest: Digest::of(document.as_bytes()),
            size: document.len() as u64,
        };
        let mut files = vec![File { path: ROOT_PATH.to_owned(), content }];
        files.extend(row.meta.files.iter().skip(1).map(|file| File {
            path: file.path.clone(),
            content: FileContent::Stored { digest: file.digest, size: file.size },
        }));
        let is_section = |function: &HandlerId| row.meta.file(function.as_str()).is_none();
        let sections: Vec<_> = sections(&row.id, body).into_iter().filter(is_section).collect();
        files.extend(sections.iter().map(|function| File {
            path: format!("{SECTIONS}/{function}"),
            content: FileContent::Section,
        }));
        Self { name, frontmatter, files, is_dynamic: !sections.is_empty() }
    }

    /// Returns the folder of the skill with this [address](address).
    pub(super) fn folder(&self, id: &str) -> String {
        if Some(self.name.as_str()) == id.split(VERSION_SEPARATOR).next() {
            format!("{SKILL_SCHEME}{id}")
        } else {
            format!("{SKILL_SCHEME}{id}/{}", self.name)
        }
    }

    /// Returns the URI of a file or folder of the skill.
    pub(super) fn uri(&self, id: &str, path: &str) -> String {
        format!("{}/{}", self.folder(id), percent_encode_path(path))
    }

    pub(super) fn entry(&self, id: &str) -> Value {
        let file = |file: &File| match file.content {
            FileContent::Stored { digest, size } => Some(json!({
                "uri": self.uri(id, &file.path),
                "digest": format!("sha256:{digest}"),
                "size": size,
            })),
            FileContent::Section => None,
        };
        let resources = if self.is_dynamic {
            json!("dynamic")
        } else {
            self.files.iter().filter_map(file).collect()
        };
        let uri = self.uri(id, ROOT_PATH);
        json!({ "uri": uri, "frontmatter": self.frontmatter, "resources": resources })
    }

    /// Returns a file as an entry of its directory.
    pub(super) fn resource(&self, id: &str, file: &File) -> Value {
        let name = file.path.rsplit('/').next().unwrap_or(&file.path);
        let mut resource = json!({ "uri": self.uri(id, &file.path), "name": name });
        if let FileContent::Stored { size, .. } = file.content {
            resource["mimeType"] = json!(media_type(&file.path));
            resource["size"] = json!(size);
        }
        if file.path == ROOT_PATH {
            resource["name"] = json!(self.name);
            resource["description"] = self.frontmatter["description"].clone();
        }
        resource
    }
}

/// Returns the functions that a body links as its sections, sorted.
pub(crate) fn sections(id: &str, body: &str) -> Vec<HandlerId> {
    let mut functions: Vec<HandlerId> = uri::linked_sections(id, body).take(MAX_SECTIONS).collect();
    functions.sort_by(|one, other| one.as_str().cmp(other.as_str()));
    functions.dedup();
    functions
}

/// Version of a skill: its id and the digest of all its files.
type SkillVersion = (Arc<str>, Digest);

/// LRU cache of descriptions by version.
#[derive(Debug)]
pub(crate) struct DescriptionCache(Mutex<LruCache<SkillVersion, Arc<SkillDescription>>>);

impl Default for DescriptionCache {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(CACHE_CAPACITY)))
    }
}

/// Describes a skill, or its newer version if it is replaced meanwhile.
pub(super) async fn describe(
    shared: &Shared,
    row: &SkillRow,
) -> Result<Arc<SkillDescription>, RegistryError> {
    let cache = &shared.descriptions.0;
    let mut newer: Option<Arc<SkillRow>> = None;
    for _ in 0..MAX_ATTEMPTS {
        let row = newer.as_deref().unwrap_or(row);
        // Without digests, as from some remote registries, a description cannot be cached.
        let Some(root) = row.meta.root() else {
            return Ok(Arc::new(SkillDescription::new(row, &body(shared, row).await?)));
        };
        let key = (Arc::clone(&row.id), row.meta.digest());
        if let Some(description) = cache.lock().get(&key) {
            return Ok(Arc::clone(description));
        }
        let body = body(shared, row).await?;
        // A body is read by id: it may be that of a later version.
        if Digest::of(body.as_bytes()) == root.digest {
            let description = Arc::new(SkillDescription::new(row, &body));
            cache.lock().put(key, Arc::clone(&description));
            return Ok(description);
        }
        let not_found =
            || RegistryError::NotFound { kind: EntryKind::Skill, id: row.id.to_string() };
        let current = shared.skills.catalog().await?.skill(&row.id).cloned();
        newer = Some(current.ok_or_else(not_found)?);
    }
    let message = format!("{} was replaced repeatedly while it was read", row.id);
    Err(RegistryError::Remote { code: Code::Conflict.into(), message })
}

/// Returns the id of a skill, with its version if the row is of one.
pub(super) fn address(row: &SkillRow) -> String {
    match &row.pinned {
        Some(pinned) => format!("{}{VERSION_SEPARATOR}{}", row.id, pinned.version),
        None => row.id.to_string(),
    }
}

pub(super) async fn body(shared: &Shared, row: &SkillRow) -> Result<String, RegistryError> {
    Ok(shared.skills.read(&format!("{}{}", uri::SCHEME, address(row))).await?.into_text())
}
