//! From a document to terms with weights.
//!
//! - [`weights`]: the weight of a term by the fields it occurs in
//! - [`markdown`]: headings, code and text of a body
//! - [`negation`]: sentences of a description that say when not to use a skill
//! - [`aliases`]: acronyms that a text explains
//! - [`stored_text`]: the text that snippets are cut from, compressed

pub(crate) mod aliases;
pub(crate) mod markdown;
mod negation;
pub(crate) mod stored_text;
pub(crate) mod weights;

use std::{collections::HashMap, sync::Arc};

use foldhash::fast::RandomState;
use skills_core::{limits::MAX_DESCRIPTION_CHARS, text::first_chars};

use self::{
    aliases::Alias,
    markdown::LineKind,
    stored_text::{StoredText, TextCompressor},
    weights::{FieldCounts, quantize},
};
use crate::{
    document::{DocumentKey, HitKind, SearchDocument, SearchField},
    model::{Embedding, EmbeddingModel},
    text::{Token, TokenKind, Tokenizer, fold},
};

/// Most terms of the short fields that are kept in order.
const MAX_SHORT_TERMS: usize = 256;
/// Weight of a part of a compound, and of code, beside a word of the text.
const PART_COUNT: f32 = 0.5;
/// Most tags and allowed tools of a document that can be filtered by.
const MAX_LABELS: usize = 64;

/// Hash of a term, for the order of terms in short fields. Zero separates fields.
pub(crate) type TermHash = u32;

/// Returns the hash of a term. The same in every process, so that results are reproducible.
#[must_use]
pub(crate) fn term_hash(term: &str) -> TermHash {
    // FNV-1a.
    let hash = term
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    hash.max(1)
}

/// Indexed document without its postings.
#[derive(Debug)]
pub(crate) struct DocumentRecord {
    /// Key.
    pub(crate) key: DocumentKey,
    /// Kind shown in answers.
    pub(crate) kind: HitKind,
    /// Folded id, with one kind of separator.
    pub(crate) id_key: Box<str>,
    /// Folded name of the frontmatter, if it differs from the id.
    pub(crate) name_key: Option<Box<str>>,
    /// Folded title, if it differs from the id.
    pub(crate) title_key: Option<Box<str>>,
    /// Folded tags.
    pub(crate) tags: Box<[Box<str>]>,
    /// Folded names of allowed tools.
    pub(crate) tools: Box<[Box<str>]>,
    /// Terms of id, name, title, tags and description in order.
    pub(crate) short: Box<[TermHash]>,
    /// Number of terms at the start of `short` that belong to the id.
    pub(crate) name_terms: u8,
    /// Text for snippets.
    pub(crate) text: StoredText,
    /// Meaning of the document, if there is a model.
    pub(crate) embedding: Option<Embedding>,
}

impl DocumentRecord {
    /// Returns the approximate memory in bytes.
    pub(crate) fn memory(&self) -> usize {
        let labels =
            self.tags.iter().chain(&self.tools).map(|label| label.len() + 16).sum::<usize>();
        let keys = [&self.name_key, &self.title_key];
        let keys = keys.into_iter().flatten().map(|key| key.len()).sum::<usize>();
        size_of::<Self>()
            + self.key.id.len()
            + self.id_key.len()
            + keys
            + labels
            + self.short.len() * size_of::<TermHash>()
            + self.text.memory()
            + self.embedding.as_ref().map_or(0, Embedding::memory)
    }
}

/// Document with its terms, ready to be indexed.
#[derive(Debug)]
pub struct AnalyzedDocument {
    pub(crate) record: Arc<DocumentRecord>,
    /// Distinct terms with their quantized weights.
    pub(crate) terms: Vec<(Box<str>, u8)>,
    pub(crate) aliases: Vec<Alias>,
}

impl AnalyzedDocument {
    /// Returns the key of the document.
    #[must_use]
    pub fn key(&self) -> &DocumentKey {
        &self.record.key
    }
}

