//! Immutable part of a partition: some documents with their terms.

use std::{collections::HashMap, sync::Arc};

use super::{
    dictionary::{Dictionary, DictionaryBuilder},
    postings::{Postings, PostingsBuilder},
};
use crate::analysis::{AnalyzedDocument, DocumentRecord, TermHash, aliases::Alias, term_hash};

/// Name of a document that can be looked up as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NameKind {
    /// Id.
    Id,
    /// Name in the frontmatter.
    Name,
    /// Title.
    Title,
}

/// Documents with their terms, sorted in several ways.
#[derive(Debug)]
pub(crate) struct Segment {
    records: Box<[Arc<DocumentRecord>]>,
    dictionary: Dictionary,
    /// End of each term's posting list.
    ends: Box<[u32]>,
    postings: Box<[u8]>,
    /// Documents sorted by the text of a name.
    names: Box<[(u32, NameKind)]>,
    aliases: Box<[(Alias, u32)]>,
    /// Positions of aliases by the hashes of their acronyms and of their first words.
    alias_index: HashMap<TermHash, Vec<u32>>,
}

impl Segment {
    /// Builds the segment of some documents.
    pub(crate) fn from_documents(documents: Vec<AnalyzedDocument>) -> Self {
        let mut builder = SegmentBuilder::default();
        let mut lists: HashMap<Box<str>, Vec<(u32, u8)>> = HashMap::new();
        for AnalyzedDocument { record, terms, aliases } in documents {
            let number = builder.add_document(record, aliases);
            for (term, weight) in terms {
                lists.entry(term).or_default().push((number, weight));
            }
        }
        let mut lists: Vec<_> = lists.into_iter().collect();
        lists.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        for (term, list) in lists {
            list.into_iter().for_each(|(document, weight)| builder.add_posting(document, weight));
            builder.finish_term(&term);
        }
        builder.finish()
    }

    /// Returns the number of documents, including deleted ones.
    pub(crate) const fn len(&self) -> usize {
        self.records.len()
    }

    /// Returns the record of a document.
    pub(crate) fn record(&self, document: u32) -> &Arc<DocumentRecord> {
        &self.records[document as usize]
    }

    /// Returns the records in the order of their numbers.
    pub(crate) fn records(&self) -> &[Arc<DocumentRecord>] {
        &self.records
    }

    /// Returns the posting list of a term.
    pub(crate) fn postings(&self, term: &str) -> Option<Postings<'_>> {
        Some(self.list(self.dictionary.find(term)?))
    }

    /// Iterates over the terms that begin with a text, with their lists.
    pub(crate) fn prefixed(&self, prefix: &str) -> impl Iterator<Item = (&str, Postings<'_>)> {
        self.dictionary.prefixed(prefix).map(|at| (self.dictionary.term(at), self.list(at)))
    }

    pub(super) const fn term_count(&self) -> usize {
        self.dictionary.len()
    }

    pub(super) fn term(&self, number: usize) -> &str {
        self.dictionary.term(number)
    }

    pub(super) fn list(&self, number: usize) -> Postings<'_> {
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        Postings::new(&self.postings[start..self.ends[number] as usize])
    }

    /// Iterates over the aliases whose acronym or first word is a term, with their documents.
    pub(crate) fn aliases_of(&self, term: &str) -> impl Iterator<Item = (&Alias, u32)> {
        let found = self.alias_index.get(&term_hash(term)).into_iter().flatten();
        found.map(|&at| (&self.aliases[at as usize].0, self.aliases[at as usize].1))
    }

    /// Iterates over the aliases with their documents, in the order of these.
    pub(super) fn aliases(&self) -> impl Iterator<Item = (&Alias, u32)> {
        self.aliases.iter().map(|(alias, document)| (alias, *document))
    }

    /// Returns the documents with a name that begins with a folded text, in the order of these names.
    pub(crate) fn names_with_prefix(
        &self,
        prefix: &str,
    ) -> impl Iterator<Item = (&str, NameKind, u32)> {
        let start = self.names.partition_point(|&name| self.name(name) < prefix);
        let named = self.names[start..]
            .iter()
            .map(|&(document, kind)| (self.name((document, kind)), kind, document));
        named.take_while(move |(name, _, _)| name.starts_with(prefix))
    }

    fn name(&self, (document, kind): (u32, NameKind)) -> &str {
        name_of(&self.records[document as usize], kind).unwrap_or_default()
    }

    /// Returns the approximate memory in bytes.
    pub(crate) fn memory(&self) -> usize {
        let records = self.records.iter().map(|record| record.memory() + 24).sum::<usize>();
        let words = |alias: &Alias| alias.words.iter().map(|word| word.len() + 16).sum::<usize>();
        let aliases = self.aliases.iter().map(|(alias, _)| alias.acronym.len() + 80 + words(alias));
        records
            + self.dictionary.memory()
            + self.ends.len() * size_of::<u32>()
            + self.postings.len()
            + self.names.len() * size_of::<(u32, NameKind)>()
            + aliases.sum::<usize>()
    }
}

