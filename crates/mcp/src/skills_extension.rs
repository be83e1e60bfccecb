//! Skills over MCP: the extension `io.modelcontextprotocol/skills` (SEP-2640).
//!
//! A skill is a directory `skill://{id}` with a `SKILL.md` in it that begins with frontmatter. A body that
//! has none, or whose own lacks a name or a description, gets one put before it, made of what the registry
//! knows; `iii://{id}` stays what was registered. The last segment before `SKILL.md` has to be the name in
//! the frontmatter: where that is not the id, it follows the id, as `skill://{id}/{name}/SKILL.md`.
//! Functions that a body links as its sections are files in a directory `sections`, and make the skill
//! `"dynamic"`.
//!
//! rmcp has no types for any of this yet; when it has, this module is what changes.

use std::{
    num::NonZeroUsize,
    sync::{Arc, Mutex, PoisonError},
};

use futures_util::{StreamExt as _, stream};
use lru::LruCache;
use rmcp::{
    ErrorData,
    model::{CustomRequest, ErrorCode, JsonObject},
};
use serde::Deserialize;
use serde_json::{Value, json};
use skills_core::{
    Digest, HandlerId,
    frontmatter::{self, is_skill_name, skill_name},
    output::MARKDOWN,
    skill::ROOT_PATH,
    uri,
};
use skills_registry::{RegistryError, SkillRow};

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
/// More sections than this are not looked for in a body.
const MAX_SECTIONS: usize = 512;
/// How many skills of a page are read at once.
const READ_AHEAD: usize = 8;
const REMEMBERED: NonZeroUsize = NonZeroUsize::new(2048).expect("not zero");

/// The settings of the extension in the capabilities.
pub(crate) fn capability() -> JsonObject {
    JsonObject::from_iter([("directoryRead".to_owned(), json!(true))])
}

#[derive(Debug, Default, Deserialize)]
struct Params {
    uri: Option<String>,
    cursor: Option<String>,
}

/// Answers a request of the extension.
pub(crate) async fn answer(shared: &Shared, request: CustomRequest) -> Result<Value, ErrorData> {
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
            // A directory is one page: there is nothing to go on to.
            cursor::read(Listing::Skills, cursor.as_deref())?;
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
    let (ttl_ms, scope) = shared.settings.cache_hints();
    answer["resultType"] = json!("complete");
    answer["ttlMs"] = json!(ttl_ms);
    answer["cacheScope"] = json!(scope);
    Ok(answer)
}

async fn list(shared: &Shared, cursor: Option<&str>) -> Result<Value, ErrorData> {
    let after = cursor::read(Listing::Skills, cursor)?;
    let catalog = shared.skills.catalog().await.map_err(|error| to_mcp(&error))?;
    let rows = catalog.skills_after(after.as_deref());
    let (rows, next) = cursor::page(Listing::Skills, rows, PAGE, |row| &row.id);
    let described: Vec<_> = stream::iter(rows.into_iter().cloned())
        .map(|row| async move { (describe(shared, &row).await, row) })
        .buffered(READ_AHEAD)
        .collect()
        .await;
    let entry = |(described, row): (Result<Arc<Described>, RegistryError>, Arc<SkillRow>)| {
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
    let place = Place::find(shared, uri).await?;
    match place.inside.as_slice() {
        [ROOT_PATH] => Ok(place.described.entry(&place.row.id)),
        _ => Err(nothing_at(uri)),
    }
}

async fn directory(shared: &Shared, uri: &str) -> Result<Vec<Value>, ErrorData> {
    let place = Place::find(shared, uri).await?;
    let Place { row, described, inside } = &place;
    let folder = described.folder(&row.id);
    let sections = &described.sections;
    match inside.as_slice() {
        // The folder above, where the name is not the id.
        [".."] => Ok(vec![json!({
            "uri": folder, "name": described.name, "mimeType": DIRECTORY,
        })]),
        [] => {
            let root = json!({
                "uri": format!("{folder}/{ROOT_PATH}"),
                "name": described.name,
                "description": described.frontmatter["description"],
                "mimeType": MARKDOWN,
                "size": described.size,
            });
            let sections = (!sections.is_empty()).then(|| {
                json!({
                    "uri": format!("{folder}/{SECTIONS}"), "name": SECTIONS, "mimeType": DIRECTORY,
                })
            });
            Ok([root].into_iter().chain(sections).collect())
        }
        [SECTIONS] if !sections.is_empty() => Ok(sections
            .iter()
            .map(|function| {
                json!({
                    "uri": format!("{folder}/{SECTIONS}/{function}"), "name": function.as_str(),
                })
            })
            .collect()),
        _ => Err(nothing_at(uri)),
    }
}

/// A file of a skill.
pub(crate) struct File {
    pub(crate) mime_type: String,
    pub(crate) text: String,
}

/// Reads a file by its `skill://` URI.
pub(crate) async fn read(shared: &Shared, uri: &str) -> Result<File, ErrorData> {
    let Place { row, described, inside } = Place::find(shared, uri).await?;
    let resource = match inside.as_slice() {
        [ROOT_PATH] => {
            let body = body(shared, &row.id).await.map_err(|error| to_mcp(&error))?;
            let text = format!("{}{body}", described.header);
            return Ok(File { mime_type: MARKDOWN.to_owned(), text });
        }
        [SECTIONS, function]
            if described.sections.iter().any(|known| known.as_str() == *function) =>
        {
            shared.skills.read(&format!("{}{}/{function}", uri::SCHEME, row.id)).await
        }
        _ => return Err(nothing_at(uri)),
    };
    let resource = resource.map_err(|error| to_mcp(&error))?;
    let text = String::from_utf8_lossy(&resource.text).into_owned();
    Ok(File { mime_type: resource.mime_type, text })
}

fn nothing_at(uri: &str) -> ErrorData {
    ErrorData::resource_not_found(
        format!("there is nothing at {}", uri.chars().take(200).collect::<String>()),
        Some(json!({ "uri": uri.chars().take(200).collect::<String>() })),
    )
}

/// Where a URI leads: a skill, and the segments inside its folder.
struct Place<'a> {
    row: Arc<SkillRow>,
    described: Arc<Described>,
    inside: Vec<&'a str>,
}

