//! Searchable documents of catalog rows.

use std::sync::Arc;

use skills_core::EntryKind;
use skills_search::{DocumentKey, HitKind, SearchDocument};

use crate::{
    PromptRow, SkillRow,
    catalog::{CatalogDifference, ChangedRow},
};

/// Returns the key of an entry in the index.
pub(super) fn key_of(difference: &CatalogDifference) -> DocumentKey {
    let kind = match difference.row {
        ChangedRow::Skill(_) => EntryKind::Skill,
        ChangedRow::Prompt(_) => EntryKind::Prompt,
        ChangedRow::Removed(kind) => kind,
    };
    DocumentKey { kind, id: Arc::clone(&difference.id) }
}

/// Returns the document of a skill. A skill whose text cannot be read is found by its metadata.
pub(super) fn of_skill(row: &SkillRow, root: Option<&str>) -> SearchDocument {
    if row.corruption().is_some() {
        return SearchDocument::new(HitKind::Skill, Arc::clone(&row.id));
    }
    SearchDocument::from_skill(Arc::clone(&row.id), &row.meta, root.unwrap_or_default())
}

/// Returns the document of a prompt.
pub(super) fn of_prompt(row: &PromptRow) -> SearchDocument {
    SearchDocument::from_prompt(Arc::clone(&row.name), &row.definition)
}
