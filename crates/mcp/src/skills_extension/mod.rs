//! Skills over MCP: the extension `io.modelcontextprotocol/skills` (SEP-2640).
//!
//! A skill is a directory `skill://{id}` with a `SKILL.md` that begins with frontmatter. A body without frontmatter, or
//! whose frontmatter lacks a name or a description, gets one prepended from the registry's metadata; `iii://{id}` is
//! the registered text. The last segment before `SKILL.md` must be the name in the frontmatter: a name other than the
//! id follows the id, as `skill://{id}/{name}/SKILL.md`. Functions that a body links as its sections are files in a
//! directory `sections`, and make the skill `"dynamic"`. Skills of live clients are in `live`. `skill://{id}@{version}` is
//! the directory of one version.
//!
//! rmcp has no types for the extension yet; when it has, only this module changes.

mod description;
mod live;
pub(crate) mod resource_list;

use std::{collections::BTreeMap, sync::Arc};

use futures_util::{StreamExt as _, stream};
use rmcp::{
    ErrorData,
    model::{CacheScope, CustomRequest, ErrorCode, JsonObject},
};
use serde::Deserialize;
use serde_json::{Value, json};
use skills_agent_skills::AgentDocument;
use skills_core::{
    output::{JSON, MARKDOWN},
    skill::ROOT_PATH,
    uri::{self, SKILL_SCHEME, percent_decode},
    version::split_version,
};
use skills_registry::{Resource, SkillRow};

pub(crate) use self::description::{DescriptionCache, sections};
use self::description::{File, FileContent, SkillDescription, address, body, describe};
use crate::{
    budget::ResponseBudget,
    cursor::{self, Listing},
    error::{into_invalid_params, invalid, to_mcp},
    server::{PAGE, Shared},
};

/// Name of the extension in the capabilities.
pub(crate) const ID: &str = "io.modelcontextprotocol/skills";
/// Directory of the sections.
const SECTIONS: &str = "sections";
const DIRECTORY: &str = "inode/directory";
/// Skills of a page that are read concurrently.
const READ_AHEAD: usize = 8;

/// Returns the settings of the extension in the capabilities.
pub(crate) fn capability() -> JsonObject {
    JsonObject::from_iter([("directoryRead".to_owned(), json!(true))])
}

#[derive(Debug, Default, Deserialize)]
struct Params {
    uri: Option<String>,
    cursor: Option<String>,
}

/// Handles a request of the extension. The older revisions have no cache hints.
pub(crate) async fn handle(
    shared: &Shared,
    budget: &ResponseBudget,
    request: CustomRequest,
    hints: Option<(u64, CacheScope)>,
) -> Result<Value, ErrorData> {
    let params = || -> Result<Params, ErrorData> {
        let params = request.params_as::<Params>();
        Ok(params.map_err(|error| invalid(error.to_string()))?.unwrap_or_default())
    };
    let uri = || params()?.uri.ok_or_else(|| invalid("uri is required"));
    let mut result = match request.method.as_str() {
        "skills/list" => list(shared, budget, params()?.cursor.as_deref()).await?,
        "skills/get" => {
            json!({ "skill": get(shared, budget, &uri()?).await.map_err(into_invalid_params)? })
        }
        "resources/directory/read" => {
            cursor::reject(params()?.cursor.as_deref())?;
            let listed = directory(shared, budget, &uri()?).await;
            json!({ "resources": listed.map_err(into_invalid_params)? })
        }
        _ => {
            return Err(ErrorData::new(
                ErrorCode::METHOD_NOT_FOUND,
                format!("unknown method: {}", request.method.chars().take(100).collect::<String>()),
                None,
            ));
        }
    };
    if let Some((ttl_ms, scope)) = hints {
        result["resultType"] = json!("complete");
        result["ttlMs"] = json!(ttl_ms);
        result["cacheScope"] = json!(scope);
    }
    Ok(result)
}

async fn list(
    shared: &Shared,
    budget: &ResponseBudget,
    cursor: Option<&str>,
) -> Result<Value, ErrorData> {
    let after = cursor::decode(Listing::Skills, cursor)?;
    let catalog = shared.skills.catalog().await.map_err(|error| to_mcp(&error))?;
    let rows = catalog.skills_after(after.as_deref());
    let bytes = |row: &&Arc<SkillRow>| row.listed_bytes();
    let (rows, next) = cursor::page_by_bytes(Listing::Skills, rows, PAGE, bytes, |row| &row.id);
    budget.reserve(rows.iter().map(bytes).sum())?;
    let stored = rows.iter().copied().filter(|row| !row.is_live()).cloned().collect();
    let mut stored = describe_page(shared, stored).await.into_iter().peekable();
    let entry = |row: &Arc<SkillRow>| match stored.next_if(|(other, _)| Arc::ptr_eq(row, other)) {
        Some((row, description)) => Some(description.entry(&row.id)),
        None => live::entry(row),
    };
    let mut page = json!({ "skills": rows.into_iter().filter_map(entry).collect::<Vec<_>>() });
    if let Some(next) = next {
        page["nextCursor"] = json!(next);
    }
    Ok(page)
}