impl<'a> Place<'a> {
    async fn find(shared: &Shared, uri: &'a str) -> Result<Self, ErrorData> {
        let path = uri.strip_prefix(SCHEME).ok_or_else(|| nothing_at(uri))?;
        let mut segments = path.split('/');
        let id = segments.next().unwrap_or_default();
        let catalog = shared.skills.catalog().await.map_err(|error| to_mcp(&error))?;
        let row = catalog.skill(id).cloned().ok_or_else(|| nothing_at(uri))?;
        let described = describe(shared, &row).await.map_err(|error| to_mcp(&error))?;
        let mut inside: Vec<&str> = segments.collect();
        if described.name != *row.id {
            match inside.first() {
                Some(name) if *name == described.name => drop(inside.remove(0)),
                None => inside = vec![".."],
                Some(_) => return Err(nothing_at(uri)),
            }
        }
        Ok(Self { row, described, inside })
    }
}

/// What the extension says of a skill.
#[derive(Debug)]
struct Described {
    name: String,
    frontmatter: JsonObject,
    /// What is put before the body: nothing, or frontmatter.
    header: String,
    digest: Digest,
    size: usize,
    sections: Vec<HandlerId>,
}

impl Described {
    fn of(row: &SkillRow, body: &str) -> Self {
        let given = frontmatter::fields(body).unwrap_or_default();
        let text = |key: &str| given.get(key).and_then(Value::as_str);
        let description = text("description").filter(|text| !text.trim().is_empty());
        let (frontmatter, header) =
            match (text("name").filter(|name| is_skill_name(name)), description) {
                (Some(_), Some(_)) => (given, String::new()),
                (_, description) => {
                    let description = description
                        .or(row.meta.description.as_deref())
                        .unwrap_or_else(|| row.title());
                    let fields = JsonObject::from_iter([
                        ("name".to_owned(), json!(skill_name(&row.id))),
                        ("description".to_owned(), json!(description)),
                    ]);
                    // A JSON string is a YAML string too.
                    let lines = fields.iter().map(|(key, value)| format!("{key}: {value}\n"));
                    let header = format!("---\n{}---\n\n", lines.collect::<String>());
                    (fields, header)
                }
            };
        let whole = format!("{header}{body}");
        Self {
            name: frontmatter["name"].as_str().unwrap_or_default().to_owned(),
            frontmatter,
            header,
            digest: Digest::of(whole.as_bytes()),
            size: whole.len(),
            sections: sections(&row.id, body),
        }
    }

    fn folder(&self, id: &str) -> String {
        match self.name == id {
            true => format!("{SCHEME}{id}"),
            false => format!("{SCHEME}{id}/{}", self.name),
        }
    }

    fn entry(&self, id: &str) -> Value {
        let uri = format!("{}/{ROOT_PATH}", self.folder(id));
        let resources = match self.sections.is_empty() {
            true => json!([{
                "uri": uri,
                "digest": format!("sha256:{}", self.digest),
                "size": self.size,
            }]),
            false => json!("dynamic"),
        };
        json!({ "uri": uri, "frontmatter": self.frontmatter, "resources": resources })
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

/// One version of a skill: its id and the digest of its body.
type Version = (Arc<str>, Digest);

impl Default for Memory {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(REMEMBERED)))
    }
}

async fn describe(shared: &Shared, row: &SkillRow) -> Result<Arc<Described>, RegistryError> {
    // A registry that does not tell digests cannot be remembered.
    let key = row.meta.root().map(|root| (Arc::clone(&row.id), root.digest));
    let memory = || shared.described.0.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(key) = &key
        && let Some(known) = memory().get(key)
    {
        return Ok(Arc::clone(known));
    }
    let described = Arc::new(Described::of(row, &body(shared, &row.id).await?));
    if let Some(key) = key {
        memory().put(key, Arc::clone(&described));
    }
    Ok(described)
}

async fn body(shared: &Shared, id: &str) -> Result<String, RegistryError> {
    let resource = shared.skills.read(&format!("{}{id}", uri::SCHEME)).await?;
    Ok(String::from_utf8_lossy(&resource.text).into_owned())
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