/// Analyzer with its buffers.
pub struct Analyzer {
    plain: Tokenizer,
    joining: Tokenizer,
    compressor: TextCompressor,
    model: Option<Arc<EmbeddingModel>>,
    counts: HashMap<Box<str>, FieldCounts, RandomState>,
    lengths: [f32; SearchField::COUNT],
    short: Vec<TermHash>,
}

impl std::fmt::Debug for Analyzer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Analyzer").finish_non_exhaustive()
    }
}

impl Default for Analyzer {
    fn default() -> Self {
        Self {
            plain: Tokenizer::default().caching(),
            joining: Tokenizer::joining().caching(),
            compressor: TextCompressor::default(),
            model: None,
            counts: HashMap::default(),
            lengths: [0.0; SearchField::COUNT],
            short: Vec::new(),
        }
    }
}

impl Analyzer {
    /// Creates an analyzer that also embeds documents.
    #[must_use]
    pub fn with_model(model: Option<Arc<EmbeddingModel>>) -> Self {
        Self { model, ..Self::default() }
    }

    /// Replaces the buffers, which a panic may have left in any state.
    pub fn reset(&mut self) {
        *self = Self::with_model(self.model.take());
    }

    /// Analyzes a document.
    pub fn analyze(&mut self, document: &SearchDocument) -> AnalyzedDocument {
        self.counts.clear();
        self.lengths = [0.0; SearchField::COUNT];
        self.short.clear();
        self.short_field(SearchField::Id, &document.key.id);
        let name_terms = u8::try_from(self.short.len()).unwrap_or(u8::MAX);
        if let Some(name) = &document.name {
            self.short_field(SearchField::Name, name);
        }
        // A text counts once: not again as a title that repeats the id, nor as a paragraph that is the description.
        if name_key(&document.title) != name_key(&document.key.id) {
            self.short_field(SearchField::Title, &document.title);
        }
        for tag in &document.tags {
            self.short_field(SearchField::Tags, tag);
        }
        let (positive, negative) = negation::split(&document.description);
        self.short_field(SearchField::Description, &positive);
        self.long_field(SearchField::Body, &negative, PART_COUNT);
        for file in &document.files {
            self.long_field(SearchField::Files, file, 1.0);
        }
        for parameter in &document.parameters {
            self.long_field(SearchField::Parameters, parameter, 1.0);
        }
        // A bounded part of it: each line is looked for.
        let listed = first_chars(&document.description, MAX_DESCRIPTION_CHARS);
        markdown::for_each_line(&document.body, |kind, line| match kind {
            LineKind::Heading => self.long_field(SearchField::Headings, line, 1.0),
            LineKind::Text if listed.contains(line.trim()) => {}
            LineKind::Text => self.long_field(SearchField::Body, line, 1.0),
            LineKind::Code => self.long_field(SearchField::Body, line, PART_COUNT),
        });
        let lengths = self.lengths;
        let terms = self.counts.drain();
        let terms = terms.map(|(term, counts)| (term, quantize(counts.weight(&lengths)))).collect();
        let mut aliases = aliases::find(&document.description);
        aliases.extend(aliases::find(markdown::head(&document.body)));
        AnalyzedDocument { record: Arc::new(self.record(document, name_terms)), terms, aliases }
    }

    fn record(&mut self, document: &SearchDocument, name_terms: u8) -> DocumentRecord {
        let id_key = name_key(&document.key.id);
        let other = |text: &str| {
            let key = name_key(text);
            (!key.is_empty() && key != id_key).then(|| key.into_boxed_str())
        };
        let labels = |labels: &[String], key: fn(&str) -> String| -> Box<[Box<str>]> {
            labels.iter().take(MAX_LABELS).map(|label| key(label).into_boxed_str()).collect()
        };
        DocumentRecord {
            kind: document.kind,
            name_key: document.name.as_deref().and_then(other),
            title_key: other(&document.title),
            tags: labels(&document.tags, |tag| fold(tag).trim().to_owned()),
            tools: labels(&document.allowed_tools, |tool| fold(tool).trim().to_owned()),
            short: self.short.as_slice().into(),
            name_terms,
            text: self.compressor.compress(document),
            embedding: self.model.as_ref().and_then(|model| model.embed(&embedded_text(document))),
            id_key: id_key.into_boxed_str(),
            key: document.key.clone(),
        }
    }

