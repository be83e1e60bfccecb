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
    work::{SearchLimits, SearchWork, WorkCounter},
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
    /// Steps that the search took.
    pub work: SearchWork,
}

/// Search over the partitions that a caller sees, in the order of resolution.
#[derive(Debug, Clone, Copy)]
pub struct Searcher<'a> {
    partitions: &'a [&'a Partition],
    synonyms: &'a SynonymTable,
    /// Partition whose documents are listed last where a query has no words.
    last: Option<usize>,
    model: Option<&'a EmbeddingModel>,
    limits: SearchLimits,
}

impl<'a> Searcher<'a> {
    /// Creates a search over partitions.
    #[must_use]
    pub fn new(partitions: &'a [&'a Partition], synonyms: &'a SynonymTable) -> Self {
        let limits = SearchLimits::default();
        Self { partitions, synonyms, last: None, model: None, limits }
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
        let corpus = Corpus::new(self.partitions, self.limits);
        let expansion = expansion::expand(query, &corpus, self.synonyms);
        let segments = SearchedSegment::all(&corpus, query);
        let search = RunningSearch {
            query,
            segments: &segments,
            expansion: &expansion,
            work: &corpus.work,
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
        let (hits, work) = (hits.collect(), corpus.work.get());
        SearchResults { hits, has_more, did_you_mean, has_omitted, work }
    }
}

/// Candidates in order.
struct Batch<I> {
    candidates: I,
    /// Whether no others follow.
    is_last: bool,
}

/// Candidates that were examined.
struct Progress<'a> {
    /// The last one of them.
    last: Option<Candidate<'a>>,
    /// Whether documents that may have an excluded phrase are skipped from now on.
    skips_suspects: bool,
}

impl<'a> Progress<'a> {
    /// Returns whether a candidate comes after those that were examined, and can be listed.
    fn is_left(&self, candidate: &Candidate<'a>) -> bool {
        let is_suspect = || candidate.segment.phrase_suspects.contains(candidate.document);
        self.last.as_ref().is_none_or(|last| last.compare(candidate).is_lt())
            && !(self.skips_suspects && is_suspect())
    }
}

/// One search with everything it reads.
pub(super) struct RunningSearch<'a> {
    pub(super) query: &'a Query,
    pub(super) segments: &'a [SearchedSegment<'a>],
    pub(super) expansion: &'a Expansion,
    pub(super) work: &'a WorkCounter,
    visible: &'a Visible<'a>,
    last: Option<usize>,
    model: Option<&'a EmbeddingModel>,
}

