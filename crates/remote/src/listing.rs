//! Builds a catalog from the listings of a remote registry.
//!
//! The listings of the contract have no digests: a skill of such a catalog has a size and no files. This implementation
//! has more detailed listings. Rows that break a rule are dropped by [`rows`].

use std::{
    borrow::Cow,
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use serde_json::{Value, json, value::RawValue};
use skills_bus::Json;
use skills_core::{EntryKind, PromptDefinition, SkillMeta, Tier, resolve::Prefix, uri::SCHEME};

use skills_registry::{
    Catalog, RegistryError, RejectedRows, SkillInfo, SkillRegistry as _, catalog::CatalogBuilder,
};

use crate::{
    RemoteRegistry,
    responses::{CatalogPage, CatalogRow, PromptDetails, PromptList, ResourceList, SkillList},
    rows::{self, ListedSkill, ListingSize, parse_time, truncate},
};

/// Function that lists skills with their files.
pub(super) const CATALOG: &str = "skills::catalog";
/// Function that resolves names in tiers.
pub(super) const RESOLVE: &str = "skills::resolve";

/// Requests a page of a listing of skills.
pub(super) async fn page(
    remote: &RemoteRegistry,
    payload: Value,
    size: &mut ListingSize,
) -> Result<CatalogPage, RegistryError> {
    let text: Box<RawValue> = remote.call(CATALOG, payload).await?;
    size.add_bytes(text.get().len())?;
    let page: CatalogPage = crate::parse_result(CATALOG, Ok(Json::from(text)))?;
    size.add_rows(page.skills.len())?;
    Ok(page)
}

/// Requests the whole catalog.
pub(super) async fn catalog(remote: &RemoteRegistry) -> Result<Catalog, RegistryError> {
    let capabilities = remote.capabilities().await?;
    let mut catalog = CatalogBuilder::new(capabilities.prefix.parse().unwrap_or(Prefix::none()));
    let mut rejected = RejectedRows::default();
    if capabilities.has(CATALOG) {
        add_pages(remote, &mut catalog, &mut rejected).await?;
    } else {
        add_listed(remote, &mut catalog, &mut rejected).await?;
    }
    add_prompts(remote, &mut catalog, &mut rejected).await?;
    *remote.rejected.lock() = rejected;
    Ok(catalog.build())
}

/// Lists the skills of all tiers, or all skills of a registry without tiers.
pub(super) async fn all_skills(remote: &RemoteRegistry) -> Result<Vec<SkillInfo>, RegistryError> {
    if !remote.has_tiers().await? {
        return remote.skills().await;
    }
    let mut infos: Vec<SkillInfo> = Vec::new();
    let mut rejected = RejectedRows::default();
    let (mut after, mut size): (Option<String>, _) = (None, ListingSize::default());
    loop {
        let page = page(remote, json!({ "layers": "all", "after": after }), &mut size).await?;
        let is_end = page.skills.is_empty();
        for row in page.skills {
            let (registered_at, live) = (row.registered_at.clone(), row.live.clone());
            let Some(listed) = parse_row(row, &mut rejected) else { continue };
            infos.push(SkillInfo {
                tier: (!listed.is_live).then_some(listed.tier),
                title: listed.meta.title().unwrap_or(&listed.id).to_owned(),
                id: listed.id.to_string(),
                description: listed.meta.description().map(Cow::into_owned),
                bytes: listed.meta.files.first().map_or(0, |root| root.size),
                registered_at,
                live,
            });
        }
        match page.next {
            // Cursors differ from page to page, or this would not end.
            Some(next) if !is_end && after.as_ref() != Some(&next) => after = Some(next),
            _ => break,
        }
    }
    *remote.rejected.lock() = rejected;
    Ok(infos)
}

/// Updates some skills, and optionally the prompts, of a catalog. `None` where the registry cannot list single skills.
pub(super) async fn update(
    remote: &RemoteRegistry,
    before: &Catalog,
    ids: &[Arc<str>],
    prompts: bool,
) -> Result<Option<Catalog>, RegistryError> {
    let mut catalog = before.to_builder();
    let mut rejected = RejectedRows::default();
    let mut listed_again = vec![];
    if !ids.is_empty() {
        if !remote.capabilities().await?.has(CATALOG) {
            return Ok(None);
        }
        // A skill with the prefix also decides what the shorter name resolves to.
        let ids: BTreeSet<&str> =
            ids.iter().flat_map(|id| before.prefix().affected_names(id)).collect();
        ids.iter().for_each(|id| catalog.remove_skill(id));
        let ids: Vec<&str> = ids.into_iter().collect();
        let (mut rest, mut size) = (ids.as_slice(), ListingSize::default());
        while !rest.is_empty() {
            let page = page(remote, json!({ "ids": rest }), &mut size).await?;
            add_rows(&mut catalog, page.skills, &mut rejected);
            // The cursor is the last id of a partial page.
            let last = page.next.and_then(|last| rest.iter().position(|id| *id == last));
            rest = last.map_or(&[], |last| &rest[last + 1..]);
        }
        listed_again = ids;
    }
    if prompts {
        catalog.remove_prompts();
        add_prompts(remote, &mut catalog, &mut rejected).await?;
    }
    let updated = remote.rejected.lock().updated(&listed_again, prompts, &rejected);
    *remote.rejected.lock() = updated;
    Ok(Some(catalog.build()))
}

async fn add_prompts(
    remote: &RemoteRegistry,
    catalog: &mut CatalogBuilder,
    rejected: &mut RejectedRows,
) -> Result<(), RegistryError> {
    let empty = || json!({});
    let (prompts, details) = tokio::try_join!(
        remote.call::<PromptList>("prompts::list", empty()),
        remote.call::<PromptDetails>("prompts::mcp-list", empty()),
    )?;
    let mut by_name: HashMap<String, _> =
        details.prompts.into_iter().map(|row| (row.name.clone(), row)).collect();
    for row in prompts.prompts {
        if let Err(reason) = rows::check_prompt_name(&row.name) {
            rejected.add(EntryKind::Prompt, &row.name, reason);
            continue;
        }
        let details = by_name.remove(&row.name);
        let (description, arguments) =
            details.map(|row| (row.description, row.arguments)).unwrap_or_default();
        let definition = PromptDefinition { description, arguments, function_id: row.function_id };
        catalog.add_prompt(&row.name.into(), definition, parse_time(&row.registered_at));
    }
    Ok(())
}

async fn add_listed(
    remote: &RemoteRegistry,
    catalog: &mut CatalogBuilder,
    rejected: &mut RejectedRows,
) -> Result<(), RegistryError> {
    let empty = || json!({});
    let (skills, resources) = tokio::try_join!(
        remote.call::<SkillList>("skills::list", empty()),
        remote.call::<ResourceList>("skills::resources-list", empty()),
    )?;
    let mut by_uri: HashMap<String, _> =
        resources.resources.into_iter().map(|row| (row.uri.clone(), row)).collect();
    for row in skills.skills {
        if let Err(reason) = rows::check_skill_id(&row.id) {
            rejected.add(EntryKind::Skill, &row.id, reason);
            continue;
        }
        let resource = by_uri.remove(&format!("{SCHEME}{}", row.id));
        let (heading, first_paragraph) = match resource {
            // Other implementations put the id where a title is missing.
            Some(resource) => {
                let title = resource.title.or(resource.name).filter(|title| *title != row.id);
                (title, resource.description)
            }
            None => (None, None),
        };
        let (heading, first_paragraph) = (heading.map(truncate), first_paragraph.map(truncate));
        let meta = SkillMeta { heading, first_paragraph, ..SkillMeta::default() };
        let at = parse_time(&row.registered_at);
        catalog.add_skill(&row.id.into(), Tier::Official, meta, row.bytes, at, None);
    }
    Ok(())
}

async fn add_pages(
    remote: &RemoteRegistry,
    catalog: &mut CatalogBuilder,
    rejected: &mut RejectedRows,
) -> Result<(), RegistryError> {
    let (mut after, mut size) = (None, ListingSize::default());
    loop {
        let page = page(remote, json!({ "after": after }), &mut size).await?;
        add_rows(catalog, page.skills, rejected);
        match page.next {
            // Ids grow from page to page, or this would not end.
            Some(next) if after.as_ref().is_none_or(|after| next > *after) => after = Some(next),
            _ => return Ok(()),
        }
    }
}

fn add_rows(catalog: &mut CatalogBuilder, rows: Vec<CatalogRow>, rejected: &mut RejectedRows) {
    for row in rows {
        let Some(listed) = parse_row(row, rejected) else { continue };
        let ListedSkill { id, tier, meta, registered_at: at, corrupt, is_live, heads } = listed;
        let bytes = meta.files.first().map_or(0, |root| root.size);
        match corrupt {
            _ if is_live => catalog.add_live_skill(&id, meta, at),
            Some(reason) => catalog.add_corrupt_skill(&id, tier, &reason, at),
            None => catalog.add_skill(&id, tier, meta, bytes, at, heads),
        }
    }
}

/// Parses a row, or adds it to the rejected rows.
pub(super) fn parse_row(row: CatalogRow, rejected: &mut RejectedRows) -> Option<ListedSkill> {
    let id = row.id.clone();
    rows::parse_skill(row).inspect_err(|reason| rejected.add(EntryKind::Skill, &id, reason)).ok()
}
