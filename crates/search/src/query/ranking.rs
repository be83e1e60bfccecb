//! The order of the best documents: how the query meets their names and descriptions.

use std::collections::HashMap;

use super::expansion::Concept;
use crate::analysis::{DocumentRecord, TermHash, term_hash};

/// Influence of a name that the query spells out.
const NAME_INFLUENCE: f32 = 0.5;
/// Influence of name, title, tags and description that have all of the query.
const SHORT_INFLUENCE: f32 = 0.5;
/// Influence of neighbouring words of the query that are neighbours there too.
const PROXIMITY_INFLUENCE: f32 = 0.35;
/// Distance of words that count as neighbours.
const NEIGHBOUR_DISTANCE: usize = 3;

/// Comparison of a query with the short fields of documents.
#[derive(Debug)]
pub(super) struct ShortFields<'a> {
    concepts: &'a [Concept],
    /// Concepts by term, with how well the term stands for them.
    by_hash: HashMap<TermHash, Vec<(usize, f32)>>,
    total: f32,
}

impl<'a> ShortFields<'a> {
    pub(super) fn new(concepts: &'a [Concept]) -> Self {
        let mut by_hash: HashMap<TermHash, Vec<(usize, f32)>> = HashMap::new();
        for (at, concept) in concepts.iter().enumerate() {
            for alternative in &concept.alternatives {
                if let [term] = &alternative.terms[..] {
                    let strength = (alternative.score / concept.weight).min(1.0);
                    by_hash.entry(term_hash(term)).or_default().push((at, strength));
                }
            }
        }
        let total = concepts.iter().map(|concept| concept.weight).sum();
        Self { concepts, by_hash, total }
    }

    /// Returns the factor by which the short fields of a document raise its score.
    pub(super) fn factor(&self, record: &DocumentRecord) -> f32 {
        if self.concepts.is_empty() {
            return 1.0;
        }
        let name_terms = usize::from(record.name_terms);
        let mut in_name = vec![0.0_f32; self.concepts.len()];
        let mut in_short = vec![0.0_f32; self.concepts.len()];
        let mut last_seen = vec![usize::MAX; self.concepts.len()];
        let mut is_near = vec![false; self.concepts.len()];
        let mut named_terms = 0.0_f32;
        for (at, hash) in record.short.iter().enumerate() {
            let Some(found) = self.by_hash.get(hash) else { continue };
            let mut best = 0.0_f32;
            for &(concept, strength) in found {
                best = best.max(strength);
                in_short[concept] = in_short[concept].max(strength);
                if at < name_terms {
                    in_name[concept] = in_name[concept].max(strength);
                }
                let previous = concept.checked_sub(1).filter(|before| self.are_adjacent(*before));
                if let Some(before) = previous
                    && last_seen[before] != usize::MAX
                    && at - last_seen[before] <= NEIGHBOUR_DISTANCE
                {
                    is_near[concept] = true;
                }
            }
            for &(concept, _) in found {
                last_seen[concept] = at;
            }
            if at < name_terms {
                named_terms += best;
            }
        }
        let weighted = |values: &[f32]| -> f32 {
            let values = values.iter().zip(self.concepts);
            values.map(|(value, concept)| value * concept.weight).sum::<f32>() / self.total
        };
        let recall = weighted(&in_name);
        let precision = named_terms / (name_terms.max(1) as f32);
        let name = if recall > 0.0 { 2.0 * recall * precision / (recall + precision) } else { 0.0 };
        let pairs = (1..self.concepts.len()).filter(|at| self.are_adjacent(at - 1)).count();
        let near = is_near.iter().filter(|near| **near).count();
        let proximity = near as f32 / (pairs.max(1) as f32);
        1.0 + NAME_INFLUENCE * name
            + SHORT_INFLUENCE * weighted(&in_short)
            + PROXIMITY_INFLUENCE * proximity
    }

    /// Returns whether a concept and the next one are neighbours in the query.
    fn are_adjacent(&self, first: usize) -> bool {
        self.concepts[first].position + 1 == self.concepts[first + 1].position
    }
}
