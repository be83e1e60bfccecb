//! Statistics of the partitions that a search reads.

use std::{cell::RefCell, collections::HashMap};

use super::work::{SearchLimits, WorkCounter};
use crate::{
    analysis::term_hash,
    index::{Partition, Postings, SegmentView},
};

/// Partitions of a search with their statistics.
pub(super) struct Corpus<'a> {
    partitions: &'a [&'a Partition],
    documents: usize,
    frequencies: RefCell<HashMap<Box<str>, u32>>,
    /// Steps of the search.
    pub(super) work: WorkCounter,
}

impl<'a> Corpus<'a> {
    pub(super) fn new(partitions: &'a [&'a Partition], limits: SearchLimits) -> Self {
        let documents = partitions.iter().map(|partition| partition.len()).sum();
        let work = WorkCounter::new(limits);
        Self { partitions, documents, frequencies: RefCell::default(), work }
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
        let hash = term_hash(term);
        let lists = self.segments().filter_map(|(_, view)| {
            view.segment.hashed_postings(term, hash).map(|list| (view, list))
        });
        lists.map(|(view, list)| self.live_documents(view, list)).sum()
    }

    /// Returns the number of documents of a posting list that are not deleted.
    pub(super) fn live_documents(&self, view: &SegmentView, list: Postings<'_>) -> u32 {
        self.work.count(|work| work.counted += view.counting_steps(list));
        view.live_documents(list)
    }

    /// Returns whether the documents of no further words may be counted.
    pub(super) const fn is_counted_out(&self) -> bool {
        self.work.get().counted > self.work.limits.counted
    }

    /// Returns an upper bound of the postings that scoring a term reads. A frequent term is read for all documents.
    pub(super) fn scoring_steps(&self, term: &str) -> usize {
        (self.frequency(term) as usize).saturating_mul(3).min(self.documents)
    }

    /// Returns the weight of a term that this many documents have: the rarer, the more it tells.
    pub(super) fn idf(&self, frequency: u32) -> f32 {
        let frequency = frequency as f32;
        let others = (self.documents as f32 - frequency).max(0.0);
        (1.0 + (others + 0.5) / (frequency + 0.5)).ln()
    }
}
