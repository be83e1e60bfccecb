//! A catalog from the listings of a registry behind a bus.
//!
//! Those of the contract are the same for every make, but do not tell digests: a skill of such a catalog has
//! a size and no files. A registry of this make is asked for more.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use serde_json::json;
use skills_core::{
    FileMeta, PromptDefinition, SkillMeta, Tier, Timestamp, resolve::Prefix, uri::SCHEME,
};

use super::{
    RemoteRegistry,
    answers::{
        CatalogPage, CatalogRow, FileRow, PromptDetails, PromptList, ResourceList, SkillList,
    },
};
use crate::{Catalog, RegistryError, SkillInfo, Skills as _, catalog::Everything};

/// The function that tells of files.
pub(super) const CATALOG: &str = "skills::catalog";
/// The function that tells of tiers.
pub(super) const RESOLVE: &str = "skills::resolve";

/// The whole catalog.
pub(super) async fn catalog(remote: &RemoteRegistry) -> Result<Catalog, RegistryError> {
    let capabilities = remote.capabilities().await?;
    let mut all = Everything::new(capabilities.prefix.parse().unwrap_or(Prefix::none()));
    match capabilities.has(CATALOG) {
        true => add_pages(remote, &mut all).await?,
        false => add_listed(remote, &mut all).await?,
    }
    add_prompts(remote, &mut all).await?;
    Ok(all.into())
}

/// All skills of all tiers. Of a registry that does not know of tiers, those that it has.
pub(super) async fn every_skill(remote: &RemoteRegistry) -> Result<Vec<SkillInfo>, RegistryError> {
    if !remote.has_tiers().await? {
        return remote.skills().await;
    }
    let mut rows: Vec<SkillInfo> = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let wanted = json!({ "layers": "all", "after": after });
        let page: CatalogPage = remote.call(CATALOG, wanted).await?;
        let is_end = page.skills.is_empty();
        rows.extend(page.skills.into_iter().map(|row| SkillInfo {
            tier: row.live.is_none().then_some(row.tier),
            title: row.title.unwrap_or_else(|| row.id.clone()),
            id: row.id,
            description: row.description,
            bytes: row.files.first().map_or(0, |root| root.size),
            registered_at: row.registered_at,
            live: row.live,
        }));
        match page.next {
            // Cursors differ from page to page, or this would not end.
            Some(next) if !is_end && after.as_ref() != Some(&next) => after = Some(next),
            _ => return Ok(rows),
        }
    }
}

/// A catalog that some skills, and perhaps the prompts, have changed since. `None` where the registry
/// cannot tell of single skills.
pub(super) async fn changed(
    remote: &RemoteRegistry,
    before: &Catalog,
    ids: &[Arc<str>],
    prompts: bool,
) -> Result<Option<Catalog>, RegistryError> {
    let mut all = before.everything();
    if !ids.is_empty() {
        if !remote.capabilities().await?.has(CATALOG) {
            return Ok(None);
        }
        // What has the prefix also decides whether the shorter name answers.
        let ids: BTreeSet<&str> = ids.iter().flat_map(|id| before.prefix().names_of(id)).collect();
        ids.iter().for_each(|id| all.forget_skill(id));
        let ids: Vec<&str> = ids.into_iter().collect();
        let mut rest = ids.as_slice();
        while !rest.is_empty() {
            let page: CatalogPage = remote.call(CATALOG, json!({ "ids": rest })).await?;
            add_rows(&mut all, page.skills)?;
            // It says up to which of them it has answered, where that was not all.
            let last = page.next.and_then(|last| rest.iter().position(|id| *id == last));
            rest = last.map_or(&[], |last| &rest[last + 1..]);
        }
    }
    if prompts {
        all.forget_prompts();
        add_prompts(remote, &mut all).await?;
    }
    Ok(Some(all.into()))
}

async fn add_prompts(remote: &RemoteRegistry, all: &mut Everything) -> Result<(), RegistryError> {
    let empty = || json!({});
    let (prompts, details) = tokio::try_join!(
        remote.call::<PromptList>("prompts::list", empty()),
        remote.call::<PromptDetails>("prompts::mcp-list", empty()),
    )?;
    let mut by_name: HashMap<String, _> =
        details.prompts.into_iter().map(|row| (row.name.clone(), row)).collect();
    for row in prompts.prompts {
        let details = by_name.remove(&row.name);
        let (description, arguments) =
            details.map(|row| (row.description, row.arguments)).unwrap_or_default();
        let definition = PromptDefinition { description, arguments, function_id: row.function_id };
        all.list_prompt(&row.name.into(), definition, moment(&row.registered_at));
    }
    Ok(())
}

async fn add_listed(remote: &RemoteRegistry, all: &mut Everything) -> Result<(), RegistryError> {
    let empty = || json!({});
    let (skills, resources) = tokio::try_join!(
        remote.call::<SkillList>("skills::list", empty()),
        remote.call::<ResourceList>("skills::resources-list", empty()),
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
        let meta = SkillMeta { title, description, files: vec![], agent: None, tool: None };
        let at = moment(&row.registered_at);
        all.list_skill(&row.id.into(), Tier::Official, meta, row.bytes, at);
    }
    Ok(())
}

async fn add_pages(remote: &RemoteRegistry, all: &mut Everything) -> Result<(), RegistryError> {
    let mut after = None;
    loop {
        let page: CatalogPage = remote.call(CATALOG, json!({ "after": after })).await?;
        add_rows(all, page.skills)?;
        match page.next {
            // Ids grow from page to page, or this would not end.
            Some(next) if after.as_ref().is_none_or(|after| next > *after) => after = Some(next),
            _ => return Ok(()),
        }
    }
}

fn add_rows(all: &mut Everything, rows: Vec<CatalogRow>) -> Result<(), RegistryError> {
    for row in rows {
        let CatalogRow { id, tier, registered_at, files, corrupt, live, .. } = row;
        let files = files.into_iter().map(file).collect::<Result<Vec<_>, _>>()?;
        let bytes = files.first().map_or(0, |root| root.size);
        let CatalogRow { title, description, agent, tool, .. } = row;
        let meta = SkillMeta { title, description, files, agent, tool };
        let (id, at) = (id.into(), moment(&registered_at));
        match (live, corrupt) {
            (Some(_), _) => all.list_live_skill(&id, meta, at),
            (None, Some(reason)) => all.list_corrupt_skill(&id, tier, &reason, at),
            (None, None) => all.list_skill(&id, tier, meta, bytes, at),
        }
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
