//! Evaluation of a query over partitions.

use super::{
    corpus::Corpus,
    evaluation::SegmentScores,
    expansion::{self, Concept, Expansion},
    fusion,
    parse::{Query, QueryFilters},
    ranking::ShortFields,
    snippet::{Explainer, MatchedField},
    suggestions,
    synonyms::SynonymTable,
};
use crate::{
    analysis::{DocumentRecord, term_hash, weights::weight_table},
    document::{DocumentKey, HitKind, SearchField},
    index::{NameKind, Partition, SegmentView},
    model::EmbeddingModel,
    text::{TokenKind, Tokenizer},
};

/// Documents whose order is refined by names and descriptions. The same for every page, so that pages fit together.
const REFINED: usize = 160;
/// Most results of all pages together.
pub const MAX_RESULTS: usize = 1000;
/// Most documents whose text is searched for a phrase.
const MAX_PHRASE_CHECKS: usize = 2000;
/// Most documents whose ids begin with the query that are moved up.
const MAX_PREFIXED: usize = 8;
/// Smallest cosine of documents with a similar meaning.
const MIN_COSINE: f32 = 0.3;
/// Position up to which the only id with a beginning is listed.
const PREFIX_RANK: usize = 3;

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

/// Document with its score.
#[derive(Clone, Copy)]
struct Candidate<'a> {
    partition: usize,
    view: &'a SegmentView,
    document: u32,
    score: f32,
}

impl<'a> Candidate<'a> {
    fn record(&self) -> &'a DocumentRecord {
        self.view.segment.record(self.document)
    }

    /// Compares two candidates, the better one first. Equal scores are in the order of partitions and ids.
    fn compare(&self, other: &Self) -> std::cmp::Ordering {
        other
            .score
            .total_cmp(&self.score)
            .then(self.partition.cmp(&other.partition))
            .then_with(|| self.record().key.cmp(&other.record().key))
    }

    fn is_same(&self, other: &Self) -> bool {
        self.document == other.document && std::ptr::eq(self.view, other.view)
    }
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
        let (last, model) = (self.last, self.model);
        let search =
            RunningSearch { query, corpus: &corpus, expansion: &expansion, visible, last, model };
        let end = offset.saturating_add(limit).min(MAX_RESULTS);
        let ordered = search.order(end.saturating_add(1));
        let has_more = ordered.len() > end;
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
                partition: candidate.partition,
                key: record.key.clone(),
                kind: record.kind,
                score: candidate.score,
                matched: explained.matched,
                snippet: explained.snippet,
            }
        });
        SearchResults { hits: hits.collect(), has_more, did_you_mean }
    }
}

/// One search with everything it reads.
struct RunningSearch<'a> {
    query: &'a Query,
    corpus: &'a Corpus<'a>,
    expansion: &'a Expansion,
    visible: &'a Visible<'a>,
    last: Option<usize>,
    model: Option<&'a EmbeddingModel>,
}

