//! `resources/list` of the profile `skills`: two resources for each stored skill, its `SKILL.md` and its manifest. This is
//! how clients without the extension, such as the helpers of FastMCP, find and download skills.

use std::{borrow::Cow, sync::Arc};

use rmcp::{
    ErrorData,
    model::{ListResourcesResult, Resource},
};
use serde_json::json;
use skills_core::{
    output::{JSON, MARKDOWN},
    skill::ROOT_PATH,
    uri::SKILL_SCHEME,
};
use skills_registry::SkillRow;

use super::{
    describe_page,
    description::{FileContent, SkillDescription},
};
use crate::{
    budget::ResponseBudget,
    cursor::{self, Listing},
    error::to_mcp,
    server::{PAGE, Shared},
};

/// Last segment of a manifest's URI.
pub(super) const MANIFEST: &str = "_manifest";

pub(crate) async fn list(
    shared: &Shared,
    budget: &ResponseBudget,
    cursor: Option<&str>,
) -> Result<ListResourcesResult, ErrorData> {
    let after = cursor::decode(Listing::Resources, cursor)?;
    let catalog = shared.skills.catalog().await.map_err(|error| to_mcp(&error))?;
    // The files of a live skill are unknown, so it has no manifest.
    let rows = catalog.skills_after(after.as_deref()).filter(|row| !row.is_live());
    let bytes = |row: &&Arc<SkillRow>| 2 * row.listed_bytes();
    let page = cursor::page_by_bytes(Listing::Resources, rows, PAGE / 2, bytes, |row| &row.id);
    let (rows, next_cursor) = page;
    budget.reserve(rows.iter().map(bytes).sum())?;
    let described = describe_page(shared, rows.into_iter().cloned().collect()).await;
    let resources = described.iter().flat_map(|(row, description)| resources(row, description));
    let page = ListResourcesResult::with_all_items(resources.collect());
    Ok(ListResourcesResult { next_cursor, ..page })
}

fn resources(row: &SkillRow, description: &SkillDescription) -> [Resource; 2] {
    let mut document = Resource::new(description.uri(&row.id, ROOT_PATH), &description.name)
        .with_title(row.title())
        .with_mime_type(MARKDOWN);
    document.description = row.description().map(Cow::into_owned);
    let name = format!("{}/{MANIFEST}", description.name);
    let manifest = Resource::new(description.uri(&row.id, MANIFEST), name)
        .with_description(format!("Files of the skill {}", description.name))
        .with_mime_type(JSON);
    [document, manifest]
}

/// Returns the manifest of a skill: its stored files.
pub(super) fn manifest(row: &SkillRow, description: &SkillDescription) -> String {
    let folder = description.folder(&row.id);
    let files = description.files.iter().filter_map(|file| match file.content {
        FileContent::Stored { digest, size } => {
            Some(json!({ "path": file.path, "size": size, "hash": format!("sha256:{digest}") }))
        }
        FileContent::Section => None,
    });
    let skill = folder.strip_prefix(SKILL_SCHEME).unwrap_or(&folder);
    json!({ "skill": skill, "files": files.collect::<Vec<_>>() }).to_string()
}
