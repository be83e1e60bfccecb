//! Evaluation of a query over partitions.

use super::{
    candidate::{BestFirst, Candidate, TopCandidates},
    corpus::Corpus,
    document_filter::{SearchedSegment, is_eligible},
    evaluation::Scorer,
    expansion::{self, Expansion},
    fusion, names,
    parse::Query,
    phrases::PhraseCheck,
    ranking::ShortFields,
    snippet::{Explainer, MatchedField},
    suggestions,
    synonyms::SynonymTable,
};
use crate::{
    document::{DocumentKey, HitKind},
    index::Partition,
    model::EmbeddingModel,
};

/// Documents whose order is refined by names and descriptions. The same for every page, so that pages fit together.
const REFINED: usize = 160;
/// Documents that are kept when all are scored for the first time. More than are refined: some may be hidden.
const FIRST_SCORED: usize = 256;
/// Factor by which more documents are kept each further time.
const SCORED_GROWTH: usize = 8;
/// Most results of all pages together.
pub const MAX_RESULTS: usize = 1000;
/// Smallest cosine of documents with a similar meaning.
const MIN_COSINE: f32 = 0.3;

/// Visibility of a document for one caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Visibility {
    /// The caller does not see it.
    Hidden,
    /// It takes its place in the order and is then left out, so that the order of the others is that of all surfaces.
    Omitted,
    /// It is shown.
    Shown,
}

/// Decides the visibility of a partition's document, by the partition's position.
pub type Visible<'a> = dyn Fn(usize, &DocumentKey) -> Visibility + 'a;

/// Result of a search.
#[derive(Debug, Clone)]
pub struct SearchHit {
    /// Position of the partition.
    pub partition: usize,
    /// Key.
    pub key: DocumentKey,
    /// Kind.
    pub kind: HitKind,
    /// Score; comparable within one search.
    pub score: f32,
    /// Matched fields.
    pub matched: Vec<MatchedField>,
    /// Best passage, with matched words between `**`.
    pub snippet: String,
}

/// Page of results.
#[derive(Debug, Clone, Default)]
pub struct SearchResults {
    /// Results, the best first.
    pub hits: Vec<SearchHit>,
    /// Whether more results follow.
    pub has_more: bool,
    /// Other queries and ids that may be meant.
    pub did_you_mean: Vec<String>,
    /// Whether the query has results that were left out.
    pub has_omitted: bool,
}

/// Search over the partitions that a caller sees, in the order of resolution.
#[derive(Debug, Clone, Copy)]
pub struct Searcher<'a> {
    partitions: &'a [&'a Partition],
    synonyms: &'a SynonymTable,
    /// Partition whose documents are listed last where a query has no words.
    last: Option<usize>,
    model: Option<&'a EmbeddingModel>,
}

