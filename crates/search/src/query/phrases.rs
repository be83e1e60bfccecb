//! Phrases in the texts of documents.

use super::{
    candidate::Candidate,
    parse::{Phrase, Query},
};
use crate::{
    analysis::{DocumentRecord, term_hash},
    document::SearchField,
    text::{TokenKind, Tokenizer},
};

/// Most documents whose text is searched for phrases. A text of 4 KB takes 0.1 ms.
const MAX_CHECKS: usize = 400;

/// Check of the phrases of a query, with a bound on the texts it reads.
pub(super) struct PhraseCheck<'a> {
    query: &'a Query,
    left: usize,
}

impl<'a> PhraseCheck<'a> {
    pub(super) const fn new(query: &'a Query) -> Self {
        Self { query, left: MAX_CHECKS }
    }

    /// Returns whether no further document can be accepted.
    pub(super) const fn is_exhausted(&self) -> bool {
        self.left == 0 && !self.query.phrases.is_empty()
    }

    /// Returns whether a document has all phrases and none of the excluded ones. A document that may have an excluded phrase
    /// counts as one that has it where too many texts were read already.
    pub(super) fn accepts(&mut self, candidate: &Candidate<'_>) -> bool {
        let Query { phrases, excluded_phrases, .. } = self.query;
        let is_suspect = candidate.segment.phrase_suspects.contains(candidate.document);
        if phrases.is_empty() && !is_suspect {
            return true;
        }
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        let has_phrase = |phrase: &Phrase| contains_phrase(candidate.record(), &phrase.terms);
        phrases.iter().all(has_phrase) && !(is_suspect && excluded_phrases.iter().any(has_phrase))
    }
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
