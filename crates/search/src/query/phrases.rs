//! Phrases in the texts of documents.

use super::{
    candidate::Candidate,
    parse::{Phrase, Query},
};
use crate::{
    analysis::{DocumentRecord, TermHash, term_hash},
    document::SearchField,
    text::{Beginnings, TokenKind, Tokenizer},
};

/// Bytes that a text counts beside its own, for the work that does not depend on its length.
const TEXT_BYTES: usize = 1024;

/// Check of the phrases of a query, with a bound on the texts it reads.
pub(super) struct PhraseCheck<'a> {
    query: &'a Query,
    /// Hashes of the terms of the phrases, then of the excluded ones.
    hashes: Vec<Vec<TermHash>>,
    tokenizer: Tokenizer,
    /// Bytes that may still be read.
    left: usize,
    /// Bytes that were read.
    bytes: usize,
}

impl<'a> PhraseCheck<'a> {
    /// Creates a check that reads a number of bytes.
    pub(super) fn new(query: &'a Query, bytes: usize) -> Self {
        let phrases = || query.phrases.iter().chain(&query.excluded_phrases);
        let hashes = |phrase: &Phrase| phrase.terms.iter().map(|term| term_hash(term)).collect();
        let mut beginnings = Beginnings::default();
        phrases().flat_map(|phrase| &phrase.terms).for_each(|term| beginnings.insert(term));
        Self {
            query,
            hashes: phrases().map(hashes).collect(),
            tokenizer: Tokenizer::wanting(beginnings),
            left: bytes,
            bytes: 0,
        }
    }

    /// Returns whether no further text is searched: documents that may have a phrase count as if they lacked it, or had it
    /// if it is excluded.
    pub(super) const fn is_exhausted(&self) -> bool {
        self.left == 0
    }

    /// Returns the bytes of texts that were searched.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns whether a document has all phrases and none of the excluded ones. A document that may have an excluded phrase
    /// counts as one that has it where too many texts were read already.
    pub(super) fn accepts(&mut self, candidate: &Candidate<'_>) -> bool {
        let wanted = self.query.phrases.len();
        let is_suspect = candidate.segment.phrase_suspects.contains(candidate.document);
        if wanted == 0 && !is_suspect {
            return true;
        }
        if self.left == 0 {
            return false;
        }
        let found = self.find(candidate.record());
        let (has_wanted, has_excluded) = found.split_at(wanted);
        has_wanted.iter().all(|found| *found) && !(is_suspect && has_excluded.contains(&true))
    }

    /// Returns which phrases a document has, in its short fields or in its text.
    fn find(&mut self, record: &DocumentRecord) -> Vec<bool> {
        let Self { hashes, tokenizer, left, bytes, .. } = self;
        let is_short = |phrase: &Vec<TermHash>| {
            record.short.windows(phrase.len()).any(|window| *window == **phrase)
        };
        let mut found: Vec<bool> = hashes.iter().map(is_short).collect();
        if !found.contains(&false) {
            return found;
        }
        *left = left.saturating_sub(record.text.len() + TEXT_BYTES);
        *bytes += record.text.len();
        let texts = record.text.read();
        let longest = hashes.iter().map(Vec::len).max().unwrap_or(0);
        let mut recent: Vec<TermHash> = Vec::new();
        for field in [SearchField::Description, SearchField::Body] {
            let mut next = 0;
            tokenizer.for_each(texts.field(field), |token| {
                if !matches!(token.kind, TokenKind::Word | TokenKind::Bigram) {
                    return;
                }
                // Words that were skipped are in no phrase.
                if token.ordinal != next || recent.len() >= 64 * longest {
                    let kept = if token.ordinal == next { longest } else { 0 };
                    recent.drain(..recent.len() - kept.min(recent.len()));
                }
                next = token.ordinal + 1;
                recent.push(term_hash(token.term));
                for (phrase, found) in hashes.iter().zip(&mut found) {
                    *found |= recent.ends_with(phrase);
                }
            });
            recent.clear();
        }
        found
    }
}