impl<'a> Searcher<'a> {
    /// Creates a search over partitions.
    #[must_use]
    pub const fn new(partitions: &'a [&'a Partition], synonyms: &'a SynonymTable) -> Self {
        Self { partitions, synonyms, last: None, model: None }
    }

    /// Lists the documents of a partition after all others where a query has no words.
    #[must_use]
    pub const fn with_last(self, last: Option<usize>) -> Self {
        Self { last, ..self }
    }

    /// Also ranks by meaning. The model must be that of the documents.
    #[must_use]
    pub const fn with_model(self, model: Option<&'a EmbeddingModel>) -> Self {
        Self { model, ..self }
    }

    /// Returns a page of results.
    #[must_use]
    pub fn search(
        &self,
        query: &Query,
        offset: usize,
        limit: usize,
        visible: &Visible<'_>,
    ) -> SearchResults {
        let corpus = Corpus::new(self.partitions);
        let expansion = expansion::expand(query, &corpus, self.synonyms);
        let segments = SearchedSegment::all(&corpus, query);
        let search = RunningSearch {
            query,
            segments: &segments,
            expansion: &expansion,
            visible,
            last: self.last,
            model: self.model,
        };
        let end = offset.saturating_add(limit).min(MAX_RESULTS);
        let mut ordered = search.order(end.saturating_add(1));
        let found = ordered.len();
        ordered.retain(|candidate| candidate.is_shown);
        let has_omitted = ordered.len() < found;
        // No cursor reaches beyond the last result.
        let has_more = ordered.len() > end && end < MAX_RESULTS;
        let is_missed_id = || {
            let is_named = |found: &Candidate<'_>| *found.record().id_key == *query.name_key;
            query.is_id_like && !ordered.iter().any(is_named)
        };
        let did_you_mean =
            if ordered.is_empty() || !expansion.corrections.is_empty() || is_missed_id() {
                suggestions::suggest(query, &corpus, &expansion.corrections, visible)
            } else {
                vec![]
            };
        let mut explainer = Explainer::new(&expansion.concepts);
        let page = ordered.iter().take(end).skip(offset);
        let hits = page.map(|candidate| {
            let record = candidate.record();
            let explained = explainer.explain(record);
            SearchHit {
                partition: candidate.segment.partition,
                key: record.key.clone(),
                kind: record.kind,
                score: candidate.score,
                matched: explained.matched,
                snippet: explained.snippet,
            }
        });
        SearchResults { hits: hits.collect(), has_more, did_you_mean, has_omitted }
    }
}

/// One search with everything it reads.
pub(super) struct RunningSearch<'a> {
    pub(super) query: &'a Query,
    pub(super) segments: &'a [SearchedSegment<'a>],
    pub(super) expansion: &'a Expansion,
    visible: &'a Visible<'a>,
    last: Option<usize>,
    model: Option<&'a EmbeddingModel>,
}

