//! Documents that may be results, the best first.

use std::cmp::Ordering;

use super::document_filter::SearchedSegment;
use crate::analysis::DocumentRecord;

/// Documents that are sorted first. Most searches need no more.
const FIRST_BATCH: usize = 256;
/// Factor by which later batches grow.
const BATCH_GROWTH: usize = 4;

/// Document with its score.
#[derive(Clone, Copy)]
pub(super) struct Candidate<'a> {
    pub(super) segment: &'a SearchedSegment<'a>,
    pub(super) document: u32,
    pub(super) score: f32,
    /// Whether it is listed, or only takes its place in the order.
    pub(super) is_shown: bool,
}

impl<'a> Candidate<'a> {
    pub(super) const fn new(segment: &'a SearchedSegment<'a>, document: u32, score: f32) -> Self {
        Self { segment, document, score, is_shown: false }
    }

    pub(super) fn record(&self) -> &'a DocumentRecord {
        self.segment.view.segment.record(self.document)
    }

    /// Compares two candidates, the better one first. Equal scores are in the order of partitions and ids.
    pub(super) fn compare(&self, other: &Self) -> Ordering {
        other
            .score
            .total_cmp(&self.score)
            .then(self.segment.partition.cmp(&other.segment.partition))
            .then_with(|| self.record().key.cmp(&other.record().key))
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.document == other.document && std::ptr::eq(self.segment, other.segment)
    }
}

/// Collection of the best candidates.
pub(super) struct TopCandidates<'a> {
    /// The best ones so far and others that came after the last selection.
    found: Vec<Candidate<'a>>,
    limit: usize,
    threshold: f32,
    is_truncated: bool,
}

impl<'a> TopCandidates<'a> {
    pub(super) const fn new(limit: usize) -> Self {
        Self { found: Vec::new(), limit, threshold: 0.0, is_truncated: false }
    }

    /// Returns the score below which no candidate is among the best.
    pub(super) const fn threshold(&self) -> f32 {
        self.threshold
    }

    pub(super) fn push(&mut self, candidate: Candidate<'a>) {
        self.found.push(candidate);
        // A selection takes time in proportion to what it reads, and drops half of it.
        if self.found.len() >= self.limit.saturating_mul(2) {
            self.select();
        }
    }

    fn select(&mut self) {
        if self.found.len() > self.limit {
            let last = self.limit.saturating_sub(1);
            let (_, worst, _) = self.found.select_nth_unstable_by(last, Candidate::compare);
            self.threshold = worst.score;
            self.found.truncate(self.limit);
            self.is_truncated = true;
        }
    }

    /// Returns the best candidates in order, and whether these are all.
    pub(super) fn into_sorted(mut self) -> (Vec<Candidate<'a>>, bool) {
        self.select();
        self.found.sort_unstable_by(Candidate::compare);
        (self.found, !self.is_truncated)
    }
}

/// Iterator over candidates in order. They are sorted in batches, so that the first ones cost little where there are many.
pub(super) struct BestFirst<'a, F> {
    /// Candidates that are left; the next ones are at the end.
    left: Vec<Candidate<'a>>,
    /// Number of candidates at the end that are sorted.
    sorted: usize,
    batch: usize,
    compare: F,
}

impl<'a, F: Fn(&Candidate<'a>, &Candidate<'a>) -> Ordering> BestFirst<'a, F> {
    pub(super) const fn new(candidates: Vec<Candidate<'a>>, compare: F) -> Self {
        Self { left: candidates, sorted: 0, batch: FIRST_BATCH, compare }
    }
}

impl<'a, F: Fn(&Candidate<'a>, &Candidate<'a>) -> Ordering> Iterator for BestFirst<'a, F> {
    type Item = Candidate<'a>;

    fn next(&mut self) -> Option<Candidate<'a>> {
        if self.sorted == 0 {
            let Self { left, compare, .. } = self;
            let worst_first = |one: &Candidate<'a>, other: &Candidate<'a>| compare(other, one);
            let start = left.len().saturating_sub(self.batch);
            if start > 0 {
                left.select_nth_unstable_by(start, worst_first);
            }
            left[start..].sort_unstable_by(worst_first);
            self.sorted = left.len() - start;
            self.batch = self.batch.saturating_mul(BATCH_GROWTH);
        }
        self.sorted = self.sorted.saturating_sub(1);
        self.left.pop()
    }
}

/// Moves a candidate to a position, or inserts it there. Its score becomes at least that of the next one.
pub(super) fn promote<'a>(ordered: &mut Vec<Candidate<'a>>, candidate: Candidate<'a>, rank: usize) {
    let known = ordered.iter().position(|found| found.is_same(&candidate));
    let mut candidate = known.map_or(candidate, |at| ordered.remove(at));
    let rank = rank.min(ordered.len());
    if let Some(next) = ordered.get(rank) {
        candidate.score = candidate.score.max(next.score);
    }
    if let Some(before) = rank.checked_sub(1).and_then(|before| ordered.get(before)) {
        candidate.score = candidate.score.min(before.score);
    }
    ordered.insert(rank, candidate);
}
