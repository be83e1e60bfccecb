//! Functions beyond the published contract, which know of bundles and Agent Skills: `skills::available`,
//! `skills::catalog` and `skills::files`.

use std::sync::Arc;

use skills_bus::Bus;
use skills_core::{FileMeta, SkillId};
use skills_registry::{
    Registry, RegistryError, SkillRow,
    available::{Filter, available},
};

use crate::{
    contract::{
        AnyValue, AvailableFilter, AvailableInput, CatalogEntry, CatalogInput, CatalogOutput,
        FileEntry, FilesInput, FilesOutput,
    },
    functions::spec,
    offer::offer,
};

pub(crate) const AVAILABLE: &str = "skills::available";
pub(crate) const FILES: &str = "skills::files";
pub(crate) const CATALOG: &str = "skills::catalog";

/// A page of this many skills stays far below what a message may hold, unless they are large bundles; and
/// of those a page has fewer.
const PAGE: usize = 1000;
const PAGE_FILES: usize = 5000;

pub(crate) fn register(bus: &dyn Bus, registry: &Arc<Registry>) {
    let door = Arc::clone(registry);
    offer(
        bus,
        spec::<FilesInput, FilesOutput>(
            FILES,
            "List the files of a skill: path, size and SHA-256, the root document first.",
        ),
        move |_, FilesInput { id }| std::future::ready(files(&door, id)),
    );
    let door = Arc::clone(registry);
    offer(
        bus,
        spec::<AvailableInput, AnyValue>(
            AVAILABLE,
            "List the skills that can be offered as Agent Skills, with filters on license, compatibility and tools.",
        ),
        move |_, AvailableInput { filter }| {
            let AvailableFilter { license, compatibility, tool } = filter;
            let filter = Filter { license, compatibility, tool };
            std::future::ready(Ok(available(&door.catalog(), &filter)))
        },
    );
    let door = Arc::clone(registry);
    offer(
        bus,
        spec::<CatalogInput, CatalogOutput>(
            CATALOG,
            "Page through all skills with what is known of them without their bodies.",
        ),
        move |_, input| std::future::ready(Ok(catalog(&door, &input))),
    );
}

fn files(registry: &Registry, id: String) -> Result<FilesOutput, RegistryError> {
    let _: SkillId = id.parse()?;
    let catalog = registry.catalog();
    let row = catalog.readable_skill(None, &id)?;
    Ok(FilesOutput { files: row.meta.files.iter().map(file).collect(), id })
}

fn file(file: &FileMeta) -> FileEntry {
    FileEntry {
        path: file.path.clone(),
        size: file.size,
        digest: format!("sha256:{}", file.digest),
    }
}

fn catalog(registry: &Registry, input: &CatalogInput) -> CatalogOutput {
    let catalog = registry.catalog();
    if let Some(ids) = &input.ids {
        let rows = ids.iter().take(PAGE).filter_map(|id| catalog.skill(id));
        return CatalogOutput { skills: rows.map(|row| entry(row)).collect(), next: None };
    }
    let limit = input.limit.unwrap_or(PAGE).clamp(1, PAGE);
    let mut rows = catalog.skills_after(input.after.as_deref()).peekable();
    let mut skills = Vec::new();
    let mut files = 0;
    while let Some(row) = rows.peek() {
        files += row.meta.files.len();
        if skills.len() == limit || (files > PAGE_FILES && !skills.is_empty()) {
            break;
        }
        skills.push(entry(row));
        rows.next();
    }
    let has_more = rows.peek().is_some();
    let next = skills.last().filter(|_| has_more).map(|last: &CatalogEntry| last.id.clone());
    CatalogOutput { skills, next }
}

fn entry(row: &SkillRow) -> CatalogEntry {
    CatalogEntry {
        id: row.id.to_string(),
        title: row.meta.title.clone(),
        description: row.meta.description.clone(),
        registered_at: row.registered_at.to_string(),
        files: row.meta.files.iter().map(file).collect(),
        agent: row.meta.agent.clone(),
    }
}