impl<'a> RunningSearch<'a> {
    /// Returns results in order, until `count` of them are shown. Results before these may be left out.
    fn order(&self, count: usize) -> Vec<Candidate<'a>> {
        if self.query.is_listing() {
            return self.collect(self.all(), count, 0);
        }
        let mut ordered = self.collect(self.scored(), count, REFINED);
        self.refine(&mut ordered);
        let refined = self.fuse_by_meaning(&mut ordered);
        names::promote_names(self, &mut ordered, refined);
        ordered
    }

    /// Takes candidates until `count` of them are shown, and at least `refined`. Documents that are left out count
    /// among the latter only, so that they neither displace shown ones nor change their order.
    fn collect(
        &self,
        candidates: impl Iterator<Item = Candidate<'a>>,
        count: usize,
        refined: usize,
    ) -> Vec<Candidate<'a>> {
        let mut phrases = PhraseCheck::new(self.query);
        let mut ordered = Vec::new();
        let mut shown = 0;
        for mut candidate in candidates {
            if (shown >= count && ordered.len() >= refined) || phrases.is_exhausted() {
                break;
            }
            if !self.set_visibility(&mut candidate) || !phrases.accepts(&candidate) {
                continue;
            }
            shown += usize::from(candidate.is_shown);
            ordered.push(candidate);
        }
        ordered
    }

    /// Returns the documents that fit the filters, sorted by id.
    fn all(&self) -> impl Iterator<Item = Candidate<'a>> {
        let mut found = Vec::new();
        for segment in self.segments {
            let documents = 0..u32::try_from(segment.view.segment.len()).unwrap_or(u32::MAX);
            let candidates = documents.map(|document| Candidate::new(segment, document, 0.0));
            found.extend(candidates.filter(|candidate| is_eligible(self.query, candidate)));
        }
        let last = self.last;
        let is_last = move |candidate: &Candidate<'a>| Some(candidate.segment.partition) == last;
        BestFirst::new(found, move |one: &Candidate<'a>, other: &Candidate<'a>| {
            let ids = || one.record().key.cmp(&other.record().key);
            is_last(one)
                .cmp(&is_last(other))
                .then_with(ids)
                .then(one.segment.partition.cmp(&other.segment.partition))
        })
    }

    /// Returns the documents with a score, the best first. Most searches need the first few only; the documents are scored
    /// again for more.
    fn scored(&self) -> impl Iterator<Item = Candidate<'a>> {
        let mut passed = 0;
        let mut limit = FIRST_SCORED;
        let mut is_complete = false;
        let batches = std::iter::from_fn(move || {
            if is_complete {
                return None;
            }
            let (found, has_all) = self.best(limit);
            is_complete = has_all;
            let next = found.into_iter().skip(std::mem::replace(&mut passed, limit));
            limit = limit.saturating_mul(SCORED_GROWTH);
            Some(next)
        });
        batches.flatten()
    }

    /// Returns the best documents in order, and whether these are all.
    fn best(&self, limit: usize) -> (Vec<Candidate<'a>>, bool) {
        let mut scorer = Scorer::new(&self.expansion.concepts);
        let mut top = TopCandidates::new(limit);
        for segment in self.segments {
            scorer.for_each(&segment.view.segment, |document, score| {
                if score >= top.threshold() {
                    let candidate = Candidate::new(segment, document, score);
                    if is_eligible(self.query, &candidate) {
                        top.push(candidate);
                    }
                }
            });
        }
        top.into_sorted()
    }

    /// Refines the order of the best documents.
    fn refine(&self, ordered: &mut [Candidate<'a>]) {
        let short_fields = ShortFields::new(&self.expansion.concepts);
        let refined = ordered.len().min(REFINED);
        let (best, others) = ordered.split_at_mut(refined);
        for candidate in &mut *best {
            candidate.score *= short_fields.factor(candidate.record());
        }
        best.sort_by(Candidate::compare);
        limit_scores(best, others);
    }

    /// Fuses the best documents with those whose meaning is nearest, and returns how many these are together. Both are the
    /// same for every page; the other documents follow.
    fn fuse_by_meaning(&self, ordered: &mut Vec<Candidate<'a>>) -> usize {
        let best = ordered.len().min(REFINED);
        // A phrase asks for words, not for meaning.
        let model = self.model.filter(|_| self.query.phrases.is_empty());
        let Some(wanted) = model.and_then(|model| model.embed(&self.query.name_key)) else {
            return best;
        };
        let mut near: Vec<Candidate<'a>> = Vec::new();
        for segment in self.segments {
            for (record, document) in segment.view.segment.records().iter().zip(0..) {
                let score = record.embedding.as_ref().map_or(0.0, |found| found.cosine(&wanted));
                if score >= MIN_COSINE {
                    near.push(Candidate::new(segment, document, score));
                }
            }
        }
        let near = BestFirst::new(near, Candidate::compare);
        let mut phrases = PhraseCheck::new(self.query);
        let near = near.filter_map(|found| self.listed(found, &mut phrases));
        let near: Vec<_> = near.take(REFINED).collect();
        let mut others = ordered.split_off(best);
        others.retain(|other| !near.iter().any(|found| found.is_same(other)));
        let fused = fusion::fuse(ordered, &near, Candidate::is_same);
        *ordered =
            fused.into_iter().map(|(candidate, score)| Candidate { score, ..candidate }).collect();
        limit_scores(ordered, &mut others);
        let fused = ordered.len();
        ordered.extend(others);
        fused
    }

    /// Returns a document if it exists, fits the query apart from its words, and the caller sees it.
    pub(super) fn listed(
        &self,
        mut candidate: Candidate<'a>,
        phrases: &mut PhraseCheck<'_>,
    ) -> Option<Candidate<'a>> {
        let is_listed = is_eligible(self.query, &candidate)
            && self.set_visibility(&mut candidate)
            && phrases.accepts(&candidate);
        is_listed.then_some(candidate)
    }

    /// Sets whether a document is shown. Returns whether the caller sees it.
    fn set_visibility(&self, candidate: &mut Candidate<'a>) -> bool {
        let visibility = (self.visible)(candidate.segment.partition, &candidate.record().key);
        candidate.is_shown = visibility == Visibility::Shown;
        visibility != Visibility::Hidden
    }
}

