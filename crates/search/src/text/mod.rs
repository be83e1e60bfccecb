//! From text to terms: folding, tokens, stems and stop words.
//!
//! Documents and queries go through the same steps, so a term of one equals a term of the other.

mod camel_case;
mod fold;
mod script;
mod stem;
mod stem_cache;
mod stop_words;
mod tokenizer;

pub use self::fold::fold;
pub(crate) use self::{
    script::{cjk_weight, is_unspaced},
    stem::stem,
    stop_words::is_generic_word,
    tokenizer::{Beginnings, Token, TokenKind, Tokenizer},
};

/// Returns the stems of a text's words, without parts of compounds.
#[must_use]
pub(crate) fn terms(text: &str) -> Vec<String> {
    let mut terms = Vec::new();
    Tokenizer::default().for_each(text, |token| {
        if matches!(token.kind, TokenKind::Word | TokenKind::Bigram) {
            terms.push(token.term.to_owned());
        }
    });
    terms
}
