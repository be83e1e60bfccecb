//! Resources: the index, every skill, and the sections behind functions.

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use rmcp::{
    ErrorData,
    model::{
        Annotations, ListResourceTemplatesResult, ListResourcesResult, Resource, ResourceContents,
        ResourceTemplate,
    },
};
use skills_core::{output::MARKDOWN, uri::SCHEME};
use skills_registry::{
    SkillRow, Skills,
    catalog::{INDEX_DESCRIPTION, INDEX_NAME, INDEX_TITLE},
};

use crate::{
    cursor::{self, Listing},
    error::to_mcp,
    server::PAGE,
};

/// The address of any skill.
pub(crate) const SKILL_TEMPLATE: &str = "iii://{id}";
/// The address of any section.
pub(crate) const SECTION_TEMPLATE: &str = "iii://{id}/{function_id}";

pub(crate) async fn list(
    skills: &dyn Skills,
    cursor: Option<&str>,
) -> Result<ListResourcesResult, ErrorData> {
    let after = cursor::read(Listing::Resources, cursor)?;
    let catalog = skills.catalog().await.map_err(|error| to_mcp(&error))?;
    let rows = catalog.skills_after(after.as_deref());
    // The index comes first and takes a place on its page.
    let size = if after.is_none() { PAGE - 1 } else { PAGE };
    let (rows, next_cursor) = cursor::page(Listing::Resources, rows, size, |row| &row.id);
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

fn skill(row: &Arc<SkillRow>) -> Resource {
    let mut resource = Resource::new(format!("{SCHEME}{}", row.id), &*row.id)
        .with_title(row.title())
        .with_mime_type(MARKDOWN);
    // How large what a client will give is nobody knows.
    resource.size = (!row.is_live()).then(|| row.bytes());
    resource.description.clone_from(&row.meta.description);
    let mut annotations = Annotations::default();
    annotations.last_modified = Some(row.registered_at.to_string());
    resource.with_annotations(annotations)
}

pub(crate) fn templates() -> ListResourceTemplatesResult {
    let skill = ResourceTemplate::new(SKILL_TEMPLATE, "skill")
        .with_title("Skill")
        .with_description("A registered skill: a Markdown document.")
        .with_mime_type(MARKDOWN);
    let section = ResourceTemplate::new(SECTION_TEMPLATE, "section")
        .with_title("Section of a skill")
        .with_description("What a function returns, as a section of a skill.");
    ListResourceTemplatesResult::with_all_items(vec![skill, section])
}

pub(crate) async fn read(skills: &dyn Skills, uri: &str) -> Result<ResourceContents, ErrorData> {
    let resource = skills.read(uri).await.map_err(|error| to_mcp(&error))?;
    Ok(contents(resource))
}

/// A resource in the shape of the protocol: bytes that are not text are in base64.
pub(crate) fn contents(resource: skills_registry::Resource) -> ResourceContents {
    let skills_registry::Resource { uri, mime_type, body } = resource;
    let contents = match String::from_utf8(body.into()) {
        Ok(text) => ResourceContents::text(text, uri),
        Err(error) => ResourceContents::blob(BASE64.encode(error.as_bytes()), uri),
    };
    contents.with_mime_type(mime_type)
}
