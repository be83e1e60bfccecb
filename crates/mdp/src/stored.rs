//! The built-in client: what the registry has stored, as paths. It is asked like any client and answers
//! without a hop.
//!
//! The root document of a skill is at `/{id}/skill.md`, every other file of its bundle at `/{id}/{path}`.
//! Listed are the Markdown documents, from the catalog and without reading one. A path that a skill may have
//! is listed as a skill; one that it may not, such as `/{id}/references/guide.md`, as an endpoint to be read.
//! Sections, which are functions, are no documents and not reached from here.

use std::{borrow::Cow, iter, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use serde_json::{json, value::to_raw_value};
use skills_core::{Caller, Timestamp, bundle::media_type, output::MARKDOWN, skill::ROOT_PATH};
use skills_registry::{Catalog, Document, RegistryError, SkillRow, Skills};

use crate::{
    Answer, CallError, REGISTRY,
    path::{self, SKILL_LEAVES},
    wire::{ClientInfo, Descriptor, Kind, Method},
};

/// The registry as a client.
#[derive(Clone)]
pub(crate) struct Stored {
    skills: Arc<dyn Skills>,
    pub(crate) info: ClientInfo,
    pub(crate) since: Timestamp,
}

impl Stored {
    pub(crate) fn new(skills: Arc<dyn Skills>, since: Timestamp) -> Self {
        let mut info = ClientInfo::new(REGISTRY, "Registry");
        info.description = Some("The skills that are stored on this server.".to_owned());
        info.version = Some(env!("CARGO_PKG_VERSION").to_owned());
        Self { skills, info, since }
    }

    /// The same as a caller sees it, with what is theirs alone.
    pub(crate) fn seen_by(&self, caller: &Caller) -> Result<Cow<'_, Self>, CallError> {
        if *caller == Caller::Anonymous {
            return Ok(Cow::Borrowed(self));
        }
        let skills = Arc::clone(&self.skills).view(caller).map_err(failed)?;
        Ok(Cow::Owned(Self { skills, ..self.clone() }))
    }

    /// What is stored now.
    pub(crate) async fn catalog(&self) -> Result<Arc<Catalog>, CallError> {
        self.skills.catalog().await.map_err(failed)
    }

    /// Whether something is at a path.
    pub(crate) async fn has(&self, method: Method, path: &str) -> bool {
        let Ok(catalog) = self.catalog().await else { return false };
        method == Method::Get
            && split(path).is_some_and(|(id, path)| {
                catalog.skill(id).is_some_and(|row| file(row, path).is_some())
            })
    }

    pub(crate) async fn call(&self, method: Method, path: &str) -> Result<Answer, CallError> {
        let document = match method {
            Method::Get => self.read(path).await?,
            _ => return Err(nothing(method, path)),
        };
        let data = match std::str::from_utf8(&document.body) {
            Ok(text) => to_raw_value(text),
            Err(_) => to_raw_value(&json!({
                "encoding": "base64",
                "contentType": document.media_type,
                "content": BASE64.encode(&document.body),
            })),
        };
        let data = data.map_err(|error| CallError::Registry(error.to_string()))?;
        Ok(Answer { data: Some(data) })
    }

    /// The document at a path.
    pub(crate) async fn read(&self, path: &str) -> Result<Document, CallError> {
        let nothing = || nothing(Method::Get, path);
        let (id, inside) = split(path).ok_or_else(nothing)?;
        let row = self.row(id).await?.ok_or_else(nothing)?;
        let inside = file(&row, inside).ok_or_else(nothing)?;
        self.skills.document(&row, inside).await.map_err(|error| match error {
            RegistryError::NotFound { .. } => nothing(),
            error => failed(error),
        })
    }

    async fn row(&self, id: &str) -> Result<Option<Arc<SkillRow>>, CallError> {
        Ok(self.catalog().await?.skill(id).cloned())
    }
}

/// How many documents there are to list.
pub(crate) fn count(catalog: &Catalog) -> usize {
    let rows = catalog.skills_after(None).filter(|row| !row.is_live());
    rows.map(|row| 1 + others(row).count()).sum()
}

/// The Markdown documents of a skill beside its root.
fn others(row: &SkillRow) -> impl Iterator<Item = &str> {
    let paths = row.meta.files.iter().map(|file| file.path.as_str());
    paths.filter(|path| *path != ROOT_PATH && media_type(path) == MARKDOWN)
}

/// The skills from an id on, each with every Markdown document it has.
pub(crate) fn documents<'a>(
    catalog: &'a Catalog,
    from: Option<&'a str>,
) -> impl Iterator<Item = (&'a str, impl Iterator<Item = Descriptor> + 'a)> {
    let first = from.and_then(|id| catalog.skill(id).filter(|row| *row.id == *id));
    let rows = first.into_iter().chain(catalog.skills_after(from));
    rows.filter(|row| !row.is_live()).map(|row| {
        let others = others(row).map(|path| document(&row.id, path));
        (&*row.id, iter::once_with(|| root(row)).chain(others))
    })
}

fn root(row: &SkillRow) -> Descriptor {
    let mut descriptor = document(&row.id, SKILL_LEAVES[0]);
    descriptor.description.clone_from(&row.meta.description);
    descriptor
}

fn document(id: &str, inside: &str) -> Descriptor {
    let path = format!("/{id}/{inside}");
    let kind = match path::is_skill(&path) {
        true => Kind::Skill,
        false => Kind::Endpoint(Method::Get),
    };
    Descriptor { content_type: Some(MARKDOWN.to_owned()), ..Descriptor::new(kind, path) }
}

/// The skill of a path, and what of it.
fn split(path: &str) -> Option<(&str, &str)> {
    path.strip_prefix('/')?.split_once('/')
}

/// The file that a path inside a skill names. The leaf of a skill is taken in either spelling.
fn file<'a>(row: &'a SkillRow, inside: &'a str) -> Option<&'a str> {
    if SKILL_LEAVES.contains(&inside) {
        return Some(ROOT_PATH);
    }
    let files = &row.meta.files;
    let exact = files.iter().find(|file| file.path == inside);
    let (folder, leaf) = inside.rsplit_once('/').unwrap_or(("", inside));
    let is_other_spelling = |path: &str| {
        path.rsplit_once('/')
            .is_some_and(|(other, end)| other == folder && SKILL_LEAVES.contains(&end))
    };
    let other = || files.iter().find(|file| is_other_spelling(&file.path));
    let found = match SKILL_LEAVES.contains(&leaf) {
        true => exact.or_else(other),
        false => exact,
    };
    found.map(|file| file.path.as_str())
}

fn nothing(method: Method, path: &str) -> CallError {
    CallError::NotFound { client: REGISTRY.to_owned(), method, path: path.to_owned() }
}

fn failed(error: RegistryError) -> CallError {
    tracing::warn!(code = error.code(), %error, "what is stored could not be read");
    CallError::Registry(error.to_string())
}
