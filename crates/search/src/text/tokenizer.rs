//! Splits a text into terms: folded and stemmed words, parts of compounds, and pairs of characters in scripts without
//! spaces.

use std::ops::Range;

use super::{
    camel_case, fold, is_unspaced,
    stem_cache::{StemCache, stem_into},
};

/// Longest term in bytes. Longer words are encoded data, and nobody searches for them.
const MAX_TERM_BYTES: usize = 40;
/// Longest first half of a hyphenated word that is also indexed as one word everywhere (`e-mail`, `pre-commit`).
const MAX_JOINED_PREFIX: usize = 3;
/// Longest hyphenated word that is also indexed as one word.
const MAX_JOINED_BYTES: usize = 24;

/// Role of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// A whole word.
    Word,
    /// Pair of characters, or a single one, of a script without spaces.
    Bigram,
    /// Part of a word such as `readFile`.
    Part,
    /// Two words that are written with a hyphen, as one word.
    Joined,
}

/// Term of a text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Token<'a> {
    /// Folded and stemmed text.
    pub(crate) term: &'a str,
    /// Folded text before stemming.
    pub(crate) folded: &'a str,
    /// Whether the folded text is a stop word.
    pub(crate) is_stop_word: bool,
    /// Role.
    pub(crate) kind: TokenKind,
    /// Start in the text, in bytes.
    pub(crate) start: usize,
    /// End in the text, in bytes.
    pub(crate) end: usize,
    /// Position among the words and pairs of the text, including those that were skipped.
    pub(crate) ordinal: usize,
}

/// Tokenizer with its buffers.
#[derive(Debug, Default)]
pub(crate) struct Tokenizer {
    /// Also joins long hyphenated words, for names and titles.
    joins_all: bool,
    /// Beginnings of the words that are wanted, if not all are.
    wanted: Option<Beginnings>,
    /// Stems of earlier words, for a tokenizer of many texts.
    cache: Option<StemCache>,
    folded: String,
    term: String,
    previous: String,
    parts: Vec<Range<usize>>,
    /// Words and pairs of the text so far.
    ordinal: usize,
}

/// Set of the first two letters of words. Stemming and folding keep them in plain words, so most words of a text need
/// neither when only a few are looked for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Beginnings([u64; 16]);

impl Beginnings {
    fn bit(first: u8, second: u8) -> (usize, u64) {
        let number = usize::from(first & 31) * 32 + usize::from(second & 31);
        (number / 64, 1 << (number % 64))
    }

    /// Adds the beginning of a term.
    pub(crate) fn insert(&mut self, term: &str) {
        if let [first, second, ..] = term.as_bytes() {
            let (word, bit) = Self::bit(*first, *second);
            self.0[word] |= bit;
        }
    }

    /// Returns whether a word may have a wanted term. Words of one letter, with digits, inner capitals or letters
    /// beyond ASCII always may.
    fn may_match(&self, word: &str) -> bool {
        let [first, rest @ ..] = word.as_bytes() else { return true };
        let is_plain = first.is_ascii_alphabetic() && rest.iter().all(u8::is_ascii_lowercase);
        let [second, ..] = rest else { return true };
        let (word, bit) = Self::bit(*first, *second);
        !is_plain || self.0[word] & bit != 0
    }
}

/// Run of characters of one kind.
enum Run {
    Word(Range<usize>),
    Unspaced(Range<usize>),
}

impl Tokenizer {
    /// Creates a tokenizer for short texts, in which every hyphenated word is also indexed as one word.
    pub(crate) fn joining() -> Self {
        Self { joins_all: true, ..Self::default() }
    }

    /// Creates a tokenizer that may skip words with other beginnings.
    pub(crate) fn wanting(wanted: Beginnings) -> Self {
        Self { wanted: Some(wanted), ..Self::default() }
    }

    /// Keeps the stems of words for later texts.
    pub(crate) fn caching(self) -> Self {
        Self { cache: Some(StemCache::default()), ..self }
    }

