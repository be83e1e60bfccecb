//! Terms of a segment: sorted, in one text, with a hash table for exact lookups.

use std::ops::Range;

use crate::analysis::{TermHash, term_hash};

/// Free slot of the hash table.
const FREE: u32 = u32::MAX;

/// Sorted terms. A term's number is its position.
#[derive(Debug)]
pub(super) struct Dictionary {
    text: Box<str>,
    ends: Box<[u32]>,
    table: Box<[u32]>,
}

/// Dictionary under construction.
#[derive(Debug, Default)]
pub(super) struct DictionaryBuilder {
    text: String,
    ends: Vec<u32>,
}

impl DictionaryBuilder {
    /// Appends a term, which comes after all terms before.
    pub(super) fn push(&mut self, term: &str) {
        self.text.push_str(term);
        // A segment has far less than 4 GiB of distinct terms: its documents are bounded.
        self.ends.push(u32::try_from(self.text.len()).unwrap_or(u32::MAX));
    }

    pub(super) fn finish(self) -> Dictionary {
        let slots = (self.ends.len() * 4 / 3 + 1).next_power_of_two();
        let mut dictionary = Dictionary {
            text: self.text.into_boxed_str(),
            ends: self.ends.into_boxed_slice(),
            table: vec![FREE; slots].into_boxed_slice(),
        };
        for number in 0..dictionary.ends.len() {
            let mut slot = dictionary.slot(term_hash(dictionary.term(number)));
            while dictionary.table[slot] != FREE {
                slot = (slot + 1) % slots;
            }
            dictionary.table[slot] = u32::try_from(number).unwrap_or(FREE);
        }
        dictionary
    }
}

impl Dictionary {
    pub(super) const fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn memory(&self) -> usize {
        self.text.len() + (self.ends.len() + self.table.len()) * size_of::<u32>()
    }

    /// Returns a term by its number.
    pub(super) fn term(&self, number: usize) -> &str {
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        &self.text[start..self.ends[number] as usize]
    }

    fn slot(&self, hash: TermHash) -> usize {
        // The table's length is a power of two; high bits of FNV are the better ones.
        (hash ^ (hash >> 15)) as usize % self.table.len()
    }

    /// Returns the number of a term with its hash.
    pub(super) fn find(&self, term: &str, hash: TermHash) -> Option<usize> {
        let mut slot = self.slot(hash);
        loop {
            match self.table[slot] {
                FREE => return None,
                number if self.term(number as usize) == term => return Some(number as usize),
                _ => slot = (slot + 1) % self.table.len(),
            }
        }
    }

    /// Returns the numbers of the terms that begin with a text.
    pub(super) fn prefixed(&self, prefix: &str) -> Range<usize> {
        let start = self.partition_point(|term| term < prefix);
        let end = self.partition_point(|term| term < prefix || term.starts_with(prefix));
        start..end.max(start)
    }

    fn partition_point(&self, is_before: impl Fn(&str) -> bool) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if is_before(self.term(middle)) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn terms_are_found_by_name_and_by_prefix(
            terms in prop::collection::btree_set("[a-c]{1,4}", 0..60), prefix in "[a-c]{1,3}",
        ) {
            let mut builder = DictionaryBuilder::default();
            terms.iter().for_each(|term| builder.push(term));
            let dictionary = builder.finish();
            for (number, term) in terms.iter().enumerate() {
                prop_assert_eq!(dictionary.find(term, term_hash(term)), Some(number));
            }
            let known = dictionary.find(&prefix, term_hash(&prefix)).is_some();
            prop_assert_eq!(known, terms.contains(&prefix));
            let found: Vec<&str> =
                dictionary.prefixed(&prefix).map(|number| dictionary.term(number)).collect();
            let expected: Vec<&String> =
                terms.iter().filter(|term| term.starts_with(&prefix)).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
