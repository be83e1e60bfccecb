//! Documents that a query admits apart from its words: its filters and exclusions.

use super::{
    candidate::Candidate,
    corpus::Corpus,
    parse::{Query, QueryFilters},
};
use crate::{
    analysis::DocumentRecord,
    index::{DocumentSet, Postings, Segment, SegmentView},
};

/// Segment with the documents that a query excludes. They are collected once: a lookup by document in a posting list costs
/// as much as the list.
pub(super) struct SearchedSegment<'a> {
    /// Position of the partition.
    pub(super) partition: usize,
    pub(super) view: &'a SegmentView,
    excluded: DocumentSet,
    /// Documents with all words of the phrases, if there are any.
    required: Option<DocumentSet>,
    /// Documents with all words of an excluded phrase, but perhaps not in order.
    pub(super) phrase_suspects: DocumentSet,
}

impl<'a> SearchedSegment<'a> {
    /// Collects the excluded documents of all segments.
    pub(super) fn all(corpus: &Corpus<'a>, query: &Query) -> Vec<Self> {
        let segments = corpus.segments();
        let searched = segments.map(|(partition, view)| {
            let mut excluded = DocumentSet::default();
            for terms in &query.excluded {
                insert_with_all(&view.segment, terms, &mut excluded);
            }
            let phrase_terms = || query.phrases.iter().flat_map(|phrase| &phrase.indexed);
            let required = phrase_terms().next().map(|_| {
                let mut required = DocumentSet::default();
                insert_with_all(&view.segment, phrase_terms(), &mut required);
                required
            });
            let mut phrase_suspects = DocumentSet::default();
            for phrase in &query.excluded_phrases {
                insert_with_all(&view.segment, &phrase.indexed, &mut phrase_suspects);
            }
            Self { partition, view, excluded, required, phrase_suspects }
        });
        searched.collect()
    }
}

/// Adds the documents that have all terms; without terms, all documents.
fn insert_with_all<'t>(
    segment: &Segment,
    terms: impl IntoIterator<Item = &'t String>,
    found: &mut DocumentSet,
) {
    let lists: Option<Vec<_>> = terms.into_iter().map(|term| segment.postings(term)).collect();
    match lists {
        // A term that no document has.
        None => {}
        Some(lists) if lists.is_empty() => {
            (0..u32::try_from(segment.len()).unwrap_or(u32::MAX))
                .for_each(|document| found.insert(document));
        }
        Some(lists) => intersect(lists, |document, _| found.insert(document)),
    }
}

/// Calls `sink` with each document that all lists have, in order, and the lowest of its weights.
pub(super) fn intersect(mut lists: Vec<Postings<'_>>, mut sink: impl FnMut(u32, u8)) {
    lists.sort_by_key(Postings::documents);
    let [rarest, others @ ..] = &lists[..] else { return };
    let mut others: Vec<_> = others.iter().map(|list| list.reader()).collect();
    rarest.for_each(|document, weight| {
        let weights = others.iter_mut().map(|list| list.weight(document));
        let lowest = weights.fold(weight, u8::min);
        if lowest > 0 {
            sink(document, lowest);
        }
    });
}

/// Returns whether a document exists and fits the filters of a query, and the query does not exclude it.
pub(super) fn is_eligible(query: &Query, candidate: &Candidate<'_>) -> bool {
    let segment = candidate.segment;
    let document = candidate.document;
    if segment.view.is_deleted(document)
        || segment.excluded.contains(document)
        || segment.required.as_ref().is_some_and(|required| !required.contains(document))
    {
        return false;
    }
    let (wanted, excluded) = (query.filters(), query.excluded_filters());
    let restricts = |filters: &QueryFilters| {
        !filters.tags.is_empty() || !filters.tools.is_empty() || !filters.kinds.is_empty()
    };
    if restricts(wanted) && !fits_all(wanted, candidate.record()) {
        return false;
    }
    !restricts(excluded) || !fits_any(excluded, candidate.record())
}

/// Returns whether a document fits every field of filters that has values.
fn fits_all(filters: &QueryFilters, record: &DocumentRecord) -> bool {
    let QueryFilters { tags, tools, kinds, .. } = filters;
    (kinds.is_empty() || kinds.contains(&record.kind))
        && (tags.is_empty() || has_tag(tags, record))
        && (tools.is_empty() || has_tool(tools, record))
}

/// Returns whether a document fits a value of filters.
fn fits_any(filters: &QueryFilters, record: &DocumentRecord) -> bool {
    let QueryFilters { tags, tools, kinds, .. } = filters;
    kinds.contains(&record.kind) || has_tag(tags, record) || has_tool(tools, record)
}

fn has_tag(wanted: &[String], record: &DocumentRecord) -> bool {
    wanted.iter().any(|wanted| record.tags.iter().any(|tag| **tag == **wanted))
}

/// Returns whether a document declares a tool. It may do so with a pattern: `Bash(git:*)`.
fn has_tool(wanted: &[String], record: &DocumentRecord) -> bool {
    let base = |tool: &str| tool.split('(').next().unwrap_or_default().trim().to_owned();
    let has_tool = |wanted: &String| {
        record.tools.iter().any(|tool| **tool == **wanted || base(tool) == **wanted)
    };
    wanted.iter().any(has_tool)
}
