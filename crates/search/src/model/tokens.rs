//! Tokens of a static model, read from a `tokenizer.json`.

use serde::Deserialize;
use serde_json::Value;

use super::{unigram::Unigram, word_piece::WordPiece};
use crate::text::fold;

/// Tokenizer that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenizerError {
    /// The file is not the description of a tokenizer.
    #[error("it is not the description of a tokenizer")]
    Format,
    /// The tokenizer works in another way.
    #[error("its model is {0}; WordPiece and Unigram are supported")]
    Model(String),
}

#[derive(Deserialize)]
struct TokenizerFile {
    #[serde(default)]
    normalizer: Value,
    model: Value,
}

/// Tokenizer of a static model.
pub(super) enum TokenModel {
    WordPiece(WordPiece),
    Unigram(Unigram),
}

impl TokenModel {
    /// Reads a description.
    pub(super) fn parse(json: &str) -> Result<Self, TokenizerError> {
        let file: TokenizerFile = serde_json::from_str(json).map_err(|_| TokenizerError::Format)?;
        // Most models are trained on folded text and say so.
        let folds = file.normalizer.to_string().contains("\"lowercase\":true")
            || file.normalizer.to_string().contains("Lowercase");
        let name = file.model.get("type").and_then(Value::as_str).unwrap_or("missing").to_owned();
        match name.as_str() {
            "WordPiece" => WordPiece::parse(file.model, folds).map(Self::WordPiece),
            "Unigram" => Unigram::parse(file.model, folds).map(Self::Unigram),
            _ => return Err(TokenizerError::Model(name.chars().take(32).collect())),
        }
        .ok_or(TokenizerError::Format)
    }

    /// Returns the largest token number and one.
    pub(super) const fn len(&self) -> usize {
        match self {
            Self::WordPiece(model) => model.len(),
            Self::Unigram(model) => model.len(),
        }
    }

    /// Calls `sink` with the number of each known token of a text.
    pub(super) fn for_each(&self, text: &str, sink: impl FnMut(usize)) {
        match self {
            Self::WordPiece(model) => model.for_each(text, sink),
            Self::Unigram(model) => model.for_each(text, sink),
        }
    }
}

/// Normalizes a text as the model expects it.
pub(super) fn normalize(text: &str, folds: bool) -> String {
    if folds { fold(text).into_owned() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_tokenizers_are_refused() {
        let parse = |json: &str| TokenModel::parse(json).err();
        assert_eq!(parse("nonsense"), Some(TokenizerError::Format));
        assert_eq!(parse("{}"), Some(TokenizerError::Format));
        let other = parse(r#"{"model": {"type": "BPE"}}"#);
        assert_eq!(other, Some(TokenizerError::Model("BPE".to_owned())));
        assert_eq!(parse(r#"{"model": {"type": "WordPiece"}}"#), Some(TokenizerError::Format));
        assert_eq!(
            parse(r#"{"model": {"type": "Unigram", "vocab": 7}}"#),
            Some(TokenizerError::Format)
        );
    }
}
