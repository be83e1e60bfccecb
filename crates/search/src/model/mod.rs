//! Static embedding models: a vector for each token, in the layout of model2vec (`tokenizer.json` and
//! `model.safetensors`).
//!
//! - [`safetensors`]: the table of vectors
//! - [`tokens`]: from a text to numbers of tokens; [`word_piece`] and [`unigram`] are its two models
//!
//! The vector of a text is the mean of the vectors of its tokens. There is no network to run, so embedding a document
//! costs less than analyzing it.

mod safetensors;
mod tokens;
mod unigram;
mod word_piece;

use std::fmt;

use self::{safetensors::Matrix, tokens::TokenModel};
pub use self::{safetensors::SafetensorsError, tokens::TokenizerError};

/// Bytes of a text that are embedded: what a document is about is said at its start.
const MAX_TEXT_BYTES: usize = 4096;

/// Model that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// `tokenizer.json` cannot be used.
    #[error("tokenizer.json: {0}")]
    Tokenizer(#[from] TokenizerError),
    /// `model.safetensors` cannot be used.
    #[error("model.safetensors: {0}")]
    Safetensors(#[from] SafetensorsError),
    /// The two files do not belong together.
    #[error("the tokenizer has {tokens} tokens and the table {rows} rows")]
    Mismatch {
        /// Largest token number and one.
        tokens: usize,
        /// Rows of the table.
        rows: usize,
    },
}

/// Static embedding model.
pub struct EmbeddingModel {
    tokens: TokenModel,
    vectors: Matrix,
}

impl fmt::Debug for EmbeddingModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddingModel")
            .field("dimensions", &self.vectors.columns())
            .finish_non_exhaustive()
    }
}

impl EmbeddingModel {
    /// Reads a model from the contents of its two files.
    ///
    /// # Errors
    /// When a file cannot be used, or the two do not belong together.
    pub fn from_files(tokenizer_json: &str, safetensors: &[u8]) -> Result<Self, ModelError> {
        let tokens = TokenModel::parse(tokenizer_json)?;
        let vectors = Matrix::parse(safetensors)?;
        if tokens.len() > vectors.rows() {
            return Err(ModelError::Mismatch { tokens: tokens.len(), rows: vectors.rows() });
        }
        Ok(Self { tokens, vectors })
    }

    /// Returns the vector of a text; `None` if no token of it is known.
    pub(crate) fn embed(&self, text: &str) -> Option<Embedding> {
        let text = &text[..text.floor_char_boundary(MAX_TEXT_BYTES)];
        let mut sum = vec![0.0_f32; self.vectors.columns()];
        let mut count = 0_usize;
        self.tokens.for_each(text, |token| {
            if let Some(row) = self.vectors.row(token) {
                sum.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
                count += 1;
            }
        });
        (count > 0).then(|| Embedding::from_vector(&sum)).flatten()
    }
}

/// Direction of a text, quantized.
#[derive(Debug, Clone)]
pub(crate) struct Embedding(Box<[i8]>);

impl Embedding {
    /// Quantizes the direction of a vector; `None` for one without a direction.
    fn from_vector(vector: &[f32]) -> Option<Self> {
        let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
        if !length.is_finite() || length <= f32::EPSILON {
            return None;
        }
        let largest = vector.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
        let quantize = |value: &f32| (value / largest * 127.0).round() as i8;
        Some(Self(vector.iter().map(quantize).collect()))
    }

    /// Returns the bytes in memory.
    pub(crate) fn memory(&self) -> usize {
        self.0.len()
    }

    /// Returns the cosine of the angle between two directions.
    pub(crate) fn cosine(&self, other: &Self) -> f32 {
        let dot = |one: &[i8], other: &[i8]| -> f32 {
            let products = one.iter().zip(other).map(|(a, b)| i32::from(*a) * i32::from(*b));
            products.sum::<i32>() as f32
        };
        let lengths = (dot(&self.0, &self.0) * dot(&other.0, &other.0)).sqrt();
        if lengths > 0.0 { dot(&self.0, &other.0) / lengths } else { 0.0 }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;

    use super::*;

    /// Makes a model with a vector for each word.
    pub(crate) fn tiny_model(words: &[(&str, [f32; 3])]) -> EmbeddingModel {
        let (tokenizer, tensors) = tiny_files(words);
        EmbeddingModel::from_files(&tokenizer, &tensors).unwrap()
    }

    pub(crate) fn tiny_files(words: &[(&str, [f32; 3])]) -> (String, Vec<u8>) {
        let vocabulary: serde_json::Map<String, serde_json::Value> = std::iter::once("[UNK]")
            .chain(words.iter().map(|(word, _)| *word))
            .zip(0..)
            .map(|(word, number)| (word.to_owned(), json!(number)))
            .collect();
        let tokenizer = json!({
            "normalizer": { "type": "BertNormalizer", "lowercase": true },
            "pre_tokenizer": { "type": "BertPreTokenizer" },
            "model": {
                "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                "vocab": vocabulary,
            },
        });
        let rows = std::iter::once([0.0; 3]).chain(words.iter().map(|(_, vector)| *vector));
        let data: Vec<u8> = rows.flatten().flat_map(f32::to_le_bytes).collect();
        let header = json!({
            "embeddings": { "dtype": "F32", "shape": [words.len() + 1, 3], "data_offsets": [0, data.len()] },
        });
        let header = header.to_string();
        let mut file = (header.len() as u64).to_le_bytes().to_vec();
        file.extend_from_slice(header.as_bytes());
        file.extend_from_slice(&data);
        (tokenizer.to_string(), file)
    }

    #[test]
    fn near_words_have_near_vectors() {
        let model = tiny_model(&[
            ("kitten", [1.0, 0.1, 0.0]),
            ("cat", [1.0, 0.0, 0.0]),
            ("car", [0.0, 0.0, 1.0]),
            ("##s", [0.1, 0.0, 0.0]),
        ]);
        let embed = |text: &str| model.embed(text).unwrap();
        let (kittens, cat, car) = (embed("My kittens!"), embed("CAT"), embed("car"));
        assert!(kittens.cosine(&cat) > 0.95);
        assert!(kittens.cosine(&car) < 0.1);
        assert!(model.embed("unknown words").is_none());
        assert!(model.embed("").is_none());
    }

    #[test]
    fn files_that_do_not_belong_together_are_refused() {
        let (tokenizer, _) = tiny_files(&[("a", [0.0; 3]), ("b", [0.0; 3])]);
        let (_, tensors) = tiny_files(&[("a", [0.0; 3])]);
        let error = EmbeddingModel::from_files(&tokenizer, &tensors).unwrap_err();
        assert_eq!(error, ModelError::Mismatch { tokens: 3, rows: 2 });
    }
}
