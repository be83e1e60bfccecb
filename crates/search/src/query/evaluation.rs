//! Scores of all documents of a segment.

use super::{
    expansion::{Alternative, Concept},
    parse::Query,
};
use crate::index::{Segment, SegmentView};

/// Part of the score that does not depend on how much of the query a document covers.
const UNCOVERED_SHARE: f32 = 0.35;

/// Scores of a segment's documents.
pub(super) struct SegmentScores {
    scores: Vec<f32>,
    covered: Vec<f32>,
    /// Score of the concept at hand by document, and the documents that have one.
    concept: Vec<f32>,
    touched: Vec<u32>,
}

impl SegmentScores {
    /// Scores the documents of a segment. A document that lacks a word of a phrase has no score.
    pub(super) fn evaluate(
        view: &SegmentView,
        query: &Query,
        concepts: &[Concept],
        weights: &[f32; 256],
    ) -> Self {
        let segment = &*view.segment;
        let zeros = || vec![0.0; segment.len()];
        let mut scores =
            Self { scores: zeros(), covered: zeros(), concept: zeros(), touched: Vec::new() };
        for concept in concepts {
            scores.add(segment, concept, weights);
        }
        scores.require_phrases(segment, query);
        scores
    }

    fn add(&mut self, segment: &Segment, concept: &Concept, weights: &[f32; 256]) {
        for alternative in &concept.alternatives {
            match &alternative.terms[..] {
                [term] => {
                    for (document, weight) in segment.postings(term).into_iter().flatten() {
                        self.raise(document, alternative.score * weights[usize::from(weight)]);
                    }
                }
                terms => self.add_all(segment, alternative, terms, weights),
            }
        }
        for document in self.touched.drain(..) {
            let at = document as usize;
            self.scores[at] += self.concept[at];
            // A mention counts as covered in part, a good field in full.
            let share = (self.concept[at] / concept.weight * 2.0).min(1.0);
            self.covered[at] += concept.weight * share;
            self.concept[at] = 0.0;
        }
    }

    /// Adds the documents that have all of several terms, with the lowest of their weights.
    fn add_all(
        &mut self,
        segment: &Segment,
        alternative: &Alternative,
        terms: &[Box<str>],
        weights: &[f32; 256],
    ) {
        let lists: Option<Vec<_>> = terms.iter().map(|term| segment.postings(term)).collect();
        let Some(mut lists) = lists else { return };
        lists.sort_by_key(|list| list.documents());
        let [rarest, others @ ..] = &mut lists[..] else { return };
        let mut heads: Vec<Option<(u32, u8)>> = others.iter_mut().map(Iterator::next).collect();
        for (document, weight) in rarest {
            let mut lowest = weight;
            let mut has_all = true;
            for (list, head) in others.iter_mut().zip(&mut heads) {
                while head.is_some_and(|(other, _)| other < document) {
                    *head = list.next();
                }
                match head {
                    Some((other, weight)) if *other == document => lowest = lowest.min(*weight),
                    _ => has_all = false,
                }
            }
            if has_all {
                self.raise(document, alternative.score * weights[usize::from(lowest)]);
            }
        }
    }

    fn raise(&mut self, document: u32, score: f32) {
        let found = &mut self.concept[document as usize];
        if *found == 0.0 {
            self.touched.push(document);
        }
        *found = found.max(score);
    }

    fn require_phrases(&mut self, segment: &Segment, query: &Query) {
        for term in query.phrases.iter().flat_map(|phrase| &phrase.indexed) {
            let mut has_term = vec![false; self.scores.len()];
            for (document, _) in segment.postings(term).into_iter().flatten() {
                has_term[document as usize] = true;
            }
            for (score, has_term) in self.scores.iter_mut().zip(has_term) {
                *score = if has_term { *score } else { 0.0 };
            }
        }
    }

    /// Iterates over the documents with a score. `total` is the weight of all concepts.
    pub(super) fn iter(&self, total: f32) -> impl Iterator<Item = (u32, f32)> {
        let scores = self.scores.iter().zip(&self.covered).zip(0..);
        scores.filter(|((score, _), _)| **score > 0.0).map(move |((score, covered), document)| {
            let coverage = (covered / total.max(f32::MIN_POSITIVE)).min(1.0);
            (document, score * (UNCOVERED_SHARE + (1.0 - UNCOVERED_SHARE) * coverage))
        })
    }
}