/// Describes stored skills. One that was removed meanwhile, or is corrupt, is omitted: a listing may omit skills.
async fn describe_page(
    shared: &Shared,
    rows: Vec<Arc<SkillRow>>,
) -> Vec<(Arc<SkillRow>, Arc<SkillDescription>)> {
    let described = stream::iter(rows).map(|row| async move {
        match describe(shared, &row).await {
            Ok(description) => Some((row, description)),
            Err(error) => {
                tracing::warn!(id = %row.id, %error, "omitted from the list of skills");
                None
            }
        }
    });
    described.buffered(READ_AHEAD).filter_map(std::future::ready).collect().await
}

async fn get(shared: &Shared, budget: &ResponseBudget, uri: &str) -> Result<Value, ErrorData> {
    if let Some(row) = live_skill(shared, uri).await? {
        return live::entry(&row).ok_or_else(|| not_found(uri));
    }
    let resolved = ResolvedUri::resolve(shared, uri).await?;
    budget.reserve(resolved.row.listed_bytes())?;
    match resolved.path.as_deref() {
        Some(ROOT_PATH) => Ok(resolved.description.entry(&address(&resolved.row))),
        _ => Err(not_found(uri)),
    }
}

/// Lists the direct children of a directory.
async fn directory(
    shared: &Shared,
    budget: &ResponseBudget,
    uri: &str,
) -> Result<Vec<Value>, ErrorData> {
    let ResolvedUri { row, description, path } = ResolvedUri::resolve(shared, uri).await?;
    budget.reserve(row.listed_bytes())?;
    let id = address(&row);
    let folder =
        |uri: String, name: &str| json!({ "uri": uri, "name": name, "mimeType": DIRECTORY });
    let Some(path) = path else {
        // The parent folder of a skill whose name is not its id.
        return Ok(vec![folder(description.folder(&id), &description.name)]);
    };
    let mut children = BTreeMap::new();
    for file in &description.files {
        let Some(rest) = strip_folder(&file.path, &path) else { continue };
        match rest.split_once('/') {
            None => children.insert(rest, description.resource(&id, file)),
            Some((name, _)) => {
                let path = &file.path[..file.path.len() - rest.len() + name.len()];
                children.insert(name, folder(description.uri(&id, path), name))
            }
        };
    }
    if children.is_empty() { Err(not_found(uri)) } else { Ok(children.into_values().collect()) }
}

/// Returns the rest of a path inside a folder.
fn strip_folder<'a>(path: &'a str, folder: &str) -> Option<&'a str> {
    match folder {
        "" => Some(path),
        folder => path.strip_prefix(folder)?.strip_prefix('/'),
    }
}

/// Finds the live skill at a URI that no stored file has.
async fn live_skill(shared: &Shared, uri: &str) -> Result<Option<Arc<SkillRow>>, ErrorData> {
    let catalog = shared.skills.catalog().await.map_err(|error| to_mcp(&error))?;
    let Some(row) = live::find(&catalog, uri) else { return Ok(None) };
    let is_stored = row.origin().is_some_and(|(client, _)| catalog.skill(client).is_some());
    // A stored skill of the client's id may have a file there.
    let has_file = is_stored
        && match ResolvedUri::resolve(shared, uri).await {
            Ok(resolved) => resolved.file().is_some(),
            // The files of a skill that cannot be read are unknown.
            Err(error) => error.code != ErrorCode::INVALID_PARAMS,
        };
    Ok((!has_file).then(|| Arc::clone(row)))
}

/// Reads a file by its `skill://` URI.
pub(crate) async fn read(shared: &Shared, uri: &str) -> Result<Resource, ErrorData> {
    if let Some(row) = live_skill(shared, uri).await? {
        let body = body(shared, &row).await.map_err(|error| to_mcp(&error))?;
        return Ok(document(uri, live::header(&row, &body), &body));
    }
    let resolved = ResolvedUri::resolve(shared, uri).await.map_err(into_not_found)?;
    if resolved.path.as_deref() == Some(resource_list::MANIFEST) && resolved.file().is_none() {
        let body = resource_list::manifest(&resolved.row, &resolved.description).into();
        let mime_type = JSON.to_owned();
        return Ok(Resource { uri: uri.to_owned(), mime_type, body, version: None });
    }
    let file = resolved.file().ok_or_else(|| into_not_found(not_found(uri)))?;
    read_file(shared, uri, &resolved.row, file).await
}

