//! Extension functions, which the published contract does not have: `skills::available`, `skills::catalog`,
//! `skills::execute`, `skills::files`, `skills::resolve` and `skills::search`.

use std::{borrow::Cow, sync::Arc};

use skills_bus::Json;
use skills_core::{
    Caller, FileMeta, RuleError, SkillId, Tier,
    uri::{SCHEME, SKILL_SCHEME},
    version::{VERSION_SEPARATOR, split_version},
};
use skills_registry::{
    ExplainedLayer, Explanation, RegistryError, SkillRow,
    available::{Filter, available},
    catalog,
    search::{KindFilter, SearchPage, SearchRequest},
};

use crate::{
    Context,
    contract::{
        AnyValue, AvailableFilter, AvailableInput, CatalogEntry, CatalogInput, CatalogOutput,
        ExecuteInput, ExecuteOutput, FileEntry, FilesInput, FilesOutput, LayerEntry, Layers,
        ResolveInput, ResolveOutput, SearchInput,
    },
    error::{bad_output, execute_error, to_bus},
    functions::spec,
    register::Registrar,
};

pub(crate) const AVAILABLE: &str = "skills::available";
pub(crate) const FILES: &str = "skills::files";
pub(crate) const CATALOG: &str = "skills::catalog";
pub(crate) const RESOLVE: &str = "skills::resolve";
pub(crate) const EXECUTE: &str = "skills::execute";
pub(crate) const SEARCH: &str = "skills::search";

/// Most skills of a page; a page of large entries has fewer.
const PAGE: usize = 1000;

pub(crate) fn register(functions: &Registrar<'_, Arc<Context>>) {
    functions.typed(
        spec::<FilesInput, FilesOutput>(
            FILES,
            "List the files of a skill: path, size and SHA-256, the root document first.",
        ),
        |context, _, input| {
            let context = Arc::clone(context);
            async move { files(&context, input).await }
        },
    );
    functions.typed(
        spec::<AvailableInput, AnyValue>(
            AVAILABLE,
            "List the skills that can be offered as Agent Skills, with filters on license, compatibility and tools.",
        ),
        |context, _, input: AvailableInput| {
            let catalog = context.catalog(&input);
            let AvailableFilter { license, compatibility, tool } = input.filter;
            let filter = Filter { license, compatibility, tool };
            std::future::ready(catalog.map(|catalog| available(&catalog, &filter)))
        },
    );
    functions.typed(
        spec::<CatalogInput, CatalogOutput>(CATALOG, "Page through the metadata of all skills."),
        |context, _, input| {
            let context = Arc::clone(context);
            async move { catalog(&context, &input).await }
        },
    );
    functions.typed(
        spec::<ResolveInput, ResolveOutput>(
            RESOLVE,
            "Resolve a name to a skill: its tier, and the entries that it shadows.",
        ),
        |context, _, input| {
            let context = Arc::clone(context);
            async move { resolve(&context, &input).await }
        },
    );
    functions.typed(
        spec::<SearchInput, AnyValue>(
            SEARCH,
            "Search skills, tools and prompts by words of their names, descriptions and texts, the best first.",
        ),
        |context, _, input| search(Arc::clone(context), input),
    );
    functions.json(
        spec::<ExecuteInput, ExecuteOutput>(EXECUTE, "Call a stored tool and return its response."),
        |context, _, input: ExecuteInput| {
            let context = Arc::clone(context);
            async move {
                let caller = context.keys.caller(&input).map_err(|error| to_bus(&error))?;
                let called = context.tools.call_tool(&caller, &input.id, input.arguments).await;
                let data = called.map_err(|error| execute_error(&error))?;
                Json::from_serialize(&ExecuteOutput { data }).map_err(|error| bad_output(&error))
            }
        },
    );
}

async fn search(context: Arc<Context>, input: SearchInput) -> Result<SearchPage, RegistryError> {
    let caller = context.keys.caller(&input)?;
    let SearchInput { query, limit, kind, tier, cursor, for_model, unlogged, .. } = input;
    let kind = kind.as_deref().map(KindFilter::parse).transpose()?;
    let tier = tier.map(Tier::from);
    let request = SearchRequest { query, kind, tier, limit, cursor, for_model, unlogged };
    context.registry.search_as(&caller, request).await
}

/// Returns the row of a stored skill: the served one of an id, or that of an address with a version.
async fn skill(
    context: &Context,
    caller: &Caller,
    tier: Option<Tier>,
    address: &str,
) -> Result<Arc<SkillRow>, RegistryError> {
    let _: SkillId = split_version(address)?.0.parse()?;
    context.registry.skill_at(caller, tier, address).await
}

async fn files(context: &Context, input: FilesInput) -> Result<FilesOutput, RegistryError> {
    let caller = context.keys.caller(&input)?;
    let FilesInput { id, tier, .. } = input;
    let row = skill(context, &caller, tier.map(Into::into), &id).await?;
    Ok(FilesOutput { files: row.meta.files.iter().map(file).collect(), id })
}

fn file(file: &FileMeta) -> FileEntry {
    FileEntry {
        path: file.path.clone(),
        size: file.size,
        digest: format!("sha256:{}", file.digest),
        executable: file.executable,
    }
}

