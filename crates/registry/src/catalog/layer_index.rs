//! Index of one layer of the catalog, and the merge of several layers in order.
//!
//! A table has two maps: a hash map for lookups in constant time, and a sorted one for listings that continue after a
//! page. Both share structure with earlier snapshots. Entries whose versions are all yanked have no row, and shadow those
//! of later layers all the same.

use std::{iter::Peekable, ops::Bound, sync::Arc};

use imbl::{OrdMap, OrdSet, ordmap::DiffItem};
use skills_core::Layer;

use super::{CollectionRow, PromptRow, SkillRow, row_map::RowMap};

/// Rows by id or name.
#[derive(Debug)]
pub(super) struct Table<T> {
    hashed: RowMap<T>,
    sorted: OrdMap<Arc<str>, Arc<T>>,
    withdrawn: OrdSet<Arc<str>>,
}

/// Entry of a layer.
pub(super) enum Slot<'a, T> {
    /// Entry that serves a version.
    Row(&'a Arc<T>),
    /// Entry whose versions are all yanked.
    Withdrawn(&'a Arc<str>),
}

impl<'a, T> Slot<'a, T> {
    pub(super) const fn row(self) -> Option<&'a Arc<T>> {
        match self {
            Self::Row(row) => Some(row),
            Self::Withdrawn(_) => None,
        }
    }

    /// Returns the id, which `of_row` takes from a row.
    pub(super) fn id(self, of_row: impl Fn(&'a T) -> &'a Arc<str>) -> &'a Arc<str> {
        match self {
            Self::Row(row) => of_row(row),
            Self::Withdrawn(id) => id,
        }
    }
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { hashed: RowMap::default(), sorted: OrdMap::new(), withdrawn: OrdSet::new() }
    }
}

// A derived impl would require `T: Clone`.
impl<T> Clone for Table<T> {
    fn clone(&self) -> Self {
        Self {
            hashed: self.hashed.clone(),
            sorted: self.sorted.clone(),
            withdrawn: self.withdrawn.clone(),
        }
    }
}

impl<T> Table<T> {
    pub(super) fn get(&self, id: &str) -> Option<&Arc<T>> {
        self.hashed.get(id)
    }

    /// Returns the entry of an id, whether it serves a version or not.
    pub(super) fn slot(&self, id: &str) -> Option<Slot<'_, T>> {
        match self.get(id) {
            Some(row) => Some(Slot::Row(row)),
            None if self.withdrawn.is_empty() => None,
            None => self.withdrawn.get(id).map(Slot::Withdrawn),
        }
    }

    pub(super) fn insert(&mut self, id: &Arc<str>, row: impl Into<Arc<T>>) {
        let row = row.into();
        self.withdrawn.remove(&**id);
        self.hashed.insert(Arc::clone(id), Arc::clone(&row));
        self.sorted.insert(Arc::clone(id), row);
    }

    pub(super) fn remove(&mut self, id: &str) {
        self.hashed.remove(id);
        self.sorted.remove(id);
        self.withdrawn.remove(id);
    }

    /// Replaces a row by an entry that serves nothing.
    pub(super) fn withdraw(&mut self, id: &Arc<str>) {
        self.remove(id);
        self.withdrawn.insert(Arc::clone(id));
    }

    pub(super) fn len(&self) -> usize {
        self.sorted.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sorted.is_empty() && self.withdrawn.is_empty()
    }

    /// Iterates over the ids of rows.
    pub(super) fn ids(&self) -> impl Iterator<Item = &Arc<str>> {
        self.sorted.keys()
    }

    /// Iterates over the ids of rows and of withdrawn entries.
    pub(super) fn all_ids(&self) -> impl Iterator<Item = &Arc<str>> {
        self.sorted.keys().chain(&self.withdrawn)
    }

    pub(super) fn has_withdrawn(&self) -> bool {
        !self.withdrawn.is_empty()
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = &Arc<T>> {
        self.sorted.values()
    }

    pub(super) fn range_from(
        &self,
        start: Bound<&str>,
    ) -> impl Iterator<Item = (&Arc<str>, &Arc<T>)> + use<'_, T> {
        self.sorted.range::<_, str>((start, Bound::Unbounded))
    }
}