impl<'a> RunningSearch<'a> {
    /// Returns the first `count` results in order.
    fn order(&self, count: usize) -> Vec<Candidate<'a>> {
        let candidates = if self.query.is_listing() { self.all() } else { self.scored() };
        // Some may be left out at the end.
        let wanted = count.saturating_mul(2).max(REFINED);
        let mut checks = MAX_PHRASE_CHECKS;
        let mut ordered: Vec<Candidate<'a>> = Vec::with_capacity(wanted.min(candidates.len()));
        for candidate in candidates {
            if ordered.len() == wanted || checks == 0 {
                break;
            }
            let record = candidate.record();
            if (self.visible)(candidate.partition, &record.key) == Visibility::Hidden {
                continue;
            }
            if !self.query.phrases.is_empty() {
                checks -= 1;
                if !self.query.phrases.iter().all(|phrase| contains_phrase(record, phrase)) {
                    continue;
                }
            }
            ordered.push(candidate);
        }
        if !self.query.is_listing() {
            self.refine(&mut ordered);
            self.fuse_by_meaning(&mut ordered);
            self.promote_names(&mut ordered);
        }
        ordered.retain(|candidate| {
            (self.visible)(candidate.partition, &candidate.record().key) == Visibility::Shown
        });
        ordered.truncate(count);
        ordered
    }

    /// Returns all documents that fit the filters, sorted by id.
    fn all(&self) -> Vec<Candidate<'a>> {
        let mut found = Vec::new();
        for (partition, view) in self.corpus.segments() {
            for document in 0..u32::try_from(view.segment.len()).unwrap_or(u32::MAX) {
                let candidate = Candidate { partition, view, document, score: 0.0 };
                if self.is_eligible(&candidate) && !self.is_excluded(&candidate) {
                    found.push(candidate);
                }
            }
        }
        let is_last = |candidate: &Candidate<'a>| Some(candidate.partition) == self.last;
        found.sort_unstable_by(|one, other| {
            let ids = || one.record().key.cmp(&other.record().key);
            is_last(one)
                .cmp(&is_last(other))
                .then_with(ids)
                .then(one.partition.cmp(&other.partition))
        });
        found
    }

    /// Returns the documents with a score, the best first.
    fn scored(&self) -> Vec<Candidate<'a>> {
        let weights = weight_table();
        let concepts: &[Concept] = &self.expansion.concepts;
        let total: f32 = concepts.iter().map(|concept| concept.weight).sum();
        let mut found = Vec::new();
        for (partition, view) in self.corpus.segments() {
            let scores = SegmentScores::evaluate(view, self.query, concepts, &weights);
            let candidates = scores.iter(total);
            let candidates = candidates
                .map(|(document, score)| Candidate { partition, view, document, score })
                .filter(|candidate| self.is_eligible(candidate));
            found.extend(candidates);
            if found.len() > 4 * MAX_RESULTS {
                found.select_nth_unstable_by(2 * MAX_RESULTS, Candidate::compare);
                found.truncate(2 * MAX_RESULTS);
            }
        }
        found.sort_unstable_by(Candidate::compare);
        found
    }

    /// Returns whether a document exists and fits the filters.
    fn is_eligible(&self, candidate: &Candidate<'_>) -> bool {
        if candidate.view.is_deleted(candidate.document) {
            return false;
        }
        let QueryFilters { tags, tools, kinds, .. } = self.query.filters();
        if tags.is_empty() && tools.is_empty() && kinds.is_empty() {
            return true;
        }
        let record = candidate.record();
        // A tool may be declared with a pattern: `Bash(git:*)`.
        let base = |tool: &str| tool.split('(').next().unwrap_or_default().trim().to_owned();
        let has_tool = |wanted: &String| {
            record.tools.iter().any(|tool| **tool == **wanted || base(tool) == **wanted)
        };
        (kinds.is_empty() || kinds.contains(&record.kind))
            && (tags.is_empty()
                || tags.iter().any(|wanted| record.tags.iter().any(|tag| **tag == **wanted)))
            && (tools.is_empty() || tools.iter().any(has_tool))
    }

    /// Returns whether a document has an excluded word.
    fn is_excluded(&self, candidate: &Candidate<'_>) -> bool {
        let has_term = |term: &String| {
            let list = candidate.view.segment.postings(term);
            list.into_iter().flatten().any(|(document, _)| document == candidate.document)
        };
        self.query.excluded.iter().any(has_term)
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
        let lowest = best.last().map_or(0.0, |candidate| candidate.score);
        for candidate in others {
            candidate.score = candidate.score.min(lowest);
        }
    }

    /// Fuses the order with that of the documents whose meaning is nearest.
    fn fuse_by_meaning(&self, ordered: &mut Vec<Candidate<'a>>) {
        // A phrase asks for words, not for meaning.
        let model = self.model.filter(|_| self.query.phrases.is_empty());
        let Some(wanted) = model.and_then(|model| model.embed(&self.query.name_key)) else {
            return;
        };
        let mut near: Vec<Candidate<'a>> = Vec::new();
        for (partition, view) in self.corpus.segments() {
            for (record, document) in view.segment.records().iter().zip(0..) {
                let score = record.embedding.as_ref().map_or(0.0, |found| found.cosine(&wanted));
                let candidate = Candidate { partition, view, document, score };
                if score >= MIN_COSINE {
                    near.push(candidate);
                }
            }
        }
        near.sort_unstable_by(Candidate::compare);
        near.retain({
            let mut kept = 0;
            move |candidate| {
                let is_kept = kept < REFINED && self.is_listed(candidate);
                kept += usize::from(is_kept);
                is_kept
            }
        });
        let fused = fusion::fuse(ordered, &near, Candidate::is_same);
        *ordered =
            fused.into_iter().map(|(candidate, score)| Candidate { score, ..candidate }).collect();
    }

    /// Moves up the documents whose names are the query, and those whose ids begin with it.
    fn promote_names(&self, ordered: &mut Vec<Candidate<'a>>) {
        let wanted = self.query.name_key.as_str();
        if wanted.is_empty() {
            return;
        }
        let (exact, prefixed) = self.named(wanted);
        let may_be_prefix = self.expansion.last_is_incomplete || self.query.is_id_like;
        let is_id_prefix = may_be_prefix && prefixed.len() <= MAX_PREFIXED;
        if is_id_prefix {
            let mut prefixed: Vec<_> =
                prefixed.iter().map(|candidate| with_score(ordered, *candidate)).collect();
            prefixed.sort_by(Candidate::compare);
            for candidate in prefixed.iter().rev() {
                promote(ordered, *candidate, 0);
            }
        }
        for (_, candidate) in exact.iter().rev() {
            promote(ordered, *candidate, 0);
        }
        if let [only] = &prefixed[..] {
            let rank = ordered.iter().position(|candidate| candidate.is_same(only));
            if rank.is_none_or(|rank| rank >= PREFIX_RANK) {
                promote(ordered, *only, PREFIX_RANK - 1);
            }
        }
    }

    /// Returns the visible documents with an exact name, the best kind of name first, and those whose id begins
    /// with the query: as it is written, or else with other separators.
    fn named(&self, wanted: &str) -> (Vec<(NameKind, Candidate<'a>)>, Vec<Candidate<'a>>) {
        let raw = self.query.raw.as_str();
        // Separators alone are no part of the form in which names are compared.
        let has_words = wanted.contains(|c: char| c.is_alphanumeric() || matches!(c, '+' | '#'));
        let beginning = if has_words { wanted } else { "" };
        let (mut exact, mut as_written, mut prefixed) = (Vec::new(), Vec::new(), Vec::new());
        for (partition, view) in self.corpus.segments() {
            for (name, kind, document) in view.segment.names_with_prefix(beginning) {
                let candidate = Candidate { partition, view, document, score: 0.0 };
                let list = match kind {
                    _ if name == wanted => None,
                    NameKind::Id if candidate.record().key.id.starts_with(raw) => {
                        Some(&mut as_written)
                    }
                    NameKind::Id if has_words => Some(&mut prefixed),
                    NameKind::Id | NameKind::Name | NameKind::Title => continue,
                };
                let is_full = list.as_ref().is_some_and(|list| list.len() > MAX_PREFIXED);
                if is_full || !self.is_listed(&candidate) {
                    continue;
                }
                match list {
                    Some(list) => list.push(candidate),
                    None => exact.push((kind, candidate)),
                }
            }
        }
        let is_other = |candidate: &Candidate<'_>| *candidate.record().key.id != *raw;
        exact.sort_by(|(one, left), (other, right)| {
            is_other(left).cmp(&is_other(right)).then(one.cmp(other)).then(left.compare(right))
        });
        exact.dedup_by(|(_, one), (_, other)| one.is_same(other));
        let mut prefixed = if as_written.is_empty() { prefixed } else { as_written };
        prefixed.retain(|found| !exact.iter().any(|(_, known)| known.is_same(found)));
        (exact, prefixed)
    }

    /// Returns whether a document exists, fits the query apart from its words, and is visible.
    fn is_listed(&self, candidate: &Candidate<'_>) -> bool {
        self.is_eligible(candidate)
            && !self.is_excluded(candidate)
            && (self.visible)(candidate.partition, &candidate.record().key) != Visibility::Hidden
    }
}

