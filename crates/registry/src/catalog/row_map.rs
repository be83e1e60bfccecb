//! Hash map whose snapshots share structure and whose lookups cost one probe.
//!
//! A persistent map finds a row through several nodes, and each waits for memory once the catalog is larger than the
//! processor's caches. So most rows are in one flat table, which snapshots share; the rows changed since it was built
//! are in a small persistent map, which is looked at first.

use std::{collections::HashMap, sync::Arc};

use foldhash::fast::RandomState;
use imbl::{GenericHashMap, shared_ptr::DefaultSharedPtr};

/// Changed rows for which the table is not yet built again.
const MIN_CHANGED: usize = 64;
/// Part of the table that may be changed before it is built again: building it costs each change this many rows.
const TABLE_ROWS_PER_CHANGE: usize = 8;

/// Rows by id.
#[derive(Debug)]
pub(super) struct RowMap<T> {
    table: Arc<HashMap<Arc<str>, Arc<T>, RandomState>>,
    /// Rows inserted since the table was built; `None` for those removed.
    changed: GenericHashMap<Arc<str>, Option<Arc<T>>, RandomState, DefaultSharedPtr>,
}

impl<T> Default for RowMap<T> {
    fn default() -> Self {
        let changed = GenericHashMap::with_hasher(RandomState::default());
        Self { table: Arc::default(), changed }
    }
}

// A derived impl would require `T: Clone`.
impl<T> Clone for RowMap<T> {
    fn clone(&self) -> Self {
        Self { table: Arc::clone(&self.table), changed: self.changed.clone() }
    }
}

impl<T> RowMap<T> {
    pub(super) fn get(&self, id: &str) -> Option<&Arc<T>> {
        if !self.changed.is_empty()
            && let Some(row) = self.changed.get(id)
        {
            return row.as_ref();
        }
        self.table.get(id)
    }

    pub(super) fn insert(&mut self, id: Arc<str>, row: Arc<T>) {
        if let Some(table) = self.unshared_table() {
            table.insert(id, row);
        } else {
            self.change(id, Some(row));
        }
    }

    pub(super) fn remove(&mut self, id: &str) {
        if let Some(table) = self.unshared_table() {
            table.remove(id);
        } else if self.get(id).is_some() {
            self.change(id.into(), None);
        }
    }

    /// Returns the table if no snapshot shares it, such as while a catalog is loaded.
    fn unshared_table(&mut self) -> Option<&mut HashMap<Arc<str>, Arc<T>, RandomState>> {
        Arc::get_mut(&mut self.table).filter(|_| self.changed.is_empty())
    }

    fn change(&mut self, id: Arc<str>, row: Option<Arc<T>>) {
        self.changed.insert(id, row);
        if self.changed.len() > MIN_CHANGED.max(self.table.len() / TABLE_ROWS_PER_CHANGE) {
            let mut table = HashMap::clone(&self.table);
            for (id, row) in std::mem::take(&mut self.changed) {
                match row {
                    Some(row) => table.insert(id, row),
                    None => table.remove(&id),
                };
            }
            self.table = Arc::new(table);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Step {
        Insert(u16),
        Remove(u16),
        Snapshot,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            6 => (0..300_u16).prop_map(Step::Insert),
            3 => (0..300_u16).prop_map(Step::Remove),
            1 => Just(Step::Snapshot),
        ];
        proptest::collection::vec(step, 0..1500)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn behaves_like_a_map_and_snapshots_stay_as_they_were(steps in steps()) {
            let mut map = RowMap::default();
            let mut model = BTreeMap::new();
            let mut snapshots = vec![(map.clone(), model.clone())];
            for (number, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Insert(id) => {
                        map.insert(id.to_string().into(), Arc::new(number));
                        model.insert(id, number);
                    }
                    Step::Remove(id) => {
                        map.remove(&id.to_string());
                        model.remove(&id);
                    }
                    Step::Snapshot => snapshots.push((map.clone(), model.clone())),
                }
            }
            snapshots.push((map, model));
            for (map, model) in snapshots {
                for id in 0..300 {
                    let row = map.get(&id.to_string()).map(|row| **row);
                    prop_assert_eq!(row, model.get(&id).copied());
                }
            }
        }
    }

    #[test]
    fn few_rows_are_outside_the_table() {
        let mut map = RowMap::default();
        let ids: Vec<Arc<str>> = (0..4000).map(|id: u32| id.to_string().into()).collect();
        for id in &ids {
            let before = map.clone();
            map.insert(Arc::clone(id), Arc::new(()));
            assert!(before.get(id).is_none() && map.get(id).is_some());
        }
        assert!(map.changed.len() <= 4000 / TABLE_ROWS_PER_CHANGE, "{}", map.changed.len());
        for id in &ids {
            map.remove(id);
        }
        assert!(ids.iter().all(|id| map.get(id).is_none()));
    }
}
