//! Differences between two snapshots. Snapshots that follow each other share structure, so finding their differences costs
//! as much as there are. A snapshot that was read again shares none: each row is compared by value.

use std::sync::Arc;

use skills_core::{EntryKind, Layer};

use super::{Catalog, PromptRow, SkillRow, layer_index::Table};
use crate::search::RowSearch;

/// Entry that is different in a later snapshot.
#[derive(Debug, Clone)]
pub struct CatalogDifference {
    /// Layer of the entry; `None` for live entries.
    pub layer: Option<Layer>,
    /// Id or name.
    pub id: Arc<str>,
    /// New row.
    pub row: ChangedRow,
}

/// New row of an entry.
#[derive(Debug, Clone)]
pub enum ChangedRow {
    /// Skill or tool.
    Skill(Arc<SkillRow>),
    /// Prompt.
    Prompt(Arc<PromptRow>),
    /// The entry does not exist any more.
    Removed(EntryKind),
}

impl PartialEq for SkillRow {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
            && self.tier == other.tier
            && self.registered_at == other.registered_at
            && self.is_live() == other.is_live()
            && self.corruption() == other.corruption()
            && self.meta == other.meta
    }
}

impl Catalog {
    /// Returns the entries of all layers and of live clients that are different in a later snapshot.
    #[must_use]
    pub fn differences(&self, newer: &Self) -> Vec<CatalogDifference> {
        let mut found = Vec::new();
        let (before, after) = (&self.data.layers, &newer.data.layers);
        let removed = before.iter().filter(|&(layer, _)| !after.contains_key(layer));
        for (layer, index) in removed {
            add(&mut found, Some(layer), &index.skills, &Table::default(), skill);
            add(&mut found, Some(layer), &index.prompts, &Table::default(), prompt);
        }
        for (layer, index) in after {
            let known = before.get(layer);
            if known.is_some_and(|known| Arc::ptr_eq(known, index)) {
                continue;
            }
            let (skills, prompts) = (Table::default(), Table::default());
            let (skills, prompts) =
                known.map_or((&skills, &prompts), |known| (&known.skills, &known.prompts));
            add(&mut found, Some(layer), skills, &index.skills, skill);
            add(&mut found, Some(layer), prompts, &index.prompts, prompt);
        }
        add(&mut found, None, &self.data.live.skills, &newer.data.live.skills, skill);
        add(&mut found, None, &self.data.live.prompts, &newer.data.live.prompts, prompt);
        found
    }

    /// Returns the search index of this view's rows, which is built once.
    pub(crate) fn row_search(&self) -> Arc<RowSearch> {
        Arc::clone(self.row_search.get_or_init(|| Arc::new(RowSearch::new(self))))
    }
}

fn skill(row: Option<&Arc<SkillRow>>) -> ChangedRow {
    row.map_or(ChangedRow::Removed(EntryKind::Skill), |row| ChangedRow::Skill(Arc::clone(row)))
}

fn prompt(row: Option<&Arc<PromptRow>>) -> ChangedRow {
    row.map_or(ChangedRow::Removed(EntryKind::Prompt), |row| ChangedRow::Prompt(Arc::clone(row)))
}

fn add<T: PartialEq>(
    found: &mut Vec<CatalogDifference>,
    layer: Option<&Layer>,
    before: &Table<T>,
    after: &Table<T>,
    row: fn(Option<&Arc<T>>) -> ChangedRow,
) {
    found.extend(before.differences(after).map(|(id, new)| CatalogDifference {
        layer: layer.cloned(),
        id: Arc::clone(id),
        row: row(new),
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::tests::catalog_with_documents;

    fn shown(before: &Catalog, after: &Catalog) -> Vec<String> {
        let differences = before.differences(after);
        let text = |difference: &CatalogDifference| {
            let sign = match difference.row {
                ChangedRow::Skill(_) | ChangedRow::Prompt(_) => '+',
                ChangedRow::Removed(_) => '-',
            };
            format!("{sign}{}", difference.id)
        };
        let mut shown: Vec<String> = differences.iter().map(text).collect();
        shown.sort();
        shown
    }

    #[test]
    fn differences_are_what_was_added_replaced_and_removed() {
        let empty = Catalog::default();
        let one = catalog_with_documents(&[("a", "# A"), ("b", "# B")]);
        let two = catalog_with_documents(&[("a", "# A"), ("b", "# Other"), ("c", "# C")]);
        assert_eq!(shown(&empty, &one), ["+a", "+b"]);
        assert!(shown(&one, &one).is_empty());
        assert_eq!(shown(&one, &two), ["+b", "+c"]);
        assert_eq!(shown(&two, &one), ["+b", "-c"]);
        assert_eq!(shown(&one, &empty), ["-a", "-b"]);
    }
}
