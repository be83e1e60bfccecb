//! Skills over MCP: the extension `io.modelcontextprotocol/skills` (SEP-2640).
//!
//! A skill is a directory `skill://{id}` with a `SKILL.md` in it that begins with frontmatter. A body that
//! has none, or whose own lacks a name or a description, gets one put before it, made of what the registry
//! knows; `iii://{id}` stays what was registered. The last segment before `SKILL.md` has to be the name in
//! the frontmatter: where that is not the id, it follows the id, as `skill://{id}/{name}/SKILL.md`.
//! Functions that a body links as its sections are files in a directory `sections`, and make the skill
//! `"dynamic"`. Skills of live clients are in `live`.
//!
//! rmcp has no types for any of this yet; when it has, this module is what changes.

mod described;
mod live;

use std::{collections::BTreeMap, sync::Arc};

use futures_util::{StreamExt as _, stream};
use rmcp::{
    ErrorData,
    model::{CacheScope, CustomRequest, ErrorCode, JsonObject},
};
use serde::Deserialize;
use serde_json::{Value, json};
use skills_core::{
    agent_skill::AgentDocument,
    output::MARKDOWN,
    skill::ROOT_PATH,
    uri::{self, percent_decoded},
};
use skills_registry::{RegistryError, Resource, SkillRow};

use self::described::{Described, File, FileContent, body, describe};
pub(crate) use self::described::{Memory, sections};
use crate::{
    cursor::{self, Listing},
    error::{invalid, to_mcp, wrong_parameter},
    server::{PAGE, Shared},
};

/// The extension's name in the capabilities.
pub(crate) const ID: &str = "io.modelcontextprotocol/skills";
/// The scheme of its URIs, with the slashes.
pub(crate) const SCHEME: &str = "skill://";
/// The directory of what functions give.
const SECTIONS: &str = "sections";
const DIRECTORY: &str = "inode/directory";
/// How many skills of a page are read at once.
const READ_AHEAD: usize = 8;

/// The settings of the extension in the capabilities.
pub(crate) fn capability() -> JsonObject {
    JsonObject::from_iter([("directoryRead".to_owned(), json!(true))])
}

#[derive(Debug, Default, Deserialize)]
struct Params {
    uri: Option<String>,
    cursor: Option<String>,
}

/// Answers a request of the extension. In the older revisions answers have no hints about caching.
pub(crate) async fn answer(
    shared: &Shared,
    request: CustomRequest,
    hints: Option<(u64, CacheScope)>,
) -> Result<Value, ErrorData> {
    let params = || -> Result<Params, ErrorData> {
        let params = request.params_as::<Params>();
        Ok(params.map_err(|error| invalid(error.to_string()))?.unwrap_or_default())
    };
    let uri = || params()?.uri.ok_or_else(|| invalid("uri is needed"));
    let mut answer = match request.method.as_str() {
        "skills/list" => list(shared, params()?.cursor.as_deref()).await?,
        "skills/get" => json!({ "skill": get(shared, &uri()?).await.map_err(wrong_parameter)? }),
        "resources/directory/read" => {
            let Params { cursor, .. } = params()?;
            cursor::none(cursor.as_deref())?;
            json!({ "resources": directory(shared, &uri()?).await.map_err(wrong_parameter)? })
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
        answer["resultType"] = json!("complete");
        answer["ttlMs"] = json!(ttl_ms);
        answer["cacheScope"] = json!(scope);
    }
    Ok(answer)
}

async fn list(shared: &Shared, cursor: Option<&str>) -> Result<Value, ErrorData> {
    let after = cursor::read(Listing::Skills, cursor)?;
    let catalog = shared.skills.catalog().await.map_err(|error| to_mcp(&error))?;
    let rows = catalog.skills_after(after.as_deref());
    let (rows, next) = cursor::page(Listing::Skills, rows, PAGE, |row| &row.id);
    let described: Vec<_> = stream::iter(rows.into_iter().cloned())
        .map(|row| async move {
            let described = match row.is_live() {
                true => None,
                false => Some(describe(shared, &row).await),
            };
            (described, row)
        })
        .buffered(READ_AHEAD)
        .collect()
        .await;
    type Read = Option<Result<Arc<Described>, RegistryError>>;
    let entry = |(described, row): (Read, Arc<SkillRow>)| {
        let Some(described) = described else { return live::entry(&row) };
        // It may have gone since the catalog was looked at. A listing may leave skills out.
        described
            .inspect_err(|error| tracing::warn!(id = %row.id, %error, "left out of skills/list"))
            .ok()
            .map(|described| described.entry(&row.id))
    };
    let mut page = json!({ "skills": described.into_iter().filter_map(entry).collect::<Vec<_>>() });
    if let Some(next) = next {
        page["nextCursor"] = json!(next);
    }
    Ok(page)
}

async fn get(shared: &Shared, uri: &str) -> Result<Value, ErrorData> {
    if let Some(row) = live_at(shared, uri).await? {
        return live::entry(&row).ok_or_else(|| nothing_at(uri));
    }
    let place = Place::find(shared, uri).await?;
    match place.path.as_deref() {
        Some(ROOT_PATH) => Ok(place.described.entry(&place.row.id)),
        _ => Err(nothing_at(uri)),
    }
}

/// The direct children of a directory.
async fn directory(shared: &Shared, uri: &str) -> Result<Vec<Value>, ErrorData> {
    let Place { row, described, path } = Place::find(shared, uri).await?;
    let folder =
        |uri: String, name: &str| json!({ "uri": uri, "name": name, "mimeType": DIRECTORY });
    let Some(path) = path else {
        // The folder above, where the name is not the id.
        return Ok(vec![folder(described.folder(&row.id), &described.name)]);
    };
    let mut children = BTreeMap::new();
    for file in &described.files {
        let Some(rest) = inside(&file.path, &path) else { continue };
        match rest.split_once('/') {
            None => children.insert(rest, described.resource(&row.id, file)),
            Some((name, _)) => {
                let uri =
                    described.uri(&row.id, &file.path[..file.path.len() - rest.len() + name.len()]);
                children.insert(name, folder(uri, name))
            }
        };
    }
    match children.is_empty() {
        true => Err(nothing_at(uri)),
        false => Ok(children.into_values().collect()),
    }
}

/// What follows a folder in a path that leads into it.
fn inside<'a>(path: &'a str, folder: &str) -> Option<&'a str> {
    match folder {
        "" => Some(path),
        folder => path.strip_prefix(folder)?.strip_prefix('/'),
    }
}

