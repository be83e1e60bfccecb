//! The built-in client: stored skills as paths. It is called like any client, but responds in process.
//!
//! The root document of a skill is at `/{id}/skill.md`, every other file of its bundle at `/{id}/{path}`. Listings have
//! the Markdown documents, from the catalog and without reading one. A path that is valid for a skill is listed as a
//! skill; another one, such as `/{id}/references/guide.md`, as an endpoint with method GET. Sections are no documents and
//! are not reachable here. `/{id}@{version}/…` reads one version, which no listing has.

use std::{borrow::Cow, iter, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use serde_json::{json, value::to_raw_value};
use skills_core::{
    Caller, Code, Coded, Timestamp, content::media_type, output::MARKDOWN, skill::ROOT_PATH,
    version::split_version,
};
use skills_http::is_unavailable;
use skills_registry::{Catalog, Document, RegistryError, SkillRegistry, SkillRow};

use crate::{
    ClientCallError, ClientResponse, REGISTRY_CLIENT_ID,
    path::{self, SKILL_LEAVES},
    wire::{ClientInfo, Descriptor, DescriptorKind, Method},
};

/// A stored document, with the warning of its version.
pub(crate) struct StoredDocument {
    pub(crate) document: Document,
    /// Reason why the version was yanked.
    pub(crate) yanked: Option<String>,
}

/// The registry as an MDP client.
#[derive(Clone)]
pub(crate) struct BuiltinClient {
    skills: Arc<dyn SkillRegistry>,
    pub(crate) info: ClientInfo,
    pub(crate) since: Timestamp,
}

impl BuiltinClient {
    pub(crate) fn new(skills: Arc<dyn SkillRegistry>, since: Timestamp) -> Self {
        let mut info = ClientInfo::new(REGISTRY_CLIENT_ID, "Registry");
        info.description = Some("The skills that are stored on this server.".to_owned());
        info.version = Some(env!("CARGO_PKG_VERSION").to_owned());
        Self { skills, info, since }
    }

    /// Returns the client with the registry as a caller sees it.
    pub(crate) fn view(&self, caller: &Caller) -> Result<Cow<'_, Self>, ClientCallError> {
        if *caller == Caller::Anonymous {
            return Ok(Cow::Borrowed(self));
        }
        let skills = Arc::clone(&self.skills).view(caller).map_err(registry_error)?;
        Ok(Cow::Owned(Self { skills, ..self.clone() }))
    }

    /// Returns the current catalog.
    pub(crate) async fn catalog(&self) -> Result<Arc<Catalog>, ClientCallError> {
        self.skills.catalog().await.map_err(registry_error)
    }

    /// Returns whether a path exists.
    pub(crate) async fn has(&self, method: Method, path: &str) -> bool {
        let Some((id, inside)) = split(path).filter(|_| method == Method::Get) else {
            return false;
        };
        let row = self.row(id).await.ok().flatten();
        row.is_some_and(|row| find_file(&row, inside).is_some())
    }

    pub(crate) async fn call(
        &self,
        method: Method,
        path: &str,
    ) -> Result<ClientResponse, ClientCallError> {
        let StoredDocument { document, yanked } = match method {
            Method::Get => self.read(path).await?,
            _ => return Err(not_found(method, path)),
        };
        let data = match std::str::from_utf8(&document.body) {
            Ok(text) => to_raw_value(text),
            Err(_) => to_raw_value(&json!({
                "encoding": "base64",
                "contentType": document.media_type,
                "content": BASE64.encode(&document.body),
            })),
        };
        let data = data.map_err(|error| ClientCallError::Registry(error.to_string()))?;
        Ok(ClientResponse::from_server(data, yanked))
    }

    /// Reads the document at a path.
    pub(crate) async fn read(&self, path: &str) -> Result<StoredDocument, ClientCallError> {
        let not_found = || not_found(Method::Get, path);
        let (id, inside) = split(path).ok_or_else(not_found)?;
        let row = self.row(id).await?.ok_or_else(not_found)?;
        let inside = find_file(&row, inside).ok_or_else(not_found)?;
        let read = self.skills.document(&row, inside).await;
        let document = read.map_err(|error| match error {
            RegistryError::NotFound { .. } => not_found(),
            error => registry_error(error),
        })?;
        let yanked = row.pinned.as_ref().and_then(|pinned| pinned.yanked.clone());
        Ok(StoredDocument { document, yanked })
    }

    /// Returns the row of a skill, or of one of its versions; `None` if there is none.
    async fn row(&self, id: &str) -> Result<Option<Arc<SkillRow>>, ClientCallError> {
        let Ok((id, version)) = split_version(id) else { return Ok(None) };
        let Some(version) = version else {
            return Ok(self.catalog().await?.skill(&id).cloned());
        };
        match self.skills.skill_version(None, &id, &version).await {
            Ok(row) => Ok(Some(row)),
            Err(error @ RegistryError::Version(_)) => {
                Err(ClientCallError::NoVersion(error.to_string()))
            }
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(registry_error(error)),
        }
    }
}

