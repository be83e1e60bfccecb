//! A catalog from the listings of a registry behind a bus.
//!
//! Those of the contract are the same for every make, but do not tell digests: a skill of such a catalog has
//! a size and no files. A registry of this make is asked for more.

use std::{collections::HashMap, sync::Arc};

use serde_json::json;
use skills_core::{FileMeta, PromptDefinition, SkillMeta, Timestamp, uri::SCHEME};

use super::{
    RemoteRegistry,
    answers::{
        CatalogPage, CatalogRow, FileRow, PromptDetails, PromptList, ResourceList, SkillList,
    },
};
use crate::{Catalog, RegistryError};

/// The function that tells of files.
const CATALOG: &str = "skills::catalog";

/// The whole catalog.
pub(super) async fn catalog(remote: &RemoteRegistry) -> Result<Catalog, RegistryError> {
    let mut catalog = Catalog::default();
    match remote.has(CATALOG).await? {
        true => add_pages(remote, &mut catalog).await?,
        false => add_listed(remote, &mut catalog).await?,
    }
    add_prompts(remote, &mut catalog).await?;
    Ok(catalog)
}

/// A catalog that some skills, and perhaps the prompts, have changed since. `None` where the registry
/// cannot tell of single skills.
pub(super) async fn changed(
    remote: &RemoteRegistry,
    before: &Catalog,
    ids: &[Arc<str>],
    prompts: bool,
) -> Result<Option<Catalog>, RegistryError> {
    let mut catalog = before.successor();
    if !ids.is_empty() {
        if !remote.has(CATALOG).await? {
            return Ok(None);
        }
        ids.iter().for_each(|id| catalog.forget_skill(id));
        let ids: Vec<&str> = ids.iter().map(|id| &**id).collect();
        let page: CatalogPage = remote.call(CATALOG, &json!({ "ids": ids })).await?;
        add_rows(&mut catalog, page.skills)?;
    }
    if prompts {
        catalog.forget_prompts();
        add_prompts(remote, &mut catalog).await?;
    }
    Ok(Some(catalog))
}

async fn add_prompts(remote: &RemoteRegistry, catalog: &mut Catalog) -> Result<(), RegistryError> {
    let empty = json!({});
    let (prompts, details) = tokio::try_join!(
        remote.call::<PromptList>("prompts::list", &empty),
        remote.call::<PromptDetails>("prompts::mcp-list", &empty),
    )?;
    let mut by_name: HashMap<String, _> =
        details.prompts.into_iter().map(|row| (row.name.clone(), row)).collect();
    for row in prompts.prompts {
        let details = by_name.remove(&row.name);
        let (description, arguments) =
            details.map(|row| (row.description, row.arguments)).unwrap_or_default();
        let definition = PromptDefinition { description, arguments, function_id: row.function_id };
        catalog.list_prompt(row.name.into(), definition, moment(&row.registered_at));
    }
    Ok(())
}

async fn add_listed(remote: &RemoteRegistry, catalog: &mut Catalog) -> Result<(), RegistryError> {
    let empty = json!({});
    let (skills, resources) = tokio::try_join!(
        remote.call::<SkillList>("skills::list", &empty),
        remote.call::<ResourceList>("skills::resources-list", &empty),
    )?;
    let mut by_uri: HashMap<String, _> =
        resources.resources.into_iter().map(|row| (row.uri.clone(), row)).collect();
    for row in skills.skills {
        let resource = by_uri.remove(&format!("{SCHEME}{}", row.id));
        let (title, description) = match resource {
            // A make that has no title puts the id there.
            Some(resource) => {
                let title = resource.title.or(resource.name).filter(|title| *title != row.id);
                (title, resource.description)
            }
            None => (None, None),
        };
        let meta = SkillMeta { title, description, files: vec![], agent: None };
        catalog.list_skill(row.id.into(), meta, row.bytes, moment(&row.registered_at));
    }
    Ok(())
}

async fn add_pages(remote: &RemoteRegistry, catalog: &mut Catalog) -> Result<(), RegistryError> {
    let mut after = None;
    loop {
        let page: CatalogPage = remote.call(CATALOG, &json!({ "after": after })).await?;
        add_rows(catalog, page.skills)?;
        match page.next {
            // Ids grow from page to page, or this would not end.
            Some(next) if after.as_ref().is_none_or(|after| next > *after) => after = Some(next),
            _ => return Ok(()),
        }
    }
}

fn add_rows(catalog: &mut Catalog, rows: Vec<CatalogRow>) -> Result<(), RegistryError> {
    for row in rows {
        let CatalogRow { id, title, description, registered_at, files, agent } = row;
        let files = files.into_iter().map(file).collect::<Result<Vec<_>, _>>()?;
        let bytes = files.first().map_or(0, |root| root.size);
        let meta = SkillMeta { title, description, files, agent };
        catalog.list_skill(id.into(), meta, bytes, moment(&registered_at));
    }
    Ok(())
}

fn file(row: FileRow) -> Result<FileMeta, RegistryError> {
    let digest = row.digest.strip_prefix("sha256:").and_then(|digits| digits.parse().ok());
    let digest = digest.ok_or_else(|| {
        RegistryError::unexpected_answer(format!("{CATALOG} gave a digest that is none"))
    })?;
    Ok(FileMeta { path: row.path, digest, size: row.size })
}

/// Another make may print moments otherwise; a listing is not worth less for it.
fn moment(text: &str) -> Timestamp {
    text.parse().unwrap_or(Timestamp::from_micros(0))
}