    /// Counts the terms of a field whose order is kept.
    fn short_field(&mut self, field: SearchField, text: &str) {
        let Self { joining, counts, lengths, short, .. } = self;
        // Stop words are part of names: somebody may look for `how-to`.
        let keeps_stop_words = matches!(field, SearchField::Id | SearchField::Name);
        joining.for_each(text, |token| {
            if short.len() < MAX_SHORT_TERMS && is_main(&token) {
                short.push(term_hash(token.term));
            }
            count(counts, lengths, field, &token, 1.0, keeps_stop_words);
        });
        if field != SearchField::Id {
            short.push(0);
        }
    }

    fn long_field(&mut self, field: SearchField, text: &str, weight: f32) {
        let Self { plain, counts, lengths, .. } = self;
        plain.for_each(text, |token| count(counts, lengths, field, &token, weight, false));
    }
}

/// Returns the text whose meaning stands for a document: what it is called and what it says it is for, then its start.
fn embedded_text(document: &SearchDocument) -> String {
    let tags = document.tags.join(" ");
    let head = markdown::head(&document.body);
    [document.key.id.as_ref(), &document.title, &tags, &document.description, head]
        .join("\n")
        .replace('-', " ")
}

const fn is_main(token: &Token<'_>) -> bool {
    matches!(token.kind, TokenKind::Word | TokenKind::Bigram)
}

fn count(
    counts: &mut HashMap<Box<str>, FieldCounts, RandomState>,
    lengths: &mut [f32; SearchField::COUNT],
    field: SearchField,
    token: &Token<'_>,
    weight: f32,
    keeps_stop_words: bool,
) {
    if !keeps_stop_words && token.is_stop_word {
        return;
    }
    let (amount, length) = if is_main(token) { (weight, 1.0) } else { (weight * PART_COUNT, 0.0) };
    lengths[field as usize] += length;
    if let Some(found) = counts.get_mut(token.term) {
        found.add(field, amount);
    } else {
        let mut found = FieldCounts::default();
        found.add(field, amount);
        counts.insert(token.term.into(), found);
    }
}

/// Returns the form of an id, name or title in which two of them are compared: folded words with one space between. A text
/// without words stays as it is.
#[must_use]
pub(crate) fn name_key(text: &str) -> String {
    let folded = fold(text);
    let words = folded.split(|c: char| !c.is_alphanumeric() && !matches!(c, '+' | '#'));
    let mut key = String::with_capacity(folded.len());
    for word in words.filter(|word| !word.is_empty()) {
        if !key.is_empty() {
            key.push(' ');
        }
        key.push_str(word);
    }
    if key.is_empty() { folded.trim().to_owned() } else { key }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weight(document: &AnalyzedDocument, term: &str) -> u8 {
        document.terms.iter().find(|(found, _)| &**found == term).map_or(0, |(_, weight)| *weight)
    }

    #[test]
    fn better_fields_weigh_more() {
        let mut document = SearchDocument::new(HitKind::Skill, "alpha".into());
        document.title = "Beta".to_owned();
        document.description = "Gamma things. Do not use for omega.".to_owned();
        document.body = "# Delta\n\nEpsilon text.\n\n```\nzeta\n```\n".to_owned();
        let analyzed = Analyzer::default().analyze(&document);
        let weights = ["alpha", "gamma", "beta", "epsilon", "zeta"];
        let weights = weights.map(|term| weight(&analyzed, term));
        assert!(weights.is_sorted_by(|one, other| one > other), "{weights:?}");
        assert!(weight(&analyzed, "omega") < weight(&analyzed, "epsilon"));
        assert!(weight(&analyzed, "omega") > 0 && weight(&analyzed, "the") == 0);
    }

    #[test]
    fn names_are_compared_without_regard_to_separators() {
        assert_eq!(name_key("Code-Review_2"), "code review 2");
        assert_eq!(name_key("  C++  Café "), "c++ cafe");
        assert_eq!((name_key(" -- "), name_key(" ")), ("--".to_owned(), String::new()));
    }
}
