//! `resources/list`, resource templates, and contents: the index, every skill, and sections.

use std::{borrow::Cow, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use rmcp::{
    ErrorData,
    model::{
        Annotations, ListResourceTemplatesResult, ListResourcesResult, MetaObject, Resource,
        ResourceContents, ResourceTemplate,
    },
};
use serde_json::json;
use skills_core::{output::MARKDOWN, uri::SCHEME};
use skills_registry::{
    Catalog, ReadVersion, SkillRegistry, SkillRow,
    catalog::{INDEX_DESCRIPTION, INDEX_NAME, INDEX_TITLE},
};

use crate::{
    budget::ResponseBudget,
    cursor::{self, Listing},
    error::to_mcp,
    server::PAGE,
};

/// Member of `_meta` with the import that a skill came from.
const IMPORTED: &str = "imported";
/// URI template of a skill.
pub(crate) const SKILL_TEMPLATE: &str = "iii://{id}";
/// URI template of a section.
pub(crate) const SECTION_TEMPLATE: &str = "iii://{id}/{function_id}";

pub(crate) async fn list(
    skills: &dyn SkillRegistry,
    budget: &ResponseBudget,
    cursor: Option<&str>,
) -> Result<ListResourcesResult, ErrorData> {
    let after = cursor::decode(Listing::Resources, cursor)?;
    let catalog = skills.catalog().await.map_err(|error| to_mcp(&error))?;
    page(&catalog, budget, after.as_deref())
}

/// Returns the page of a catalog after the row with this id.
pub(crate) fn page(
    catalog: &Catalog,
    budget: &ResponseBudget,
    after: Option<&str>,
) -> Result<ListResourcesResult, ErrorData> {
    let rows = catalog.skills_after(after);
    // The index is the first row of the first page.
    let size = if after.is_none() { PAGE - 1 } else { PAGE };
    let (rows, next_cursor) = cursor::page(Listing::Resources, rows, size, |row| &row.id);
    budget.reserve(rows.iter().map(|row| listed_bytes(row)).sum())?;
    let index = after.is_none().then(index);
    let resources = index.into_iter().chain(rows.into_iter().map(skill)).collect();
    Ok(ListResourcesResult { next_cursor, ..ListResourcesResult::with_all_items(resources) })
}

fn index() -> Resource {
    Resource::new(format!("{SCHEME}{INDEX_NAME}"), INDEX_NAME)
        .with_title(INDEX_TITLE)
        .with_description(INDEX_DESCRIPTION)
        .with_mime_type(MARKDOWN)
}

/// Returns the bytes of the texts of a skill in a listing; the URI repeats the id.
fn listed_bytes(row: &SkillRow) -> usize {
    let description = row.description().map_or(0, |text| text.len());
    // With the names of the fields, digest and time of an import.
    let imported = row.meta.provenance.as_deref().filter(|source| source.is_public());
    let imported = imported.map_or(0, |source| source.bytes() + 200);
    2 * row.id.len() + row.title().len() + description + imported
}

fn skill(row: &Arc<SkillRow>) -> Resource {
    let mut resource = Resource::new(format!("{SCHEME}{}", row.id), &*row.id)
        .with_title(row.title())
        .with_mime_type(MARKDOWN);
    // The size of a live skill is unknown until its client sends it.
    resource.size = (!row.is_live()).then(|| row.bytes());
    resource.description = row.description().map(Cow::into_owned);
    let mut annotations = Annotations::default();
    annotations.last_modified = Some(row.registered_at.to_string());
    let resource = resource.with_annotations(annotations);
    match row.imported() {
        Some(import) => {
            let fields = [(IMPORTED.to_owned(), json!(import))];
            resource.with_meta(MetaObject(fields.into_iter().collect()))
        }
        None => resource,
    }
}

pub(crate) fn templates() -> ListResourceTemplatesResult {
    let skill = ResourceTemplate::new(SKILL_TEMPLATE, "skill")
        .with_title("Skill")
        .with_description(
            "A registered skill: a Markdown document. {id} may name a version: id@3 or id@stable.",
        )
        .with_mime_type(MARKDOWN);
    let section = ResourceTemplate::new(SECTION_TEMPLATE, "section")
        .with_title("Section of a skill")
        .with_description("A section of a skill: the output of a function.");
    ListResourceTemplatesResult::with_all_items(vec![skill, section])
}

/// Returns the URI that a model means: after a listing it may pass the bare id.
pub(crate) fn full_uri(uri: &str) -> Cow<'_, str> {
    if uri.contains("://") { uri.into() } else { format!("{SCHEME}{uri}").into() }
}

/// Converts a resource into MCP contents: text, or base64 for other bytes.
pub(crate) fn contents(resource: skills_registry::Resource) -> ResourceContents {
    let skills_registry::Resource { uri, mime_type, body, version } = resource;
    let contents = match String::from_utf8(body.into()) {
        Ok(text) => ResourceContents::text(text, uri),
        Err(error) => ResourceContents::blob(BASE64.encode(error.as_bytes()), uri),
    };
    let contents = contents.with_mime_type(mime_type);
    match version {
        Some(version) => contents.with_meta(version_meta(version)),
        None => contents,
    }
}

/// Returns the metadata of content that was read by an address with a version: its number, the reason of a yank, and
/// the import that it came from.
fn version_meta(ReadVersion { version, yanked, imported }: ReadVersion) -> MetaObject {
    let yanked = yanked.map(|reason| ("yanked".to_owned(), json!(reason)));
    let imported = imported.map(|import| (IMPORTED.to_owned(), json!(import)));
    let fields = [("version".to_owned(), json!(version))].into_iter().chain(yanked).chain(imported);
    MetaObject(fields.collect())
}
