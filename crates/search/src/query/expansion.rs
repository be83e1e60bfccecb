//! From the words of a query to concepts: each word with the other spellings that may stand for it.

use super::{
    corpus::Corpus,
    parse::{Query, QueryWord},
    synonyms::SynonymTable,
    typos, word_forms,
    work::MIN_CONCEPTS,
};

/// Most concepts of a query. The ones that tell most are used.
const MAX_CONCEPTS: usize = 32;
/// Most alternatives of a concept.
const MAX_ALTERNATIVES: usize = 24;
/// Most words of a query for which corrections are tried.
const MAX_CORRECTED: usize = 8;
/// Most words that a beginning stands for.
const MAX_COMPLETIONS: usize = 8;
/// Shortest beginning of a word.
const MIN_PREFIX: usize = 3;
/// Most explained acronyms of a word that are read in a segment.
const MAX_ALIASES: usize = 64;

const FORM_WEIGHT: f32 = 0.8;
const JOINED_WEIGHT: f32 = 0.9;
const PARTS_WEIGHT: f32 = 0.6;
const SYNONYM_WEIGHT: f32 = 0.35;
const ALIAS_WEIGHT: f32 = 0.6;
const COMPLETION_WEIGHT: f32 = 0.7;
const CORRECTION_WEIGHT: f32 = 0.85;

/// Terms that stand for a concept, all of them together.
#[derive(Debug, Clone)]
pub(super) struct Alternative {
    pub(super) terms: Vec<Box<str>>,
    /// Weight with the rarity of the terms.
    pub(super) score: f32,
}

/// Word of a query with its alternatives, of which the best counts.
#[derive(Debug, Clone)]
pub(super) struct Concept {
    /// Position among the words of the query.
    pub(super) position: usize,
    /// Largest score that a document can get from it.
    pub(super) weight: f32,
    pub(super) alternatives: Vec<Alternative>,
}

/// Concepts of a query.
#[derive(Debug, Default)]
pub(super) struct Expansion {
    pub(super) concepts: Vec<Concept>,
    /// Misspelled words with the likely ones.
    pub(super) corrections: Vec<(String, String)>,
    /// Whether no document has the last word as it stands: it may be the beginning of one.
    pub(super) last_is_incomplete: bool,
}

/// Expands the words of a query.
pub(super) fn expand(query: &Query, corpus: &Corpus<'_>, synonyms: &SynonymTable) -> Expansion {
    let mut expander =
        Expander { words: &query.words, corpus, synonyms, expansion: Expansion::default() };
    expander.collect();
    let mut expansion = expander.expansion;
    if expansion.concepts.len() > MAX_CONCEPTS {
        expansion.concepts.sort_by(|one, other| other.weight.total_cmp(&one.weight));
        expansion.concepts.truncate(MAX_CONCEPTS);
        expansion.concepts.sort_by_key(|concept| concept.position);
    }
    limit_postings(&mut expansion.concepts, corpus);
    expansion
}

/// Drops alternatives that would make scoring read too many postings. The best word of each of the best concepts stays.
fn limit_postings(concepts: &mut Vec<Concept>, corpus: &Corpus<'_>) {
    let mut order: Vec<usize> = (0..concepts.len()).collect();
    order.sort_by(|one, other| concepts[*other].weight.total_cmp(&concepts[*one].weight));
    let mut left = corpus.work.limits.postings;
    for (rank, at) in order.into_iter().enumerate() {
        let mut is_best = rank < MIN_CONCEPTS;
        concepts[at].alternatives.retain(|alternative| {
            let steps = alternative.terms.iter().map(|term| corpus.scoring_steps(term)).sum();
            let is_kept = std::mem::take(&mut is_best) || steps <= left;
            left = left.saturating_sub(if is_kept { steps } else { 0 });
            is_kept
        });
    }
    concepts.retain(|concept| !concept.alternatives.is_empty());
}

struct Expander<'a> {
    words: &'a [QueryWord],
    corpus: &'a Corpus<'a>,
    synonyms: &'a SynonymTable,
    expansion: Expansion,
}

/// Alternatives of one word under construction.
#[derive(Default)]
struct Candidates {
    found: Vec<(Vec<Box<str>>, f32, u32, bool)>,
}

