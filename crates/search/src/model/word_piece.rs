//! WordPiece: the longest known piece first, word by word.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Value;

use super::tokens::normalize;
use crate::text::is_unspaced;

/// Longest word that is split, in bytes.
const MAX_WORD_BYTES: usize = 100;

#[derive(Deserialize)]
struct WordPieceFile {
    vocab: HashMap<String, usize>,
    #[serde(default)]
    continuing_subword_prefix: Option<String>,
    #[serde(default)]
    unk_token: Option<String>,
}

/// WordPiece tokenizer.
pub(super) struct WordPiece {
    vocabulary: HashMap<String, usize>,
    prefix: String,
    unknown: Option<usize>,
    len: usize,
    folds: bool,
}

impl WordPiece {
    pub(super) fn parse(model: Value, folds: bool) -> Option<Self> {
        let file: WordPieceFile = serde_json::from_value(model).ok()?;
        let len = file.vocab.values().max()?.checked_add(1)?;
        let unknown = file.unk_token.and_then(|token| file.vocab.get(&token).copied());
        let prefix = file.continuing_subword_prefix.unwrap_or_else(|| "##".to_owned());
        Some(Self { vocabulary: file.vocab, prefix, unknown, len, folds })
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) fn for_each(&self, text: &str, mut sink: impl FnMut(usize)) {
        let text = normalize(text, self.folds);
        let mut pieces = Vec::new();
        for word in words(&text) {
            pieces.clear();
            // A word with an unknown piece is unknown as a whole.
            if word.len() <= MAX_WORD_BYTES && self.split(word, &mut pieces) {
                pieces
                    .iter()
                    .copied()
                    .filter(|piece| Some(*piece) != self.unknown)
                    .for_each(&mut sink);
            }
        }
    }

    fn split(&self, word: &str, pieces: &mut Vec<usize>) -> bool {
        let mut start = 0;
        let mut candidate = String::new();
        while start < word.len() {
            let ends = word[start..].char_indices().map(|(at, c)| start + at + c.len_utf8());
            let found = ends.rev().find_map(|end| {
                candidate.clear();
                if start > 0 {
                    candidate.push_str(&self.prefix);
                }
                candidate.push_str(&word[start..end]);
                Some((end, *self.vocabulary.get(&candidate)?))
            });
            let Some((end, piece)) = found else { return false };
            pieces.push(piece);
            start = end;
        }
        true
    }
}

/// Iterates over the words of a text. Punctuation and characters of unspaced scripts are words of their own.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_single = |c: char| is_unspaced(c) || (!c.is_alphanumeric() && !c.is_whitespace());
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_start();
        let first = rest.chars().next()?;
        let end = if is_single(first) {
            first.len_utf8()
        } else {
            rest.find(|c: char| c.is_whitespace() || is_single(c)).unwrap_or(rest.len())
        };
        let (word, others) = rest.split_at(end);
        rest = others;
        Some(word)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn words_are_split_into_the_longest_pieces() {
        let vocabulary =
            json!({ "[UNK]": 0, "un": 1, "##want": 2, "##ed": 3, "run": 4, "!": 5, "表": 6 });
        let model =
            WordPiece::parse(json!({ "vocab": vocabulary, "unk_token": "[UNK]" }), true).unwrap();
        let tokens = |text: &str| {
            let mut found = Vec::new();
            model.for_each(text, |token| found.push(token));
            found
        };
        assert_eq!(tokens("Unwanted run!"), [1, 2, 3, 4, 5]);
        assert_eq!(tokens("runx 表表 [UNK]"), [6, 6]);
        assert_eq!(model.len(), 7);
        assert!(tokens(&"un".repeat(500)).is_empty());
    }
}