    /// Calls `sink` with each token of a text, in order.
    pub(crate) fn for_each(&mut self, text: &str, mut sink: impl FnMut(Token<'_>)) {
        let mut previous_end = None;
        self.ordinal = 0;
        for_each_run(text, |run| match run {
            Run::Word(range) => {
                let is_joined = previous_end.is_some_and(|end| {
                    matches!(text.get(end..range.start), Some("-" | "_" | "\u{2010}" | "\u{2011}"))
                });
                previous_end = Some(range.end);
                self.word(text, range, is_joined, &mut sink);
            }
            Run::Unspaced(range) => {
                previous_end = None;
                self.unspaced(text, range, &mut sink);
            }
        });
    }

    fn word(
        &mut self,
        text: &str,
        range: Range<usize>,
        is_joined: bool,
        sink: &mut impl FnMut(Token<'_>),
    ) {
        let word = &text[range.clone()];
        if !is_joined && self.wanted.as_ref().is_some_and(|wanted| !wanted.may_match(word)) {
            self.previous.clear();
            if word.len() <= MAX_JOINED_PREFIX {
                self.previous.push_str(&word.to_ascii_lowercase());
            }
            self.ordinal += usize::from(word.len() <= MAX_TERM_BYTES);
            return;
        }
        self.folded.clear();
        self.folded.push_str(&fold(word));
        self.folded.retain(|c| !matches!(c, '\'' | '\u{2019}'));
        if self.folded.is_empty() || self.folded.len() > MAX_TERM_BYTES {
            self.previous.clear();
            return;
        }
        if is_joined && self.is_joinable() {
            self.previous.push_str(&self.folded);
            let is_stop_word = stem_into(&mut self.cache, &self.previous, &mut self.term);
            let (term, folded) = (self.term.as_str(), self.previous.as_str());
            sink(Token {
                term,
                folded,
                is_stop_word,
                kind: TokenKind::Joined,
                start: range.start,
                end: range.end,
                ordinal: self.ordinal,
            });
        }
        self.previous.clone_from(&self.folded);
        let is_stop_word = stem_into(&mut self.cache, &self.folded, &mut self.term);
        let (Range { start, end }, ordinal) = (range.clone(), self.ordinal);
        self.ordinal += 1;
        let (term, folded) = (&self.term, &self.folded);
        let kind = TokenKind::Word;
        sink(Token { term, folded, is_stop_word, kind, start, end, ordinal });
        camel_case::parts(word, &self.folded, &mut self.parts);
        for part in &self.parts {
            let (start, end) = (range.start + part.start, range.start + part.end);
            let text = fold(&word[part.clone()]);
            let is_digit = text.bytes().all(|byte| byte.is_ascii_digit());
            // A mark alone folds to nothing.
            if text.is_empty() || (text.len() < 2 && !is_digit) {
                continue;
            }
            let is_stop_word = stem_into(&mut self.cache, &text, &mut self.term);
            let (term, folded, kind) = (&self.term, &*text, TokenKind::Part);
            sink(Token { term, folded, is_stop_word, kind, start, end, ordinal });
        }
    }

    /// Returns whether the previous word and the current one may be written as one.
    fn is_joinable(&self) -> bool {
        let is_short = self.joins_all || self.previous.len() <= MAX_JOINED_PREFIX;
        let is_alphabetic = |word: &str| word.bytes().all(|byte| byte.is_ascii_lowercase());
        is_short
            && !self.previous.is_empty()
            && self.previous.len() + self.folded.len() <= MAX_JOINED_BYTES
            && is_alphabetic(&self.previous)
            && is_alphabetic(&self.folded)
    }

    fn unspaced(&mut self, text: &str, range: Range<usize>, sink: &mut impl FnMut(Token<'_>)) {
        let run = &text[range.clone()];
        let mut emit = |start: usize, end: usize| {
            self.folded.clear();
            self.folded.push_str(&fold(&run[start..end]));
            let (term, kind) = (self.folded.as_str(), TokenKind::Bigram);
            let (start, end) = (range.start + start, range.start + end);
            let (is_stop_word, ordinal) = (false, self.ordinal);
            sink(Token { term, folded: term, is_stop_word, kind, start, end, ordinal });
            self.ordinal += 1;
        };
        let mut before = None;
        let mut pairs = 0;
        for (at, c) in run.char_indices() {
            if let Some(start) = before.replace(at) {
                emit(start, at + c.len_utf8());
                pairs += 1;
            }
        }
        if pairs == 0 {
            emit(0, run.len());
        }
    }
}

/// Calls `sink` with each run of word characters.
fn for_each_run(text: &str, mut sink: impl FnMut(Run)) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let (c, len) = char_at(text, at);
        if is_unspaced(c) {
            let start = at;
            at += len;
            while at < bytes.len() {
                let (c, len) = char_at(text, at);
                if !is_unspaced(c) {
                    break;
                }
                at += len;
            }
            sink(Run::Unspaced(start..at));
        } else if is_word_char(c) {
            let start = at;
            at += len;
            while at < bytes.len() {
                let (c, len) = char_at(text, at);
                let is_inside = is_word_char(c) && !is_unspaced(c);
                if !is_inside && !is_apostrophe(text, at, c, len) {
                    break;
                }
                at += len;
            }
            at = symbol_end(text, start, at);
            sink(Run::Word(start..trimmed_end(text, start, at)));
        } else {
            at += len;
        }
    }
}

/// Returns the character at a position and its length. Bytes of ASCII take the short way.
fn char_at(text: &str, at: usize) -> (char, usize) {
    match text.as_bytes()[at] {
        byte @ ..0x80 => (char::from(byte), 1),
        _ => text[at..].chars().next().map_or(('\u{fffd}', 1), |c| (c, c.len_utf8())),
    }
}

fn is_word_char(c: char) -> bool {
    if c.is_ascii() { c.is_ascii_alphanumeric() } else { c.is_alphanumeric() || is_mark(c) }
}

/// Returns whether a character is a combining mark that belongs to the letter before it.
const fn is_mark(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36f}' | '\u{900}'..='\u{903}' | '\u{93a}'..='\u{94f}' | '\u{64b}'..='\u{65f}')
}

