//! Documents of one layer, as readers see them.

use std::sync::Arc;

use super::{Postings, PostingsForm, Segment};
use crate::document::DocumentKey;

/// Set of documents of a segment, as a bitmap.
#[derive(Debug, Clone, Default)]
pub(crate) struct DocumentSet {
    words: Vec<u64>,
    count: usize,
}

impl DocumentSet {
    /// Returns whether the set has a document.
    pub(crate) fn contains(&self, document: u32) -> bool {
        let word = self.words.get(document as usize / 64).copied().unwrap_or(0);
        word >> (document % 64) & 1 == 1
    }

    /// Adds a document.
    pub(crate) fn insert(&mut self, document: u32) {
        let at = document as usize / 64;
        if self.words.len() <= at {
            self.words.resize(at + 1, 0);
        }
        let bit = 1 << (document % 64);
        if self.words[at] & bit == 0 {
            self.words[at] |= bit;
            self.count += 1;
        }
    }

    /// Iterates over the documents in order.
    fn iter(&self) -> impl Iterator<Item = u32> {
        self.words.iter().zip(0_u32..).filter(|(word, _)| **word != 0).flat_map(|(&word, at)| {
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| at * 64 + bit)
        })
    }
}

/// Segment with its deleted documents.
#[derive(Debug, Clone)]
pub(crate) struct SegmentView {
    pub(super) id: u64,
    pub(crate) segment: Arc<Segment>,
    pub(super) deleted: Arc<DocumentSet>,
}

impl SegmentView {
    /// Returns whether a document was deleted or replaced.
    pub(crate) fn is_deleted(&self, document: u32) -> bool {
        self.deleted.contains(document)
    }

    /// Returns the number of documents that are not deleted.
    pub(crate) fn len(&self) -> usize {
        self.segment.len() - self.deleted.count
    }

    /// Returns the steps that counting the documents of a posting list takes.
    pub(crate) fn counting_steps(&self, list: Postings<'_>) -> usize {
        match list.form() {
            _ if self.deleted.count == 0 => 1,
            PostingsForm::Dense(_) => self.deleted.count,
            PostingsForm::Sparse(_) => list.documents() as usize,
        }
    }

    /// Returns the number of documents of a posting list that are not deleted. A sparse list is read if there are deleted
    /// documents, up to the last of them.
    pub(crate) fn live_documents(&self, list: Postings<'_>) -> u32 {
        let all = list.documents();
        if self.deleted.count == 0 {
            return all;
        }
        let deleted = match list.form() {
            PostingsForm::Dense(weights) => {
                let has_term = |document: &u32| {
                    weights.get(*document as usize).is_some_and(|weight| *weight > 0)
                };
                self.deleted.iter().filter(has_term).count()
            }
            PostingsForm::Sparse(list) => {
                let end = u32::try_from(self.deleted.words.len() * 64).unwrap_or(u32::MAX);
                let read =
                    list.map(|(document, _)| document).take_while(|document| *document < end);
                read.filter(|document| self.deleted.contains(*document)).count()
            }
        };
        all.saturating_sub(u32::try_from(deleted).unwrap_or(u32::MAX))
    }
}

/// Snapshot of the documents of one layer. A clone shares them.
#[derive(Debug, Clone, Default)]
pub struct Partition {
    pub(super) segments: Vec<SegmentView>,
}

impl Partition {
    /// Returns the number of documents.
    #[must_use]
    pub fn len(&self) -> usize {
        self.segments.iter().map(SegmentView::len).sum()
    }

    /// Returns whether there are no documents.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the approximate memory in bytes.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.segments.iter().map(|view| view.segment.memory()).sum()
    }

    /// Iterates over the keys of all documents.
    pub fn keys(&self) -> impl Iterator<Item = &DocumentKey> {
        self.segments.iter().flat_map(|view| {
            let records = view.segment.records().iter().zip(0_u32..);
            records.filter(|(_, at)| !view.is_deleted(*at)).map(|(record, _)| &record.key)
        })
    }

    pub(crate) fn segments(&self) -> &[SegmentView] {
        &self.segments
    }
}