impl<'a> RunningSearch<'a> {
    /// Creates a check of the query's phrases.
    pub(super) fn phrase_check(&self) -> PhraseCheck<'a> {
        PhraseCheck::new(self.query, self.work.limits.phrase_bytes)
    }

    /// Returns results in order, until `count` of them are shown. Results before these may be left out.
    fn order(&self, count: usize) -> Vec<Candidate<'a>> {
        if self.query.is_listing() {
            return self.collect(|_, _| self.all(), count, 0);
        }
        let scored = |limit: usize, progress: &Progress<'a>| self.best(limit, progress);
        let mut ordered = self.collect(scored, count, REFINED);
        self.refine(&mut ordered);
        let refined = self.fuse_by_meaning(&mut ordered);
        names::promote_names(self, &mut ordered, refined);
        ordered
    }

    /// Takes candidates until `count` of them are shown, and at least `refined`. Documents that are left out count
    /// among the latter only, so that they neither displace shown ones nor change their order. `next` returns the best
    /// candidates of those that are left; most searches need the first few only.
    fn collect<I: IntoIterator<Item = Candidate<'a>>>(
        &self,
        next: impl Fn(usize, &Progress<'a>) -> Batch<I>,
        count: usize,
        refined: usize,
    ) -> Vec<Candidate<'a>> {
        let mut phrases = self.phrase_check();
        let mut ordered = Vec::new();
        let (mut shown, mut examined) = (0, 0);
        // A listing is in order as a whole and is never selected again.
        let mut progress = Progress { last: None, skips_suspects: self.query.is_listing() };
        let mut limit = FIRST_SCORED;
        'batches: loop {
            let batch = next(limit, &progress);
            for mut candidate in batch.candidates {
                let is_spent = phrases.is_exhausted();
                if (shown >= count && ordered.len() >= refined)
                    || (is_spent && !self.query.phrases.is_empty())
                {
                    break 'batches;
                }
                if is_spent && !progress.skips_suspects {
                    // The rest is selected again, without documents that would have to be read.
                    progress.skips_suspects = true;
                    continue 'batches;
                }
                examined += 1;
                progress.last = Some(candidate);
                if !self.set_visibility(&mut candidate) || !phrases.accepts(&candidate) {
                    continue;
                }
                shown += usize::from(candidate.is_shown);
                ordered.push(candidate);
            }
            if batch.is_last {
                break;
            }
            limit = limit.saturating_mul(SCORED_GROWTH);
        }
        self.work.count(|work| {
            work.documents += examined;
            work.phrase_bytes += phrases.bytes();
        });
        ordered
    }

    /// Returns the documents that fit the filters, sorted by id. Segments have them in this order, so the first ones cost
    /// little.
    fn all(&self) -> Batch<impl Iterator<Item = Candidate<'a>>> {
        let next = |segment: &'a SearchedSegment<'a>, documents: &mut std::slice::Iter<'a, u32>| {
            let candidates = documents.map(|&document| Candidate::new(segment, document, 0.0));
            let mut eligible = candidates.filter(|candidate| is_eligible(self.query, candidate));
            eligible.next()
        };
        let segments = self.segments.iter().map(|segment| {
            let mut documents = segment.view.segment.documents_by_key().iter();
            (next(segment, &mut documents), documents)
        });
        let mut heads: Vec<_> = segments.filter(|(head, _)| head.is_some()).collect();
        let is_last = |candidate: &Candidate<'a>| Some(candidate.segment.partition) == self.last;
        let order = move |one: &Candidate<'a>, other: &Candidate<'a>| {
            is_last(one).cmp(&is_last(other)).then_with(|| {
                let ids = one.record().key.cmp(&other.record().key);
                ids.then(one.segment.partition.cmp(&other.segment.partition))
            })
        };
        let candidates = std::iter::from_fn(move || {
            let candidates = heads.iter().enumerate();
            let candidates = candidates.filter_map(|(at, (head, _))| Some((at, (*head)?)));
            let (at, first) = candidates.min_by(|(_, one), (_, other)| order(one, other))?;
            let (head, documents) = &mut heads[at];
            *head = next(first.segment, documents);
            if head.is_none() {
                drop(heads.swap_remove(at));
            }
            Some(first)
        });
        Batch { candidates, is_last: true }
    }

    /// Returns the best documents after those that were examined, in order.
    fn best(&self, limit: usize, progress: &Progress<'a>) -> Batch<Vec<Candidate<'a>>> {
        let mut scorer = Scorer::new(&self.expansion.concepts);
        let mut top = TopCandidates::new(limit);
        for segment in self.segments {
            scorer.for_each(&segment.view.segment, |document, score| {
                if score >= top.threshold() {
                    let candidate = Candidate::new(segment, document, score);
                    if progress.is_left(&candidate) && is_eligible(self.query, &candidate) {
                        top.push(candidate);
                    }
                }
            });
        }
        self.work.count(|work| {
            work.passes += 1;
            work.postings += scorer.postings();
        });
        let (candidates, is_last) = top.into_sorted();
        Batch { candidates, is_last }
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
        let mut phrases = self.phrase_check();
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

    /// Searches many documents that share their words, some of them deleted, with limits that every bad query reaches.
    #[test]
    fn the_work_of_every_query_is_limited() {
        const COUNT: usize = 3000;
        let words: Vec<String> = (0..64).map(|number| format!("word{number}x")).collect();
        let mut analyzer = Analyzer::default();
        let mut writer = PartitionWriter::default();
        let document = |number: usize| {
            let mut document = SearchDocument::new(HitKind::Skill, format!("dodo-{number}").into());
            document.title = "Shared".to_owned();
            let rotated = words.iter().cycle().skip(number % 7).step_by(1 + number % 3).take(24);
            document.body = rotated.map(|word| format!("{word} ")).collect();
            document
        };
        for chunk in 0..COUNT / 1000 {
            let numbers = chunk * 1000..(chunk + 1) * 1000;
            writer.add(numbers.map(|number| analyzer.analyze(&document(number))).collect());
        }
        for number in (0..COUNT).step_by(101) {
            writer.remove(&document(number).key);
        }
        let (partition, synonyms) = (writer.snapshot(), SynonymTable::with_groups([]));
        let partitions = [&partition];
        let limits = SearchLimits {
            postings: 5 * COUNT,
            counted: 5 * COUNT,
            edits: 500,
            phrase_bytes: 20_000,
            compared_ids: 100,
        };
        let all = words.join(" ");
        let queries = [
            String::new(),
            "x".repeat(100_000),
            ".*+?()[]{}|^$\\".repeat(1000),
            "a\0b\0".repeat(1000),
            "the of and to".to_owned(),
            "the ".repeat(3000),
            all.clone(),
            all.repeat(40),
            (0..10_000).map(|number| format!("term{number} ")).collect(),
            "mispelled wurds evrywhere withuot anny knwon wordd ".repeat(3),
            format!("\"{} {}\"", words[0], words[1]),
            format!("\"{} {}\" \"{} {}\"", words[0], words[1], words[1], words[2]),
            format!("{} -\"{} {}\"", words[3], words[0], words[1]),
            format!("-\"{} {}\"", words[0], words[1]),
            format!("kind:skill -{}", words[0]),
            words.iter().map(|word| format!("-{word} ")).collect(),
            "-a ".repeat(5000),
            "tag:none".to_owned(),
            "do".to_owned(),
            "dodo".to_owned(),
            "dodo-".to_owned(),
            "dod-9999".to_owned(),
            "shared".to_owned(),
            "wor".to_owned(),
        ];
        for query in &queries {
            let name: String = query.chars().take(40).collect();
            let searcher = Searcher { limits, ..Searcher::new(&partitions, &synonyms) };
            let found = searcher.search(&Query::parse(query), 0, 10, &|_, _| Visibility::Shown);
            let work = found.work;
            // The best words are scored in any case.
            let scored = limits.postings + super::super::work::MIN_CONCEPTS * COUNT;
            assert!(work.passes <= 2, "{name}: {work:?}");
            assert!(work.postings <= work.passes * scored, "{name}: {work:?}");
            assert!(work.counted <= limits.counted + 32 * COUNT, "{name}: {work:?}");
            assert!(work.edits <= limits.edits, "{name}: {work:?}");
            assert!(work.phrase_bytes <= 2 * (limits.phrase_bytes + 1024), "{name}: {work:?}");
            assert!(work.compared_ids <= limits.compared_ids, "{name}: {work:?}");
            assert!(work.documents <= FIRST_SCORED * 4, "{name}: {work:?}");
            assert!(found.hits.len() <= 10);
        }
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
