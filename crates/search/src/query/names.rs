//! Documents whose names are the query, and those whose ids begin with it, moved up.

use super::{
    candidate::{Candidate, promote},
    document_filter::SearchedSegment,
    searcher::RunningSearch,
};

/// Most documents whose names are the query that are moved up. Any number may share a title.
const MAX_EXACT: usize = 64;
/// Most documents whose ids begin with the query that are moved up.
const MAX_PREFIXED: usize = 8;
/// Position up to which the only id with a beginning is listed.
const PREFIX_RANK: usize = 3;

/// Documents with a name that the query is or begins.
#[derive(Default)]
struct Named<'a> {
    /// Documents with an exact name, the best kind of name first.
    exact: Vec<Candidate<'a>>,
    /// Documents whose id begins with the query: as it is written, or else with other separators.
    prefixed: Vec<Candidate<'a>>,
}

/// Moves up the documents whose names are the query, and those whose ids begin with it. `refined` is the number of
/// documents at the start of the order that are the same for every page.
pub(super) fn promote_names<'a>(
    search: &RunningSearch<'a>,
    ordered: &mut Vec<Candidate<'a>>,
    refined: usize,
) {
    let wanted = search.query.name_key.as_str();
    if wanted.is_empty() {
        return;
    }
    let Named { exact, prefixed } = find(search, wanted);
    let may_be_prefix = search.expansion.last_is_incomplete || search.query.is_id_like;
    if may_be_prefix && prefixed.len() <= MAX_PREFIXED {
        let best = &ordered[..refined.min(ordered.len())];
        let with_score = |candidate: &Candidate<'a>| {
            best.iter().find(|found| found.is_same(candidate)).copied().unwrap_or(*candidate)
        };
        let mut prefixed: Vec<_> = prefixed.iter().map(with_score).collect();
        prefixed.sort_by(Candidate::compare);
        for candidate in prefixed.iter().rev() {
            promote(ordered, *candidate, 0);
        }
    }
    for candidate in exact.iter().rev() {
        promote(ordered, *candidate, 0);
    }
    if let [only] = &prefixed[..] {
        let rank = ordered.iter().position(|candidate| candidate.is_same(only));
        if rank.is_none_or(|rank| rank >= PREFIX_RANK) {
            promote(ordered, *only, PREFIX_RANK - 1);
        }
    }
}

fn find<'a>(search: &RunningSearch<'a>, wanted: &str) -> Named<'a> {
    let raw = search.query.raw.as_str();
    // Separators alone are no part of the form in which names are compared.
    let has_words = wanted.contains(|c: char| c.is_alphanumeric() || matches!(c, '+' | '#'));
    let mut phrases = search.phrase_check();
    let mut examined = 0;
    let mut listed = |segment: &'a SearchedSegment<'a>, document: u32| {
        examined += 1;
        search.listed(Candidate::new(segment, document, 0.0), &mut phrases)
    };
    let mut exact = Vec::new();
    for segment in search.segments {
        // The best ones of a segment come first.
        let named = segment.view.segment.named(wanted);
        let found = named.filter_map(|(kind, document)| Some((kind, listed(segment, document)?)));
        exact.extend(found.take(MAX_EXACT));
    }
    let is_other = |candidate: &Candidate<'_>| *candidate.record().key.id != *raw;
    exact.sort_by(|(one, left), (other, right)| {
        is_other(left).cmp(&is_other(right)).then(one.cmp(other)).then(left.compare(right))
    });
    let mut named = Named::default();
    for (_, candidate) in exact {
        if named.exact.len() == MAX_EXACT {
            break;
        }
        if !named.exact.iter().any(|known| known.is_same(&candidate)) {
            named.exact.push(candidate);
        }
    }
    let is_exact = |found: &Candidate<'_>| named.exact.iter().any(|known| known.is_same(found));
    let mut prefixed = Vec::new();
    for segment in search.segments {
        let found = segment.view.segment.with_id_prefix(raw);
        let found = found.filter_map(|document| listed(segment, document));
        prefixed.extend(found.filter(|found| !is_exact(found)).take(MAX_PREFIXED + 1));
    }
    if prefixed.is_empty() && has_words {
        for segment in search.segments {
            let found = segment.view.segment.with_folded_id_prefix(wanted);
            let found = found.filter_map(|document| listed(segment, document));
            prefixed.extend(found.filter(|found| !is_exact(found)).take(MAX_PREFIXED + 1));
        }
    }
    named.prefixed = prefixed;
    search.work.count(|work| {
        work.documents += examined;
        work.phrase_bytes += phrases.bytes();
    });
    named
}