impl Candidates {
    fn add(&mut self, corpus: &Corpus<'_>, terms: Vec<Box<str>>, weight: f32, is_own: bool) {
        let frequency = terms.iter().map(|term| corpus.frequency(term)).min().unwrap_or(0);
        if frequency == 0 || self.found.len() == MAX_ALTERNATIVES {
            return;
        }
        if let Some(known) = self.found.iter_mut().find(|(known, ..)| *known == terms) {
            known.1 = known.1.max(weight);
            known.3 |= is_own;
        } else {
            self.found.push((terms, weight, frequency, is_own));
        }
    }
}

impl Expander<'_> {
    fn collect(&mut self) {
        let mut candidates: Vec<Candidates> = Vec::new();
        candidates.resize_with(self.words.len(), Candidates::default);
        for at in 0..self.words.len() {
            // A word that is repeated is one concept.
            if self.words[..at].iter().any(|word| word.term == self.words[at].term) {
                continue;
            }
            if self.corpus.is_counted_out() {
                break;
            }
            self.add_own(at, &mut candidates);
            self.add_synonyms(at, &mut candidates);
            self.add_aliases(at, &mut candidates[at]);
        }
        let mut corrected = 0;
        for (at, word) in self.words.iter().enumerate() {
            if self.corpus.is_counted_out() {
                break;
            }
            let is_last = at + 1 == self.words.len();
            let has_own = self.corpus.frequency(&word.term) > 0;
            self.expansion.last_is_incomplete |= is_last && !has_own && !word.is_bigram;
            let is_known = candidates[at].found.iter().any(|(_, _, _, is_own)| *is_own);
            if !is_known && !word.is_bigram && corrected < MAX_CORRECTED {
                corrected += 1;
                self.add_near(word, &mut candidates[at]);
            }
        }
        for (at, candidates) in candidates.into_iter().enumerate() {
            self.finish(at, candidates);
        }
    }

    /// Adds the word, its forms, its parts, and what it makes with the next word.
    fn add_own(&self, at: usize, candidates: &mut [Candidates]) {
        let (word, corpus) = (&self.words[at], self.corpus);
        candidates[at].add(corpus, vec![word.term.as_str().into()], 1.0, true);
        if word.is_bigram {
            return;
        }
        word_forms::for_each(&word.folded, |form| {
            if form != word.term {
                candidates[at].add(corpus, vec![form.into()], FORM_WEIGHT, true);
            }
        });
        if word.parts.len() > 1 {
            let parts = word.parts.iter().map(|part| part.as_str().into()).collect();
            candidates[at].add(corpus, parts, PARTS_WEIGHT, false);
        }
        if let Some(next) = self.words.get(at + 1).filter(|next| !next.is_bigram) {
            let mut joined = format!("{}{}", word.folded, next.folded);
            crate::text::stem(&mut joined);
            for near in [at, at + 1] {
                candidates[near].add(corpus, vec![joined.as_str().into()], JOINED_WEIGHT, false);
            }
        }
    }

    fn add_synonyms(&self, at: usize, candidates: &mut [Candidates]) {
        let terms: Vec<&str> =
            self.words[at..].iter().take(8).map(|word| word.term.as_str()).collect();
        self.synonyms.for_each_match(&terms, |matched, others| {
            for phrase in others {
                for covered in &mut candidates[at..at + matched] {
                    covered.add(self.corpus, phrase.to_vec(), SYNONYM_WEIGHT, false);
                }
            }
        });
    }

    /// Adds what acronyms stand for in the corpus, and the acronyms of words.
    fn add_aliases(&self, at: usize, candidates: &mut Candidates) {
        let word = &self.words[at];
        if word.is_bigram {
            return;
        }
        let following = &self.words[at..];
        for (_, view) in self.corpus.segments() {
            let aliases = view.segment.aliases_of(&word.term);
            let aliases = aliases.filter(|(_, document)| !view.is_deleted(*document));
            for (alias, _) in aliases.take(MAX_ALIASES) {
                if *alias.acronym == *word.term {
                    candidates.add(self.corpus, alias.words.to_vec(), ALIAS_WEIGHT, false);
                }
                let is_spelled_out = alias.words.len() <= following.len()
                    && alias.words.iter().zip(following).all(|(one, word)| **one == *word.term);
                if is_spelled_out {
                    candidates.add(self.corpus, vec![alias.acronym.clone()], ALIAS_WEIGHT, false);
                }
            }
        }
    }

    /// Adds known words near one that no document has: two words in one, longer words, corrections.
    fn add_near(&mut self, word: &QueryWord, candidates: &mut Candidates) {
        let corpus = self.corpus;
        if let Some(parts) = split_word(&word.folded, corpus) {
            candidates.add(corpus, parts, JOINED_WEIGHT, false);
        }
        if word.folded.chars().count() >= MIN_PREFIX {
            for completion in completions(corpus, &word.folded) {
                candidates.add(corpus, vec![completion], COMPLETION_WEIGHT, false);
            }
        }
        let corrections = typos::corrections(&word.folded, corpus);
        let Some(best) = corrections.first() else { return };
        self.expansion.corrections.push((word.folded.clone(), best.folded.clone()));
        let most = best.frequency as f32;
        for correction in &corrections {
            let share = (correction.frequency as f32 / most).powf(0.3);
            let term = vec![correction.term.as_str().into()];
            candidates.add(corpus, term, CORRECTION_WEIGHT * share, false);
        }
    }

    fn finish(&mut self, at: usize, candidates: Candidates) {
        let word = &self.words[at];
        let own = candidates
            .found
            .iter()
            .find(|(terms, ..)| matches!(&terms[..], [only] if **only == *word.term));
        let own_idf = own.map(|(_, _, frequency, _)| self.corpus.idf(*frequency));
        let alternative = |(terms, weight, frequency, _): (Vec<Box<str>>, f32, u32, bool)| {
            let idf = self.corpus.idf(frequency);
            // A synonym of a rare word tells more than its own rarity, and less than the word.
            let idf = own_idf.map_or(idf, |own| f32::midpoint(own, idf).min(own));
            Alternative { terms, score: weight * idf * word.weight }
        };
        let mut alternatives: Vec<Alternative> =
            candidates.found.into_iter().map(alternative).collect();
        alternatives.sort_by(|one, other| other.score.total_cmp(&one.score));
        if let Some(best) = alternatives.first() {
            let weight = best.score;
            let concept = Concept { position: at, weight, alternatives };
            self.expansion.concepts.push(concept);
        }
    }
}