/// The live skill at a URI where no stored one is.
async fn live_at(shared: &Shared, uri: &str) -> Result<Option<Arc<SkillRow>>, ErrorData> {
    let catalog = shared.skills.catalog().await.map_err(|error| to_mcp(&error))?;
    let Some(row) = live::find(&catalog, uri) else { return Ok(None) };
    let is_stored = row.origin().is_some_and(|(client, _)| catalog.skill(client).is_some());
    // A stored skill of the client's id may have a file there.
    let has_file = is_stored
        && match Place::find(shared, uri).await {
            Ok(place) => place.file().is_some(),
            // Of one that cannot be read nobody knows what it has.
            Err(error) => error.code != ErrorCode::INVALID_PARAMS,
        };
    Ok((!has_file).then(|| Arc::clone(row)))
}

/// Reads a file by its `skill://` URI.
pub(crate) async fn read(shared: &Shared, uri: &str) -> Result<Resource, ErrorData> {
    if let Some(row) = live_at(shared, uri).await? {
        let body = body(shared, &row.id).await.map_err(|error| to_mcp(&error))?;
        let body = format!("{}{body}", live::header(&row, &body)).into();
        return Ok(Resource { uri: uri.to_owned(), mime_type: MARKDOWN.to_owned(), body });
    }
    let place = Place::find(shared, uri).await.map_err(as_resource)?;
    let file = place.file().ok_or_else(|| as_resource(nothing_at(uri)))?;
    let row = &place.row;
    if file.path == ROOT_PATH {
        let body = body(shared, &row.id).await.map_err(|error| to_mcp(&error))?;
        // What is put before it belongs to this body, also if it has just been replaced.
        let header = AgentDocument::of(&row.id, &row.meta, &body).header;
        let body = format!("{header}{body}").into();
        return Ok(Resource { uri: uri.to_owned(), mime_type: MARKDOWN.to_owned(), body });
    }
    let inner = match file.content {
        FileContent::Stored { .. } => file.path.as_str(),
        FileContent::Section => inside(&file.path, SECTIONS).unwrap_or_default(),
    };
    let read = shared.skills.read(&format!("{}{}/{inner}", uri::SCHEME, row.id)).await;
    read.map(|resource| Resource { uri: uri.to_owned(), ..resource })
        .map_err(|error| to_mcp(&error))
}

/// The methods of the extension say of a URI that leads nowhere that it is a wrong parameter.
fn nothing_at(uri: &str) -> ErrorData {
    invalid(format!("there is nothing at {uri}"))
}

/// `resources/read` says it in the way of the revision in use.
fn as_resource(mut error: ErrorData) -> ErrorData {
    if error.code == ErrorCode::INVALID_PARAMS {
        error.code = ErrorCode::RESOURCE_NOT_FOUND;
    }
    error
}

/// Where a URI leads: a skill, and the path inside its folder. There is none for the folder above it, where
/// the name is not the id.
struct Place {
    row: Arc<SkillRow>,
    described: Arc<Described>,
    path: Option<String>,
}

impl Place {
    /// What is there, if it is a file.
    fn file(&self) -> Option<&File> {
        let path = self.path.as_deref()?;
        self.described.files.iter().find(|file| file.path == path)
    }

    async fn find(shared: &Shared, uri: &str) -> Result<Self, ErrorData> {
        let rest = uri.strip_prefix(SCHEME).ok_or_else(|| nothing_at(uri))?;
        let (id, rest) = rest.split_once('/').map_or((rest, None), |(id, rest)| (id, Some(rest)));
        // A directory has no slash at its end.
        if rest == Some("") {
            return Err(nothing_at(uri));
        }
        let catalog = shared.skills.catalog().await.map_err(|error| to_mcp(&error))?;
        let row = catalog.skill(id).cloned().ok_or_else(|| nothing_at(uri))?;
        let described = describe(shared, &row).await.map_err(|error| to_mcp(&error))?;
        let decoded = |path: &str| percent_decoded(path).unwrap_or_else(|| path.to_owned());
        let path = if described.name == *row.id {
            Some(rest.map(decoded).unwrap_or_default())
        } else {
            match rest {
                None => None,
                Some(rest) if rest == described.name => Some(String::new()),
                Some(rest) => {
                    let path = inside(rest, &described.name).ok_or_else(|| nothing_at(uri))?;
                    Some(decoded(path))
                }
            }
        };
        Ok(Self { row, described, path })
    }
}
