//! Functions beyond the published contract, which know of bundles, Agent Skills and tiers: `skills::available`,
//! `skills::catalog`, `skills::execute`, `skills::files` and `skills::resolve`.

use std::sync::Arc;

use skills_bus::Bus;
use skills_core::{
    self as rules, FileMeta, RuleError, SkillId,
    uri::{SCHEME, TIER_SCHEME},
};
use skills_registry::{
    Explanation, Place, Registry, RegistryError, SkillRow,
    available::{Filter, available},
    catalog,
};

use crate::{
    contract::{
        AnyValue, AvailableFilter, AvailableInput, CatalogEntry, CatalogInput, CatalogOutput,
        ExecuteInput, ExecuteOutput, FileEntry, FilesInput, FilesOutput, Layers, PlaceEntry,
        ResolveInput, ResolveOutput,
    },
    functions::spec,
    offer::offer,
    who::Who,
};

pub(crate) const AVAILABLE: &str = "skills::available";
pub(crate) const FILES: &str = "skills::files";
pub(crate) const CATALOG: &str = "skills::catalog";
pub(crate) const RESOLVE: &str = "skills::resolve";
pub(crate) const EXECUTE: &str = "skills::execute";

/// Most skills of a page; of those of which there is much to say a page has fewer.
const PAGE: usize = 1000;

pub(crate) fn register(bus: &dyn Bus, registry: &Arc<Registry>, who: &Who) {
    let (door, keys) = (Arc::clone(registry), who.clone());
    offer(
        bus,
        spec::<FilesInput, FilesOutput>(
            FILES,
            "List the files of a skill: path, size and SHA-256, the root document first.",
        ),
        move |_, input| std::future::ready(files(&door, &keys, input)),
    );
    let (door, keys) = (Arc::clone(registry), who.clone());
    offer(
        bus,
        spec::<AvailableInput, AnyValue>(
            AVAILABLE,
            "List the skills that can be offered as Agent Skills, with filters on license, compatibility and tools.",
        ),
        move |_, input: AvailableInput| {
            let asks = keys.asks(&input);
            let AvailableFilter { license, compatibility, tool } = input.filter;
            let filter = Filter { license, compatibility, tool };
            std::future::ready(asks.map(|caller| available(&door.catalog_of(&caller), &filter)))
        },
    );
    let (door, keys) = (Arc::clone(registry), who.clone());
    offer(
        bus,
        spec::<CatalogInput, CatalogOutput>(
            CATALOG,
            "Page through all skills with what is known of them without their bodies.",
        ),
        move |_, input| std::future::ready(catalog(&door, &keys, &input)),
    );
    let (door, keys) = (Arc::clone(registry), who.clone());
    offer(
        bus,
        spec::<ResolveInput, ResolveOutput>(
            RESOLVE,
            "Tell which skill answers to a name, in which tier it is stored, and what it shadows.",
        ),
        move |_, input| std::future::ready(resolve(&door, &keys, &input)),
    );
    let (door, keys) = (Arc::clone(registry), who.clone());
    offer(
        bus,
        spec::<ExecuteInput, ExecuteOutput>(
            EXECUTE,
            "Call a stored tool with arguments that fit its parameters, and give what it answers.",
        ),
        move |_, input| {
            let (door, asks) = (Arc::clone(&door), keys.asks(&input));
            async move {
                let ExecuteInput { id, arguments, .. } = input;
                let data = door.call_tool_as(&asks?, &id, arguments, None).await?;
                Ok(ExecuteOutput { data })
            }
        },
    );
}

fn files(registry: &Registry, who: &Who, input: FilesInput) -> Result<FilesOutput, RegistryError> {
    let catalog = registry.catalog_of(&who.asks(&input)?);
    let FilesInput { id, tier, .. } = input;
    let _: SkillId = id.parse()?;
    let row = catalog.readable_skill(tier.map(Into::into), &id)?;
    Ok(FilesOutput { files: row.meta.files.iter().map(file).collect(), id })
}

fn file(file: &FileMeta) -> FileEntry {
    FileEntry {
        path: file.path.clone(),
        size: file.size,
        digest: format!("sha256:{}", file.digest),
    }
}