async fn resolve(context: &Context, input: &ResolveInput) -> Result<ResolveOutput, RegistryError> {
    let caller = context.keys.caller(input)?;
    let tier = input.tier.map(Tier::from);
    let row = skill(context, &caller, tier, &input.id).await?;
    let layer = |ExplainedLayer { tier, id }| LayerEntry { tier: tier.into(), id };
    let layers = |places: Vec<ExplainedLayer>| places.into_iter().map(layer).collect();
    let (shadows, tried) = if input.explain {
        let (id, _) = split_version(&input.id)?;
        let catalog = context.registry.catalog_for(&caller);
        let Explanation { shadows, tried, .. } = catalog.explain(&caller, &id);
        (Some(layers(shadows)), Some(layers(tried)))
    } else {
        (None, None)
    };
    let address = match &row.pinned {
        None => row.id.to_string(),
        Some(pinned) => format!("{}{VERSION_SEPARATOR}{}", row.id, pinned.version),
    };
    let version = row.version();
    Ok(ResolveOutput {
        id: row.id.to_string(),
        tier: row.tier.into(),
        // The effective entry has its address as its URI; a copy in one tier has the URI of that tier.
        uri: match tier {
            None => format!("{SCHEME}{address}"),
            Some(tier) => format!("{SKILL_SCHEME}{tier}/{address}"),
        },
        version: version.as_ref().map(|version| version.version),
        yanked: version.and_then(|version| version.yanked),
        title: row.title().to_owned(),
        description: row.description().map(Cow::into_owned),
        bytes: row.bytes(),
        registered_at: row.registered_at.to_string(),
        files: row.meta.files.iter().map(file).collect(),
        tool: row.meta.tool.clone(),
        source: row.meta.provenance.clone(),
        shadows,
        tried,
    })
}

async fn catalog(context: &Context, input: &CatalogInput) -> Result<CatalogOutput, RegistryError> {
    if let Some(ids) = &input.ids {
        return catalog_of(context, input, ids).await;
    }
    let catalog = context.catalog(input)?;
    let after = input.after.as_deref();
    let id = |row: &SkillRow| row.id.to_string();
    let tier = input.tier.map(Tier::from);
    Ok(match (input.layers, tier) {
        (Layers::Effective, None) => page(input, catalog.skills_after(after), id),
        (Layers::Effective, Some(tier)) => {
            let rows = catalog.tier_after(tier, after.map(|id| (id, tier)));
            page(input, rows.filter(|row| catalog.is_effective(row)), id)
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

/// Returns the rows of some ids and of addresses with a version. An id without a skill is left out; a version that cannot
/// be read is an error.
async fn catalog_of(
    context: &Context,
    input: &CatalogInput,
    ids: &[String],
) -> Result<CatalogOutput, RegistryError> {
    let caller = context.keys.caller(input)?;
    let catalog = context.registry.catalog_for(&caller);
    let (requested, rest) = ids.split_at(ids.len().min(PAGE));
    let mut found: Vec<(&String, Arc<SkillRow>)> = vec![];
    for id in requested {
        // An id that resolves to another entry has no entry of its own.
        let listed = catalog.skill(id).filter(|row| *row.id == **id);
        let row = match listed {
            Some(row) => Some(Arc::clone(row)),
            None if has_version(id)? => {
                Some(context.registry.skill_at(&caller, input.tier.map(Into::into), id).await?)
            }
            None => None,
        };
        found.extend(row.map(|row| (id, row)));
    }
    let (rows, has_more) = catalog::page(found.iter().map(|(_, row)| row), PAGE);
    let covered = rows.len().checked_sub(1).and_then(|last| found.get(last));
    let next = if has_more {
        covered.map(|(id, _)| (*id).clone())
    } else {
        requested.last().filter(|_| !rest.is_empty()).cloned()
    };
    Ok(CatalogOutput { skills: rows.into_iter().map(|row| entry(row)).collect(), next })
}

/// Returns whether a text is an address with a version. Ids of live skills have a slash and no versions.
fn has_version(id: &str) -> Result<bool, RegistryError> {
    Ok(!id.contains('/') && split_version(id)?.1.is_some())
}

/// Parses a cursor of all layers: an id and a tier, separated by a slash.
fn layered_cursor(after: &str) -> Result<(&str, Tier), RegistryError> {
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
    let version = row.version();
    let latest = row.heads.as_ref().filter(|heads| heads.latest != heads.served);
    CatalogEntry {
        id: row.id.to_string(),
        tier: row.stored_tier().map(Into::into),
        title: row.meta.title().map(str::to_owned),
        description: row.description().map(Cow::into_owned),
        registered_at: row.registered_at.to_string(),
        files: row.meta.files.iter().map(file).collect(),
        agent: row.meta.agent.clone(),
        tool: row.meta.tool.clone(),
        source: row.meta.provenance.clone(),
        corrupt: row.corruption().map(str::to_owned),
        live: row.origin().map(|(client, _)| client.to_owned()),
        version: version.as_ref().map(|version| version.version),
        latest: latest.map(|heads| heads.latest),
        yanked: version.and_then(|version| version.yanked),
    }
}