/// Splits a word in two that documents have, at the place where the rarer of them is most frequent.
fn split_word(word: &str, corpus: &Corpus<'_>) -> Option<Vec<Box<str>>> {
    const MIN_PART: usize = 3;
    if !word.is_ascii() || word.len() < 2 * MIN_PART {
        return None;
    }
    let stemmed = |part: &str| {
        let mut term = part.to_owned();
        crate::text::stem(&mut term);
        term.into_boxed_str()
    };
    let splits = (MIN_PART..=word.len() - MIN_PART).map(|at| {
        let parts = vec![stemmed(&word[..at]), stemmed(&word[at..])];
        let frequency = parts.iter().map(|part| corpus.frequency(part)).min().unwrap_or(0);
        (frequency, parts)
    });
    splits
        .filter(|(frequency, _)| *frequency > 0)
        .max_by_key(|(frequency, _)| *frequency)
        .map(|(_, parts)| parts)
}

/// Returns the most frequent terms that begin with a text.
fn completions(corpus: &Corpus<'_>, prefix: &str) -> Vec<Box<str>> {
    /// Terms that are looked at in a segment.
    const MAX_SCANNED: usize = 512;
    let mut found: std::collections::BTreeMap<&str, u32> = std::collections::BTreeMap::new();
    for (_, view) in corpus.segments() {
        for (term, list) in view.segment.prefixed(prefix).take(MAX_SCANNED) {
            if corpus.is_counted_out() {
                break;
            }
            *found.entry(term).or_default() += corpus.live_documents(view, list);
        }
    }
    let mut found: Vec<(&str, u32)> = found.into_iter().filter(|(_, count)| *count > 0).collect();
    found.sort_by(|one, other| other.1.cmp(&one.1).then(one.0.cmp(other.0)));
    found.into_iter().take(MAX_COMPLETIONS).map(|(term, _)| term.into()).collect()
}
