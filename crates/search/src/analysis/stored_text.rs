//! Text of a document, compressed. Snippets and matched fields are computed from it for the few results of a page, so
//! that a search reads nothing else.

use std::{fmt, io::Read as _};

use flate2::{Compress, Compression, FlushCompress, read::DeflateDecoder};

use crate::document::{SearchDocument, SearchField};

/// Most bytes of a body that are kept for snippets.
const MAX_BODY_BYTES: usize = 48 * 1024;
/// Separator of fields; a space in their texts.
const SEPARATOR: char = '\u{1f}';
/// Order of the fields.
const FIELDS: [SearchField; 7] = [
    SearchField::Name,
    SearchField::Title,
    SearchField::Tags,
    SearchField::Description,
    SearchField::Files,
    SearchField::Parameters,
    SearchField::Body,
];

/// Compressed texts of a document's fields.
pub(crate) struct StoredText {
    compressed: Box<[u8]>,
    bytes: u32,
}

impl fmt::Debug for StoredText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredText").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl StoredText {
    /// Returns the memory beside the struct itself.
    pub(crate) fn memory(&self) -> usize {
        self.compressed.len()
    }

    /// Returns the bytes of the texts.
    pub(crate) const fn len(&self) -> usize {
        self.bytes as usize
    }

    /// Decompresses the texts.
    pub(crate) fn read(&self) -> FieldTexts {
        let mut text = String::with_capacity(self.bytes as usize);
        let limit = u64::from(self.bytes);
        // Compressed in this process from valid text: an error leaves the text empty.
        let read = DeflateDecoder::new(&*self.compressed).take(limit).read_to_string(&mut text);
        if read.is_err() {
            text.clear();
        }
        FieldTexts(text)
    }
}

/// Texts of a document's fields.
#[derive(Debug)]
pub(crate) struct FieldTexts(String);

impl FieldTexts {
    /// Iterates over the fields with their texts. The headings are part of the body.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (SearchField, &str)> {
        FIELDS.into_iter().zip(self.0.split(SEPARATOR))
    }

    /// Returns the text of a field.
    pub(crate) fn field(&self, field: SearchField) -> &str {
        self.iter().find(|(found, _)| *found == field).map_or("", |(_, text)| text)
    }
}

/// Compressor with its buffers, which are large.
pub(crate) struct TextCompressor {
    compress: Compress,
    text: String,
    output: Vec<u8>,
}

impl Default for TextCompressor {
    fn default() -> Self {
        let compress = Compress::new(Compression::new(5), false);
        Self { compress, text: String::new(), output: Vec::new() }
    }
}

impl TextCompressor {
    pub(crate) fn compress(&mut self, document: &SearchDocument) -> StoredText {
        self.text.clear();
        for field in FIELDS {
            if field != SearchField::Name {
                self.text.push(SEPARATOR);
            }
            match field {
                SearchField::Name => self.push(document.name.as_deref().unwrap_or_default()),
                SearchField::Title => self.push(&document.title),
                SearchField::Tags => self.push_all(&document.tags),
                SearchField::Description => self.push(&document.description),
                SearchField::Files => self.push_all(&document.files),
                SearchField::Parameters => self.push_all(&document.parameters),
                _ => {
                    let end = document.body.floor_char_boundary(MAX_BODY_BYTES);
                    self.push(&document.body[..end]);
                }
            }
        }
        self.compress.reset();
        self.output.clear();
        self.output.reserve(self.text.len() + self.text.len() / 64 + 64);
        // The reserved space holds any result, so one call finishes it.
        let done = self.compress.compress_vec(
            self.text.as_bytes(),
            &mut self.output,
            FlushCompress::Finish,
        );
        if done.is_err() {
            self.output.clear();
        }
        let bytes = u32::try_from(self.text.len()).unwrap_or(u32::MAX);
        StoredText { compressed: self.output.as_slice().into(), bytes }
    }

    fn push(&mut self, text: &str) {
        self.text.extend(text.chars().map(|c| if c == SEPARATOR { ' ' } else { c }));
    }

    fn push_all(&mut self, texts: &[String]) {
        for text in texts {
            self.push(text);
            self.text.push('\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::HitKind;

    #[test]
    fn texts_are_read_as_they_were_written() {
        let mut document = SearchDocument::new(HitKind::Skill, "a".into());
        document.title = "Ti\u{1f}tle".to_owned();
        document.body = "Body é ".repeat(20_000);
        let mut compressor = TextCompressor::default();
        let first = compressor.compress(&document);
        let stored = compressor.compress(&document);
        assert_eq!(first.compressed, stored.compressed);
        let texts = stored.read();
        assert_eq!(texts.field(SearchField::Title), "Ti tle");
        assert!(texts.field(SearchField::Body).len() <= MAX_BODY_BYTES);
        assert!(document.body.starts_with(texts.field(SearchField::Body)));
        assert!(stored.memory() < 1000);
    }
}