/// Returns whether an apostrophe stands between two letters.
fn is_apostrophe(text: &str, at: usize, c: char, len: usize) -> bool {
    matches!(c, '\'' | '\u{2019}')
        && text[at + len..].chars().next().is_some_and(|next| next.is_alphabetic())
}

/// Returns the end of a name such as `C++`, `C#` or `F#`.
fn symbol_end(text: &str, start: usize, end: usize) -> usize {
    let is_letter = end - start == 1 && text.as_bytes()[start].is_ascii_alphabetic();
    let rest = &text[end..];
    if is_letter && rest.starts_with("++") {
        end + 2
    } else if is_letter && rest.starts_with('#') {
        end + 1
    } else {
        end
    }
}

/// Returns the end of a word without a possessive `'s`.
fn trimmed_end(text: &str, start: usize, end: usize) -> usize {
    let word = &text[start..end];
    let owner = word.strip_suffix("'s").or_else(|| word.strip_suffix("\u{2019}s"));
    owner.filter(|owner| !owner.is_empty()).map_or(end, |owner| start + owner.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tokens(text: &str) -> Vec<String> {
        let mut found = Vec::new();
        Tokenizer::default().for_each(text, |token| found.push(token.term.to_owned()));
        found
    }

    #[test]
    fn words_are_folded_and_stemmed() {
        assert_eq!(tokens("Extracting Tables, from PDFs!"), ["extract", "tabl", "from", "pdf"]);
        assert_eq!(tokens("the user's files don't"), ["the", "user", "file", "dont"]);
        assert_eq!(tokens("snake_case kebab-case"), ["snake", "case", "kebab", "case"]);
        assert_eq!(tokens("C++ and C# in .NET"), ["c++", "and", "c#", "in", "net"]);
    }

    #[test]
    fn compounds_are_found_whole_and_in_parts() {
        assert_eq!(tokens("readFile"), ["readfil", "read", "file"]);
        assert_eq!(tokens("e-mail"), ["e", "email", "mail"]);
        assert_eq!(tokens("GitHub python3"), ["github", "python3", "python", "3"]);
    }

    #[test]
    fn unspaced_scripts_become_pairs() {
        assert_eq!(tokens("翻訳する"), ["翻訳", "訳す", "する"]);
        assert_eq!(tokens("PDF表格 图"), ["pdf", "表格", "图"]);
        assert_eq!(tokens("한국어"), ["한국", "국어"]);
    }

    #[test]
    fn encoded_data_and_control_characters_are_skipped() {
        assert!(tokens(&"a1".repeat(40)).is_empty());
        assert_eq!(tokens("a\0b .*+?[](){}|^$\\"), ["a", "b"]);
    }

    proptest! {
        #[test]
        fn every_token_lies_in_the_text(text in "\\PC{0,40}") {
            Tokenizer::joining().for_each(&text, |token| {
                assert!(text.get(token.start..token.end).is_some());
                assert!(!token.term.is_empty());
            });
        }
    }
}
