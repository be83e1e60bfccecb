//! Unigram: the most probable split of a text into known pieces.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Value;

use super::tokens::normalize;

/// Mark at the start of a word.
const WORD_START: char = '\u{2581}';
/// Score of a character that no piece has, below all others.
const UNKNOWN_SCORE: f64 = -100.0;

#[derive(Deserialize)]
struct UnigramFile {
    vocab: Vec<(String, f64)>,
    #[serde(default)]
    unk_id: Option<usize>,
}

/// Unigram tokenizer.
pub(super) struct Unigram {
    pieces: HashMap<String, (usize, f64)>,
    longest: usize,
    unknown: Option<usize>,
    len: usize,
    folds: bool,
}

impl Unigram {
    pub(super) fn parse(model: Value, folds: bool) -> Option<Self> {
        let file: UnigramFile = serde_json::from_value(model).ok()?;
        let len = file.vocab.len();
        let longest = file.vocab.iter().map(|(piece, _)| piece.len()).max()?;
        let numbered = file.vocab.into_iter().enumerate();
        let pieces = numbered.map(|(number, (piece, score))| (piece, (number, score))).collect();
        Some(Self { pieces, longest, unknown: file.unk_id, len, folds })
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) fn for_each(&self, text: &str, mut sink: impl FnMut(usize)) {
        let text = normalize(text, self.folds);
        let mut marked = String::new();
        for word in text.split_whitespace() {
            marked.clear();
            marked.push(WORD_START);
            marked.push_str(word);
            self.split(&marked).into_iter().for_each(&mut sink);
        }
    }

    /// Finds the best split of a word by dynamic programming over its character boundaries.
    fn split(&self, word: &str) -> Vec<usize> {
        let mut best: Vec<Option<(f64, usize, Option<usize>)>> = vec![None; word.len() + 1];
        best[0] = Some((0.0, 0, None));
        for (start, c) in word.char_indices() {
            let Some((score, ..)) = best[start] else { continue };
            let mut offer = |end: usize, score: f64, piece: Option<usize>| {
                if best[end].is_none_or(|(known, ..)| known < score) {
                    best[end] = Some((score, start, piece));
                }
            };
            offer(start + c.len_utf8(), score + UNKNOWN_SCORE, None);
            let ends = word[start..].char_indices().map(|(at, c)| start + at + c.len_utf8());
            for end in ends.take_while(|end| end - start <= self.longest) {
                if let Some(&(piece, own)) = self.pieces.get(&word[start..end]) {
                    offer(end, score + own, Some(piece));
                }
            }
        }
        let mut tokens = Vec::new();
        let mut at = word.len();
        while at > 0 {
            let Some((_, start, piece)) = best[at] else { break };
            tokens.extend(piece.filter(|piece| Some(*piece) != self.unknown));
            at = start;
        }
        tokens.reverse();
        tokens
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn words_are_split_into_the_most_probable_pieces() {
        let vocabulary = json!([
            ["<unk>", 0.0],
            ["\u{2581}un", -2.0],
            ["want", -2.0],
            ["ed", -2.0],
            ["\u{2581}unwant", -3.0],
            ["\u{2581}", -5.0],
            ["表", -4.0]
        ]);
        let model = Unigram::parse(json!({ "vocab": vocabulary, "unk_id": 0 }), false).unwrap();
        let tokens = |text: &str| {
            let mut found = Vec::new();
            model.for_each(text, |token| found.push(token));
            found
        };
        assert_eq!(tokens("unwanted"), [4, 3]);
        assert_eq!(tokens("表x表"), [5, 6, 6]);
        assert_eq!(model.len(), 7);
        assert!(tokens("").is_empty());
    }
}