/// Limits the scores of documents to the lowest of those before them.
fn limit_scores(best: &[Candidate<'_>], others: &mut [Candidate<'_>]) {
    let lowest = best.last().map_or(0.0, |candidate| candidate.score);
    for candidate in others {
        candidate.score = candidate.score.min(lowest);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{Analyzer, PartitionWriter, SearchDocument, model::tests::tiny_model};

    fn model() -> Arc<EmbeddingModel> {
        Arc::new(tiny_model(&[
            ("feline", [1.0, 0.0, 0.0]),
            ("kitten", [1.0, 0.1, 0.0]),
            ("engine", [0.0, 0.0, 1.0]),
        ]))
    }

    fn partition(model: &Arc<EmbeddingModel>, documents: &[(String, String)]) -> Partition {
        let mut analyzer = Analyzer::with_model(Some(Arc::clone(model)));
        let mut writer = PartitionWriter::default();
        let analyzed = documents.iter().map(|(id, description)| {
            let mut document = SearchDocument::new(HitKind::Skill, id.as_str().into());
            document.description.clone_from(description);
            analyzer.analyze(&document)
        });
        writer.add(analyzed.collect());
        writer.snapshot()
    }

    #[test]
    fn a_model_finds_what_no_word_leads_to() {
        let model = model();
        let documents = [("pets", "Feline care"), ("cars", "Engine repair")];
        let documents = documents.map(|(id, text)| (id.to_owned(), text.to_owned()));
        let (partition, synonyms) = (partition(&model, &documents), SynonymTable::default());
        let partitions = [&partition];
        let search = |model: Option<&EmbeddingModel>, query: &str| -> Vec<String> {
            let searcher = Searcher::new(&partitions, &synonyms).with_model(model);
            let found = searcher.search(&Query::parse(query), 0, 9, &|_, _| Visibility::Shown);
            found.hits.iter().map(|hit| hit.key.id.to_string()).collect()
        };
        assert!(search(None, "kitten").is_empty());
        assert_eq!(search(Some(&model), "kitten"), ["pets"]);
        assert_eq!(search(Some(&model), "repair a kitten"), ["cars", "pets"]);
        assert!(search(Some(&model), "kitten -care").is_empty());
        assert!(search(Some(&model), "kitten -\"feline care\"").is_empty());
        assert_eq!(search(Some(&model), "kitten -\"care feline\""), ["pets"]);
        assert!(search(Some(&model), "\"kitten\"").is_empty());
    }

    #[test]
    fn pages_fit_together_with_a_model() {
        let model = model();
        // Words and meaning disagree about the order, and both have more documents than are refined.
        let document = |number: usize| {
            let words = "kitten toy ".repeat(number % 5 + 1);
            let meaning = if number.is_multiple_of(3) { "feline" } else { "engine" };
            let filler = "filler ".repeat(number % 37);
            (format!("d{number}"), format!("{words}{filler}{meaning}"))
        };
        let documents: Vec<_> = (0..700).map(document).collect();
        let (partition, synonyms) = (partition(&model, &documents), SynonymTable::default());
        let partitions = [&partition];
        let searcher = Searcher::new(&partitions, &synonyms).with_model(Some(&model));
        let query = Query::parse("kitten toy");
        let page = |offset: usize, limit: usize| {
            let found = searcher.search(&query, offset, limit, &|_, _| Visibility::Shown);
            let hits = found.hits.into_iter().map(|hit| (hit.key.id.to_string(), hit.score));
            hits.collect::<Vec<_>>()
        };
        let all = page(0, 700);
        assert_eq!(all.len(), 700);
        assert!(all.is_sorted_by(|(_, one), (_, other)| one >= other));
        let paged: Vec<_> = (0..10).flat_map(|number| page(number * 70, 70)).collect();
        let ids = |hits: &[(String, f32)]| hits.iter().map(|hit| hit.0.clone()).collect::<Vec<_>>();
        assert_eq!(ids(&paged), ids(&all));
    }
}
