//! Counted work of a search, and its limits.
//!
//! The time of a search must not depend on how strange its query is. Each kind of work that a query could multiply has a
//! limit here; tests count steps, because clocks differ.

use std::cell::Cell;

/// Concepts of a query that are scored however many documents have them.
pub(super) const MIN_CONCEPTS: usize = 6;

/// Limits of the work of a search. Work beyond a limit is left out, and the search answers with what it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SearchLimits {
    /// Postings that the words of a query may take to score in one pass, beside those of its best words. The rarest words
    /// come first: they tell most and cost least.
    pub(super) postings: usize,
    /// Postings that are read to count the documents of words. One more word may be counted.
    pub(super) counted: usize,
    /// Edits of misspelled words that are looked up.
    pub(super) edits: usize,
    /// Bytes of texts that are searched for phrases, for the order and for names each. One more text may be read.
    pub(super) phrase_bytes: usize,
    /// Ids that are compared letter by letter.
    pub(super) compared_ids: usize,
}

impl Default for SearchLimits {
    fn default() -> Self {
        Self {
            postings: 3_000_000,
            counted: 3_000_000,
            edits: 6_000,
            phrase_bytes: 1024 * 1024,
            compared_ids: 4096,
        }
    }
}

/// Steps of a search, by kind of work.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SearchWork {
    /// Passes over the posting lists of the query.
    pub passes: usize,
    /// Postings that were scored, in all passes.
    pub postings: usize,
    /// Postings that were read to count the documents of words.
    pub counted: usize,
    /// Edits of misspelled words that were looked up.
    pub edits: usize,
    /// Bytes of texts that were searched for phrases.
    pub phrase_bytes: usize,
    /// Ids that were compared letter by letter.
    pub compared_ids: usize,
    /// Documents that were listed, or looked at to be listed.
    pub documents: usize,
}

/// Counter of the steps of a search, with their limits.
#[derive(Debug, Default)]
pub(super) struct WorkCounter {
    work: Cell<SearchWork>,
    pub(super) limits: SearchLimits,
}

impl WorkCounter {
    pub(super) fn new(limits: SearchLimits) -> Self {
        Self { work: Cell::default(), limits }
    }

    /// Changes the counts.
    pub(super) fn count(&self, change: impl FnOnce(&mut SearchWork)) {
        let mut work = self.work.get();
        change(&mut work);
        self.work.set(work);
    }

    /// Returns the counts.
    pub(super) const fn get(&self) -> SearchWork {
        self.work.get()
    }
}