impl<T: PartialEq> Table<T> {
    /// Iterates over the rows that differ in a newer table; `None` for those it does not have. Shared parts are
    /// skipped.
    pub(super) fn differences<'a>(
        &'a self,
        newer: &'a Self,
    ) -> impl Iterator<Item = (&'a Arc<str>, Option<&'a Arc<T>>)> {
        self.sorted.diff(&newer.sorted).map(|item| match item {
            DiffItem::Add(id, row) | DiffItem::Update { new: (id, row), .. } => (id, Some(row)),
            DiffItem::Remove(id, _) => (id, None),
        })
    }
}

/// Entries of a layer.
#[derive(Debug, Clone)]
pub(super) struct LayerIndex {
    pub(super) layer: Layer,
    pub(super) skills: Table<SkillRow>,
    pub(super) prompts: Table<PromptRow>,
    pub(super) collections: Table<CollectionRow>,
    /// Skills that are tools, so that a list of tools does not scan all skills.
    pub(super) tools: OrdMap<Arc<str>, Arc<SkillRow>>,
    /// Revision of the newest change that affected the tools.
    pub(super) tools_revision: u64,
}

impl LayerIndex {
    pub(super) fn new(layer: Layer) -> Self {
        let (skills, prompts, tools) = (Table::default(), Table::default(), OrdMap::new());
        let collections = Table::default();
        Self { layer, skills, prompts, collections, tools, tools_revision: 0 }
    }

    pub(super) fn put_skill(&mut self, row: SkillRow) {
        let (id, row) = (Arc::clone(&row.id), Arc::new(row));
        if row.meta.tool.is_some() {
            self.tools.insert(Arc::clone(&id), Arc::clone(&row));
        } else {
            self.tools.remove(&id);
        }
        self.skills.insert(&id, row);
    }

    pub(super) fn remove_skill(&mut self, id: &str) {
        self.tools.remove(id);
        self.skills.remove(id);
    }

    pub(super) fn withdraw_skill(&mut self, id: &Arc<str>) {
        self.tools.remove(id);
        self.skills.withdraw(id);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.skills.is_empty() && self.prompts.is_empty() && self.collections.is_empty()
    }
}

/// Returns the start of a range after a key.
pub(super) fn after(key: Option<&str>) -> Bound<&str> {
    key.map_or(Bound::Unbounded, Bound::Excluded)
}

/// Merge of sorted layers: rows with the number of their layer, ordered by key and then by layer.
pub(super) struct MergedRows<I: Iterator>(Vec<Peekable<I>>);

impl<'a, T: 'a, I: Iterator<Item = (&'a Arc<str>, &'a Arc<T>)>> MergedRows<I> {
    pub(super) fn new(layers: impl Iterator<Item = I>) -> Self {
        Self(layers.map(Iterator::peekable).collect())
    }

    /// Yields only the row of the first layer for each key.
    pub(super) fn first_of_each(mut self) -> impl Iterator<Item = (usize, &'a Arc<T>)> {
        std::iter::from_fn(move || {
            let number = self.least_layer()?;
            let (key, row) = self.0.get_mut(number)?.next()?;
            for layer in &mut self.0 {
                layer.next_if(|(other, _)| *other == key);
            }
            Some((number, row))
        })
    }

    /// Returns the first layer with the least key.
    fn least_layer(&mut self) -> Option<usize> {
        let heads = self.0.iter_mut().enumerate();
        let heads = heads.filter_map(|(number, layer)| layer.peek().map(|(key, _)| (*key, number)));
        heads.min().map(|(_, number)| number)
    }
}

impl<'a, T: 'a, I: Iterator<Item = (&'a Arc<str>, &'a Arc<T>)>> Iterator for MergedRows<I> {
    type Item = (usize, &'a Arc<T>);

    fn next(&mut self) -> Option<Self::Item> {
        let number = self.least_layer()?;
        self.0.get_mut(number)?.next().map(|(_, row)| (number, row))
    }
}
