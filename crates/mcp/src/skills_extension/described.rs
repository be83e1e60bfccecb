//! What the extension says of a skill: its frontmatter, and the files it has.

use std::{
    num::NonZeroUsize,
    sync::{Arc, Mutex, PoisonError},
};

use lru::LruCache;
use rmcp::model::JsonObject;
use serde_json::{Value, json};
use skills_core::{
    Digest, HandlerId, Kind,
    agent_skill::AgentDocument,
    bundle::media_type,
    skill::ROOT_PATH,
    uri::{self, percent_encoded},
};
use skills_registry::{RegistryError, SkillRow};

use super::{SCHEME, SECTIONS};
use crate::server::Shared;

/// More sections than this are not looked for in a body.
const MAX_SECTIONS: usize = 512;
const REMEMBERED: NonZeroUsize = NonZeroUsize::new(2048).expect("not zero");

/// What the extension says of a skill.
#[derive(Debug)]
pub(super) struct Described {
    pub(super) name: String,
    pub(super) frontmatter: JsonObject,
    pub(super) files: Vec<File>,
    is_dynamic: bool,
}

/// A file of a skill, as a host sees it.
#[derive(Debug)]
pub(super) struct File {
    pub(super) path: String,
    pub(super) content: FileContent,
}

#[derive(Debug)]
pub(super) enum FileContent {
    /// Bytes that are stored.
    Stored { digest: Digest, size: u64 },
    /// What a function gives.
    Section,
}

impl Described {
    fn of(row: &SkillRow, body: &str) -> Self {
        let AgentDocument { name, fields: frontmatter, header } =
            AgentDocument::of(&row.id, &row.meta, body);
        let whole = format!("{header}{body}");
        let content =
            FileContent::Stored { digest: Digest::of(whole.as_bytes()), size: whole.len() as u64 };
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

    pub(super) fn folder(&self, id: &str) -> String {
        match self.name == id {
            true => format!("{SCHEME}{id}"),
            false => format!("{SCHEME}{id}/{}", self.name),
        }
    }

    /// The URI of a file or a folder of it.
    pub(super) fn uri(&self, id: &str, path: &str) -> String {
        format!("{}/{}", self.folder(id), percent_encoded(path))
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
        let resources = match self.is_dynamic {
            true => json!("dynamic"),
            false => self.files.iter().filter_map(file).collect(),
        };
        let uri = self.uri(id, ROOT_PATH);
        json!({ "uri": uri, "frontmatter": self.frontmatter, "resources": resources })
    }

    /// A file as a directory shows it.
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

/// The functions that a body links as its sections, sorted.
pub(crate) fn sections(id: &str, body: &str) -> Vec<HandlerId> {
    let prefix = format!("{}{id}/", uri::SCHEME);
    let mut functions: Vec<HandlerId> = body
        .match_indices(&prefix)
        .map(|(at, _)| &body[at + prefix.len()..])
        .map(|rest| {
            let ends = |c: char| c.is_whitespace() || "()[]<>\"'`|/?#".contains(c);
            let link = &rest[..rest.find(ends).unwrap_or(rest.len())];
            link.trim_end_matches(['.', ',', ';', ':', '!', '*', '_'])
        })
        .filter_map(|function| function.parse().ok())
        .take(MAX_SECTIONS)
        .collect();
    functions.sort_by(|one, other| one.as_str().cmp(other.as_str()));
    functions.dedup();
    functions
}

/// What was described before, by id and digest of the body.
#[derive(Debug)]
pub(crate) struct Memory(Mutex<LruCache<Version, Arc<Described>>>);

/// One version of a skill: its id and the digest of all its files.
type Version = (Arc<str>, Digest);

impl Default for Memory {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(REMEMBERED)))
    }
}

/// How often a skill that is replaced while it is looked at is looked at again.
const LOOKS: usize = 3;

pub(super) async fn describe(
    shared: &Shared,
    row: &SkillRow,
) -> Result<Arc<Described>, RegistryError> {
    let memory = || shared.described.0.lock().unwrap_or_else(PoisonError::into_inner);
    let mut newer: Option<Arc<SkillRow>> = None;
    for _ in 0..LOOKS {
        let row = newer.as_deref().unwrap_or(row);
        // A registry that does not tell digests cannot be remembered.
        let Some(root) = row.meta.root() else {
            return Ok(Arc::new(Described::of(row, &body(shared, &row.id).await?)));
        };
        let key = (Arc::clone(&row.id), row.meta.digest());
        if let Some(known) = memory().get(&key) {
            return Ok(Arc::clone(known));
        }
        let body = body(shared, &row.id).await?;
        // A body is read by id: it may be that of a later version.
        if Digest::of(body.as_bytes()) == root.digest {
            let described = Arc::new(Described::of(row, &body));
            memory().put(key, Arc::clone(&described));
            return Ok(described);
        }
        let missing = || RegistryError::NotFound { kind: Kind::Skill, id: row.id.to_string() };
        let found = shared.skills.catalog().await?.skill(&row.id).cloned();
        newer = Some(found.ok_or_else(missing)?);
    }
    let message = format!("{} is being replaced again and again", row.id);
    Err(RegistryError::Remote { code: "conflict".to_owned(), message })
}

pub(super) async fn body(shared: &Shared, id: &str) -> Result<String, RegistryError> {
    Ok(shared.skills.read(&format!("{}{id}", uri::SCHEME)).await?.into_text())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(body: &str) -> Vec<String> {
        sections("brain", body).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn sections_are_the_links_into_the_skill() {
        let body = "See [x](iii://brain/brain::a) and iii://brain/brain::b.\n\
            `iii://brain/brain::a`, iii://other/o::p, iii://brain, iii://brain/state::get";
        assert_eq!(ids(body), ["brain::a", "brain::b"]);
        assert!(ids("iii://brain/").is_empty());
    }
}
