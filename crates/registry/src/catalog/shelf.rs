//! One layer of the catalog, and walking several of them in order.
//!
//! A table is kept twice: hashed, for looking something up at the same cost however much there is, and sorted,
//! for listings that go on where a page ended. Both share their structure with the snapshots before.

use std::{iter::Peekable, ops::Bound, sync::Arc};

use foldhash::fast::RandomState;
use imbl::{GenericHashMap, OrdMap, shared_ptr::DefaultSharedPtr};
use skills_core::Layer;

use super::{PromptRow, SkillRow};

/// Rows by their id or name.
#[derive(Debug)]
pub(super) struct Table<T> {
    hashed: GenericHashMap<Arc<str>, Arc<T>, RandomState, DefaultSharedPtr>,
    sorted: OrdMap<Arc<str>, Arc<T>>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        let hashed = GenericHashMap::with_hasher(RandomState::default());
        Self { hashed, sorted: OrdMap::new() }
    }
}

// Derived, it would ask that rows can be cloned.
impl<T> Clone for Table<T> {
    fn clone(&self) -> Self {
        Self { hashed: self.hashed.clone(), sorted: self.sorted.clone() }
    }
}

impl<T> Table<T> {
    pub(super) fn get(&self, id: &str) -> Option<&Arc<T>> {
        self.hashed.get(id)
    }

    pub(super) fn insert(&mut self, id: &Arc<str>, row: T) {
        self.share(id, Arc::new(row));
    }

    pub(super) fn share(&mut self, id: &Arc<str>, row: Arc<T>) {
        self.hashed.insert(Arc::clone(id), Arc::clone(&row));
        self.sorted.insert(Arc::clone(id), row);
    }

    pub(super) fn remove(&mut self, id: &str) {
        self.hashed.remove(id);
        self.sorted.remove(id);
    }

    pub(super) fn len(&self) -> usize {
        self.sorted.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = &Arc<str>> {
        self.sorted.keys()
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = &Arc<T>> {
        self.sorted.values()
    }

    pub(super) fn from(
        &self,
        start: Bound<&str>,
    ) -> impl Iterator<Item = (&Arc<str>, &Arc<T>)> + use<'_, T> {
        self.sorted.range::<_, str>((start, Bound::Unbounded))
    }
}

/// All entries of a layer.
#[derive(Debug, Clone)]
pub(super) struct Shelf {
    pub(super) layer: Layer,
    pub(super) skills: Table<SkillRow>,
    pub(super) prompts: Table<PromptRow>,
    /// Those of the skills that are tools, so that a list of them does not walk over all others.
    pub(super) tools: OrdMap<Arc<str>, Arc<SkillRow>>,
    /// The newest change that a tool came, went or was defined otherwise with.
    pub(super) tools_at: u64,
}

impl Shelf {
    pub(super) fn new(layer: Layer) -> Self {
        let (skills, prompts, tools) = (Table::default(), Table::default(), OrdMap::new());
        Self { layer, skills, prompts, tools, tools_at: 0 }
    }

    pub(super) fn put_skill(&mut self, id: &Arc<str>, row: SkillRow) {
        let row = Arc::new(row);
        match row.meta.tool {
            Some(_) => drop(self.tools.insert(Arc::clone(id), Arc::clone(&row))),
            None => drop(self.tools.remove(id)),
        }
        self.skills.share(id, row);
    }

    pub(super) fn remove_skill(&mut self, id: &str) {
        self.tools.remove(id);
        self.skills.remove(id);
    }

    pub(super) fn skill(&self, id: &str) -> Option<&Arc<SkillRow>> {
        self.skills.get(id)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.skills.is_empty() && self.prompts.is_empty()
    }
}

pub(super) fn after(key: Option<&str>) -> Bound<&str> {
    key.map_or(Bound::Unbounded, Bound::Excluded)
}

/// Merges sorted layers, ordered by key and then by layer, with the number of the layer.
pub(super) struct Merged<I: Iterator>(Vec<Peekable<I>>);

impl<'a, T: 'a, I: Iterator<Item = (&'a Arc<str>, &'a Arc<T>)>> Merged<I> {
    pub(super) fn new(layers: impl Iterator<Item = I>) -> Self {
        Self(layers.map(Iterator::peekable).collect())
    }

    /// Of equal keys, only that of the first layer.
    pub(super) fn first_of_each(mut self) -> impl Iterator<Item = (usize, &'a Arc<T>)> {
        std::iter::from_fn(move || {
            let number = self.least()?;
            let (key, row) = self.0.get_mut(number)?.next()?;
            for layer in &mut self.0 {
                layer.next_if(|(other, _)| *other == key);
            }
            Some((number, row))
        })
    }

    /// The layer that has the least key, the first of them if several do.
    fn least(&mut self) -> Option<usize> {
        let heads = self.0.iter_mut().enumerate();
        let heads = heads.filter_map(|(number, layer)| layer.peek().map(|(key, _)| (*key, number)));
        heads.min().map(|(_, number)| number)
    }
}

impl<'a, T: 'a, I: Iterator<Item = (&'a Arc<str>, &'a Arc<T>)>> Iterator for Merged<I> {
    type Item = (usize, &'a Arc<T>);

    fn next(&mut self) -> Option<Self::Item> {
        let number = self.least()?;
        self.0.get_mut(number)?.next().map(|(_, row)| (number, row))
    }
}