/// Returns a candidate with the score it has in a list.
fn with_score<'a>(ordered: &[Candidate<'a>], candidate: Candidate<'a>) -> Candidate<'a> {
    ordered.iter().find(|found| found.is_same(&candidate)).copied().unwrap_or(candidate)
}

/// Moves a candidate to a position, or inserts it there. Its score becomes at least that of the next one.
fn promote<'a>(ordered: &mut Vec<Candidate<'a>>, candidate: Candidate<'a>, rank: usize) {
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

/// Returns whether a document has a phrase, in its short fields or in its text.
fn contains_phrase(record: &DocumentRecord, phrase: &[String]) -> bool {
    let hashes: Vec<u32> = phrase.iter().map(|term| term_hash(term)).collect();
    if record.short.windows(hashes.len()).any(|window| *window == *hashes) {
        return true;
    }
    let texts = record.text.read();
    let mut tokenizer = Tokenizer::default();
    let mut recent: Vec<u32> = Vec::new();
    let mut is_found = false;
    for field in [SearchField::Description, SearchField::Body] {
        recent.clear();
        tokenizer.for_each(texts.field(field), |token| {
            if is_found || !matches!(token.kind, TokenKind::Word | TokenKind::Bigram) {
                return;
            }
            recent.push(term_hash(token.term));
            is_found = recent.ends_with(&hashes);
            if recent.len() > 64 * 1024 {
                recent.drain(..recent.len() - hashes.len());
            }
        });
    }
    is_found
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{Analyzer, PartitionWriter, SearchDocument, model::tests::tiny_model};

    #[test]
    fn a_model_finds_what_no_word_leads_to() {
        let model = Arc::new(tiny_model(&[
            ("feline", [1.0, 0.0, 0.0]),
            ("kitten", [1.0, 0.1, 0.0]),
            ("engine", [0.0, 0.0, 1.0]),
        ]));
        let document = |id: &str, description: &str| {
            let mut document = SearchDocument::new(HitKind::Skill, id.into());
            document.description = description.to_owned();
            document
        };
        let mut analyzer = Analyzer::with_model(Some(Arc::clone(&model)));
        let mut writer = PartitionWriter::default();
        let documents = [document("pets", "Feline care"), document("cars", "Engine repair")];
        writer.add(documents.iter().map(|document| analyzer.analyze(document)).collect());
        let (partition, synonyms) = (writer.snapshot(), SynonymTable::default());
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
        assert!(search(Some(&model), "\"kitten\"").is_empty());
    }
}
