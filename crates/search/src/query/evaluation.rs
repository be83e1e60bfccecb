//! Scores of the documents of a segment.
//!
//! All documents with a word of the query are scored, a window of them at a time, so that the sums stay in the
//! processor's cache and nothing is allocated by the size of the segment. The caller keeps the best ones.

use super::{
    document_filter::intersect,
    expansion::{Alternative, Concept},
};
use crate::{
    analysis::weights::weight_table,
    index::{PostingsForm, Segment, SparsePostings},
};

/// Part of the score that does not depend on how much of the query a document covers.
const UNCOVERED_SHARE: f32 = 0.35;
/// Documents of a window.
const WINDOW: usize = 2048;

/// Evaluation of the concepts of a query, with its buffers.
pub(super) struct Scorer<'a> {
    concepts: &'a [Concept],
    /// Weight of all concepts.
    total: f32,
    weights: [f32; 256],
    scores: Vec<f32>,
    covered: Vec<f32>,
    /// Scores of the concept at hand by document. They are 0 between concepts.
    concept: Vec<f32>,
    /// Documents of the window with a score of the concept at hand.
    touched: Vec<usize>,
    /// Postings that were read.
    postings: usize,
}

/// Documents of a segment that an alternative stands for.
struct AlternativeList<'a> {
    score: f32,
    /// Postings that are read for them.
    postings: usize,
    documents: Documents<'a>,
}

enum Documents<'a> {
    /// Weights of all documents.
    Dense(&'a [u8]),
    /// Postings that are left.
    Sparse(SparsePostings<'a>),
    /// Documents that have all of several terms, in order.
    Intersection(std::iter::Peekable<std::vec::IntoIter<(u32, u8)>>),
}

impl<'a> AlternativeList<'a> {
    /// Returns the documents of an alternative, if there are any. Of several terms the lowest weight counts.
    fn new(segment: &'a Segment, alternative: &Alternative) -> Option<Self> {
        let lists = alternative.terms.iter().map(|term| segment.postings(term));
        let lists: Vec<_> = lists.collect::<Option<_>>()?;
        let postings = lists.iter().map(|list| match list.form() {
            PostingsForm::Dense(weights) => weights.len(),
            PostingsForm::Sparse(_) => list.documents() as usize,
        });
        let postings = postings.sum();
        let documents = match &lists[..] {
            [] => return None,
            [list] => match list.form() {
                PostingsForm::Dense(weights) => Documents::Dense(weights),
                PostingsForm::Sparse(list) => Documents::Sparse(list),
            },
            _ => {
                let mut found = Vec::new();
                intersect(lists, |document, weight| found.push((document, weight)));
                Documents::Intersection(found.into_iter().peekable())
            }
        };
        Some(Self { score: alternative.score, postings, documents })
    }

    /// Returns the next document before `end`, unless the list is dense.
    fn next_before(&mut self, end: u32) -> Option<(u32, u8)> {
        match &mut self.documents {
            Documents::Dense(_) => None,
            Documents::Sparse(list) => list.next_before(end),
            Documents::Intersection(list) => list.next_if(|(document, _)| *document < end),
        }
    }
}

impl<'a> Scorer<'a> {
    pub(super) fn new(concepts: &'a [Concept]) -> Self {
        let total = concepts.iter().map(|concept| concept.weight).sum::<f32>();
        let zeros = || vec![0.0; WINDOW];
        Self {
            concepts,
            total: total.max(f32::MIN_POSITIVE),
            weights: weight_table(),
            scores: zeros(),
            covered: zeros(),
            concept: zeros(),
            touched: Vec::new(),
            postings: 0,
        }
    }

    /// Returns the number of postings that were read.
    pub(super) const fn postings(&self) -> usize {
        self.postings
    }

    /// Calls `sink` with each document of a segment that has a score, in order.
    pub(super) fn for_each(&mut self, segment: &Segment, mut sink: impl FnMut(u32, f32)) {
        let lists = |concept: &Concept| -> (f32, Vec<AlternativeList<'_>>) {
            let alternatives = concept.alternatives.iter();
            let lists = alternatives.filter_map(|found| AlternativeList::new(segment, found));
            (concept.weight, lists.collect())
        };
        let mut concepts: Vec<_> = self.concepts.iter().map(lists).collect();
        concepts.retain(|(_, lists)| !lists.is_empty());
        if concepts.is_empty() {
            return;
        }
        let lists = concepts.iter().flat_map(|(_, lists)| lists);
        self.postings += lists.map(|list| list.postings).sum::<usize>();
        for start in (0..segment.len()).step_by(WINDOW) {
            let length = WINDOW.min(segment.len() - start);
            self.scores[..length].fill(0.0);
            self.covered[..length].fill(0.0);
            for (weight, lists) in &mut concepts {
                self.add(*weight, lists, start, length);
            }
            let documents = u32::try_from(start).unwrap_or(u32::MAX)..;
            let sums = self.scores[..length].iter().zip(&self.covered).zip(documents);
            for ((&score, &covered), document) in sums {
                if score > 0.0 {
                    let coverage = (covered / self.total).min(1.0);
                    sink(document, score * (UNCOVERED_SHARE + (1.0 - UNCOVERED_SHARE) * coverage));
                }
            }
        }
    }

    /// Adds the scores of a concept in a window.
    fn add(&mut self, weight: f32, lists: &mut [AlternativeList<'_>], start: usize, length: usize) {
        let end = u32::try_from(start + length).unwrap_or(u32::MAX);
        let mut is_dense = false;
        for list in lists {
            if let Documents::Dense(weights) = list.documents {
                is_dense = true;
                let weights = weights[start..start + length].iter();
                for (found, weight) in self.concept.iter_mut().zip(weights) {
                    *found = found.max(list.score * self.weights[usize::from(*weight)]);
                }
            }
            while let Some((document, weight)) = list.next_before(end) {
                let at = document as usize - start;
                let found = &mut self.concept[at];
                if *found == 0.0 {
                    self.touched.push(at);
                }
                *found = found.max(list.score * self.weights[usize::from(weight)]);
            }
        }
        let add = |found: f32, score: &mut f32, covered: &mut f32| {
            *score += found;
            // A mention counts as covered in part, a good field in full.
            *covered += weight * (found / weight * 2.0).min(1.0);
        };
        if is_dense {
            let sums = self.scores.iter_mut().zip(&mut self.covered).zip(&mut self.concept);
            for ((score, covered), found) in sums.take(length) {
                add(*found, score, covered);
                *found = 0.0;
            }
            self.touched.clear();
        } else {
            for at in self.touched.drain(..) {
                add(self.concept[at], &mut self.scores[at], &mut self.covered[at]);
                self.concept[at] = 0.0;
            }
        }
    }
}