fn resolve(
    registry: &Registry,
    who: &Who,
    input: &ResolveInput,
) -> Result<ResolveOutput, RegistryError> {
    let caller = who.asks(input)?;
    let catalog = registry.catalog_of(&caller);
    let tier = input.tier.map(rules::Tier::from);
    let _: SkillId = input.id.parse()?;
    let row = catalog.readable_skill(tier, &input.id)?;
    let place = |Place { tier, id }| PlaceEntry { tier: tier.into(), id };
    let places = |places: Vec<Place>| places.into_iter().map(place).collect();
    let (shadows, tried) = match input.explain {
        true => {
            let Explanation { shadows, tried, .. } = catalog.explain(&caller, &input.id);
            (Some(places(shadows)), Some(places(tried)))
        }
        false => (None, None),
    };
    Ok(ResolveOutput {
        id: row.id.to_string(),
        tier: row.tier.into(),
        // Whoever answers to a name answers to its id too; another copy has an address of its tier.
        uri: match tier {
            None => format!("{SCHEME}{}", row.id),
            Some(tier) => format!("{TIER_SCHEME}{tier}/{}", row.id),
        },
        title: row.title().to_owned(),
        description: row.meta.description.clone(),
        bytes: row.bytes(),
        registered_at: row.registered_at.to_string(),
        files: row.meta.files.iter().map(file).collect(),
        tool: row.meta.tool.clone(),
        shadows,
        tried,
    })
}

fn catalog(
    registry: &Registry,
    who: &Who,
    input: &CatalogInput,
) -> Result<CatalogOutput, RegistryError> {
    let catalog = registry.catalog_of(&who.asks(input)?);
    if let Some(ids) = &input.ids {
        // An id that leads to another entry has none of its own.
        let row = |id: &String| catalog.skill(id).filter(|row| *row.id == **id);
        let (asked, rest) = ids.split_at(ids.len().min(PAGE));
        let (rows, has_more) = catalog::page(asked.iter().filter_map(row), PAGE);
        let last = match has_more {
            true => rows.last().map(|row| row.id.to_string()),
            false => asked.last().filter(|_| !rest.is_empty()).cloned(),
        };
        let skills = rows.into_iter().map(|row| entry(row)).collect();
        return Ok(CatalogOutput { skills, next: last });
    }
    let after = input.after.as_deref();
    let id = |row: &SkillRow| row.id.to_string();
    let tier = input.tier.map(rules::Tier::from);
    Ok(match (input.layers, tier) {
        (Layers::Effective, None) => page(input, catalog.skills_after(after), id),
        (Layers::Effective, Some(tier)) => {
            let rows = catalog.tier_after(tier, after.map(|id| (id, tier)));
            page(input, rows.filter(|row| catalog.answers(row)), id)
        }
        (Layers::All, tier) => {
            let last = after.map(layered_cursor).transpose()?;
            let next = |row: &SkillRow| format!("{}/{}", row.id, row.tier);
            match tier {
                Some(tier) => page(input, catalog.tier_after(tier, last), next),
                None => page(input, catalog.layered_after(last), next),
            }
        }
    })
}

/// An id and a tier, with a slash between them, which is in no tier.
fn layered_cursor(after: &str) -> Result<(&str, rules::Tier), RegistryError> {
    let parts = after.rsplit_once('/').and_then(|(id, tier)| Some((id, tier.parse().ok()?)));
    parts.ok_or_else(|| RuleError::Cursor.into())
}

fn page<'a>(
    input: &CatalogInput,
    rows: impl Iterator<Item = &'a Arc<SkillRow>>,
    next: impl Fn(&SkillRow) -> String,
) -> CatalogOutput {
    let limit = input.limit.unwrap_or(PAGE).clamp(1, PAGE);
    let (rows, has_more) = catalog::page(rows, limit);
    let next = rows.last().filter(|_| has_more).map(|row| next(row));
    CatalogOutput { skills: rows.into_iter().map(|row| entry(row)).collect(), next }
}

fn entry(row: &SkillRow) -> CatalogEntry {
    CatalogEntry {
        id: row.id.to_string(),
        tier: row.stored_in().map(Into::into),
        title: row.meta.title.clone(),
        description: row.meta.description.clone(),
        registered_at: row.registered_at.to_string(),
        files: row.meta.files.iter().map(file).collect(),
        agent: row.meta.agent.clone(),
        tool: row.meta.tool.clone(),
        corrupt: row.corruption().map(str::to_owned),
        live: row.origin().map(|(client, _)| client.to_owned()),
    }
}
