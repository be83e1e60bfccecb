//! Statistics of the partitions that a search reads.

use std::{cell::RefCell, collections::HashMap};

use crate::index::{Partition, SegmentView};

/// Partitions of a search with their statistics.
pub(super) struct Corpus<'a> {
    partitions: &'a [&'a Partition],
    documents: usize,
    frequencies: RefCell<HashMap<Box<str>, u32>>,
}

impl<'a> Corpus<'a> {
    pub(super) fn new(partitions: &'a [&'a Partition]) -> Self {
        let documents = partitions.iter().map(|partition| partition.len()).sum();
        Self { partitions, documents, frequencies: RefCell::default() }
    }

    /// Iterates over the segments with the positions of their partitions.
    pub(super) fn segments(&self) -> impl Iterator<Item = (usize, &'a SegmentView)> {
        let partitions = self.partitions.iter().enumerate();
        partitions
            .flat_map(|(at, partition)| partition.segments().iter().map(move |view| (at, view)))
    }

    /// Returns the number of documents that have a term. Deleted ones do not count: neither scores nor corrections may
    /// depend on texts that are gone.
    pub(super) fn frequency(&self, term: &str) -> u32 {
        if let Some(&known) = self.frequencies.borrow().get(term) {
            return known;
        }
        let frequency = self.probe(term);
        self.frequencies.borrow_mut().insert(term.into(), frequency);
        frequency
    }

    /// Returns the number of documents that have a term, without remembering it.
    pub(super) fn probe(&self, term: &str) -> u32 {
        self.segments().map(|(_, view)| view.frequency(term)).sum()
    }

    /// Returns the weight of a term that this many documents have: the rarer, the more it tells.
    pub(super) fn idf(&self, frequency: u32) -> f32 {
        let frequency = frequency as f32;
        let others = (self.documents as f32 - frequency).max(0.0);
        (1.0 + (others + 0.5) / (frequency + 0.5)).ln()
    }
}