/// Returns the number of documents in a listing.
pub(crate) fn document_count(catalog: &Catalog) -> usize {
    let rows = catalog.skills_after(None).filter(|row| !row.is_live());
    rows.map(|row| 1 + other_documents(row).count()).sum()
}

/// Returns the Markdown documents of a skill besides its root document.
fn other_documents(row: &SkillRow) -> impl Iterator<Item = &str> {
    let paths = row.meta.files.iter().map(|file| file.path.as_str());
    paths.filter(|path| *path != ROOT_PATH && media_type(path) == MARKDOWN)
}

/// Returns the skills from an id on, each with all its Markdown documents.
pub(crate) fn documents<'a>(
    catalog: &'a Catalog,
    from: Option<&'a str>,
) -> impl Iterator<Item = (&'a str, impl Iterator<Item = Descriptor> + 'a)> {
    let first = from.and_then(|id| catalog.skill(id).filter(|row| *row.id == *id));
    let rows = first.into_iter().chain(catalog.skills_after(from));
    rows.filter(|row| !row.is_live()).map(|row| {
        let others = other_documents(row).map(|path| descriptor(&row.id, path));
        (&*row.id, iter::once_with(|| root_descriptor(row)).chain(others))
    })
}

fn root_descriptor(row: &SkillRow) -> Descriptor {
    let mut descriptor = descriptor(&row.id, SKILL_LEAVES[0]);
    descriptor.description = row.description().map(Cow::into_owned);
    descriptor
}

fn descriptor(id: &str, inside: &str) -> Descriptor {
    let path = format!("/{id}/{inside}");
    let kind = if path::is_skill(&path) {
        DescriptorKind::Skill
    } else {
        DescriptorKind::Endpoint(Method::Get)
    };
    Descriptor { content_type: Some(MARKDOWN.to_owned()), ..Descriptor::new(kind, path) }
}

/// Splits a path into the id of a skill and the path inside it.
fn split(path: &str) -> Option<(&str, &str)> {
    path.strip_prefix('/')?.split_once('/')
}

/// Finds the file for a path inside a skill. The leaf of a skill matches in either spelling.
fn find_file<'a>(row: &'a SkillRow, inside: &'a str) -> Option<&'a str> {
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
    let found = if SKILL_LEAVES.contains(&leaf) { exact.or_else(other) } else { exact };
    found.map(|file| file.path.as_str())
}

fn not_found(method: Method, path: &str) -> ClientCallError {
    ClientCallError::NotFound {
        client: REGISTRY_CLIENT_ID.to_owned(),
        method,
        path: path.to_owned(),
    }
}

/// Returns whether an error says that there is no such skill.
fn is_absent(error: &RegistryError) -> bool {
    matches!(error, RegistryError::Rule(_)) || error.code() == Code::NotFound
}

fn registry_error(error: RegistryError) -> ClientCallError {
    tracing::warn!(code = %error.code_text(), %error, "cannot read from the registry");
    if is_unavailable(error.code()) {
        return ClientCallError::Unavailable(error.to_string());
    }
    ClientCallError::Registry(error.to_string())
}