/// Returns a name of a document in the form in which names are compared.
pub(crate) fn name_of(record: &DocumentRecord, kind: NameKind) -> Option<&str> {
    match kind {
        NameKind::Id => Some(&record.id_key),
        NameKind::Name => record.name_key.as_deref(),
        NameKind::Title => record.title_key.as_deref(),
    }
}

/// Segment under construction: documents first, then terms in order, each after its postings.
#[derive(Debug, Default)]
pub(super) struct SegmentBuilder {
    records: Vec<Arc<DocumentRecord>>,
    aliases: Vec<(Alias, u32)>,
    dictionary: DictionaryBuilder,
    list: PostingsBuilder,
    ends: Vec<u32>,
    postings: Vec<u8>,
}

impl SegmentBuilder {
    /// Adds a document and returns its number.
    pub(super) fn add_document(
        &mut self,
        record: Arc<DocumentRecord>,
        aliases: impl IntoIterator<Item = Alias>,
    ) -> u32 {
        let number = u32::try_from(self.records.len()).unwrap_or(u32::MAX);
        self.records.push(record);
        self.aliases.extend(aliases.into_iter().map(|alias| (alias, number)));
        number
    }

    /// Adds a document of the next term, in order.
    pub(super) fn add_posting(&mut self, document: u32, weight: u8) {
        self.list.push(document, weight);
    }

    /// Adds a term with the documents that were added for it, in order. A term without documents is left out.
    pub(super) fn finish_term(&mut self, term: &str) {
        if self.list.is_empty() {
            return;
        }
        self.dictionary.push(term);
        self.list.finish_into(&mut self.postings, self.records.len());
        // Bounded like the terms.
        self.ends.push(u32::try_from(self.postings.len()).unwrap_or(u32::MAX));
    }

    pub(super) fn finish(self) -> Segment {
        let count = u32::try_from(self.records.len()).unwrap_or(u32::MAX);
        let kinds = [NameKind::Id, NameKind::Name, NameKind::Title];
        let mut names: Vec<(u32, NameKind)> = (0..count)
            .flat_map(|document| kinds.map(|kind| (document, kind)))
            .filter(|&(document, kind)| name_of(&self.records[document as usize], kind).is_some())
            .collect();
        names.sort_by_key(|&(document, kind)| name_of(&self.records[document as usize], kind));
        let mut alias_index: HashMap<TermHash, Vec<u32>> = HashMap::new();
        for ((alias, _), at) in self.aliases.iter().zip(0..) {
            for term in [Some(&alias.acronym), alias.words.first()].into_iter().flatten() {
                alias_index.entry(term_hash(term)).or_default().push(at);
            }
        }
        Segment {
            records: self.records.into_boxed_slice(),
            dictionary: self.dictionary.finish(),
            ends: self.ends.into_boxed_slice(),
            postings: self.postings.into_boxed_slice(),
            names: names.into_boxed_slice(),
            aliases: self.aliases.into_boxed_slice(),
            alias_index,
        }
    }
}