/// Reads a file of a stored skill by its `skill://` URI; `None` for anything else, such as a section.
pub(crate) async fn read_stored(shared: &Shared, uri: &str) -> Option<Resource> {
    let resolved = ResolvedUri::resolve(shared, uri).await.ok()?;
    let file = resolved.file().filter(|file| !matches!(file.content, FileContent::Section))?;
    read_file(shared, uri, &resolved.row, file).await.ok()
}

async fn read_file(
    shared: &Shared,
    uri: &str,
    row: &SkillRow,
    file: &File,
) -> Result<Resource, ErrorData> {
    if file.path == ROOT_PATH {
        let body = body(shared, row).await.map_err(|error| to_mcp(&error))?;
        // Computed from this body, which may be of a later version than the description.
        let header = AgentDocument::new(&row.id, &row.meta, &body).header;
        let version = row.pinned.as_deref().cloned();
        return Ok(Resource { version, ..document(uri, header, &body) });
    }
    let (id, path) = match file.content {
        FileContent::Stored { .. } => (address(row), file.path.as_str()),
        // A function renders the present content, whatever the version.
        FileContent::Section => {
            (row.id.to_string(), strip_folder(&file.path, SECTIONS).unwrap_or_default())
        }
    };
    let read = shared.skills.read(&format!("{}{id}/{path}", uri::SCHEME)).await;
    read.map(|resource| Resource { uri: uri.to_owned(), ..resource })
        .map_err(|error| to_mcp(&error))
}

/// Returns the root document of a skill with its frontmatter.
fn document(uri: &str, header: String, body: &str) -> Resource {
    Resource {
        uri: uri.to_owned(),
        mime_type: MARKDOWN.to_owned(),
        body: format!("{header}{body}").into(),
        version: None,
    }
}

/// Returns the error of the extension's methods for an unknown URI: an invalid parameter.
fn not_found(uri: &str) -> ErrorData {
    invalid(format!("not found: {uri}"))
}

/// Turns an invalid parameter into "resource not found", for `resources/read`.
fn into_not_found(mut error: ErrorData) -> ErrorData {
    if error.code == ErrorCode::INVALID_PARAMS {
        error.code = ErrorCode::RESOURCE_NOT_FOUND;
    }
    error
}

/// Finds the row of a skill, or of one of its versions.
async fn find_row(shared: &Shared, id: &str) -> Result<Option<Arc<SkillRow>>, ErrorData> {
    let (id, version) = split_version(id).map_err(|error| to_mcp(&error.into()))?;
    let Some(version) = version else {
        let catalog = shared.skills.catalog().await.map_err(|error| to_mcp(&error))?;
        return Ok(catalog.skill(&id).cloned());
    };
    let found = shared.skills.skill_version(None, &id, &version).await;
    // The methods of the extension report an unknown URI as an invalid parameter.
    found.map(Some).map_err(|error| into_invalid_params(to_mcp(&error)))
}

/// Skill and path that a URI leads to. The path is relative to the skill's folder, and `None` for the parent folder of
/// a skill whose name is not its id.
struct ResolvedUri {
    row: Arc<SkillRow>,
    description: Arc<SkillDescription>,
    path: Option<String>,
}

impl ResolvedUri {
    /// Returns the file at the path; `None` for a directory.
    fn file(&self) -> Option<&File> {
        let path = self.path.as_deref()?;
        self.description.files.iter().find(|file| file.path == path)
    }

    async fn resolve(shared: &Shared, uri: &str) -> Result<Self, ErrorData> {
        let rest = uri.strip_prefix(SKILL_SCHEME).ok_or_else(|| not_found(uri))?;
        let (id, rest) = rest.split_once('/').map_or((rest, None), |(id, rest)| (id, Some(rest)));
        // The URI of a directory has no trailing slash.
        if rest == Some("") {
            return Err(not_found(uri));
        }
        let row = find_row(shared, id).await?.ok_or_else(|| not_found(uri))?;
        let description = describe(shared, &row).await.map_err(|error| to_mcp(&error))?;
        let decode = |path: &str| percent_decode(path).unwrap_or_else(|| path.to_owned());
        let path = if description.name == *row.id {
            Some(rest.map(decode).unwrap_or_default())
        } else {
            match rest {
                None => None,
                Some(rest) if rest == description.name => Some(String::new()),
                Some(rest) => {
                    let path = strip_folder(rest, &description.name);
                    Some(decode(path.ok_or_else(|| not_found(uri))?))
                }
            }
        };
        Ok(Self { row, description, path })
    }
}
