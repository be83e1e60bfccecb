//! Immutable part of a partition: some documents with their terms.

use std::{collections::HashMap, sync::Arc};

use skills_core::EntryKind;

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

/// Letters and length of a folded id. Two ids at a small distance have similar ones, and comparing signatures reads no id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IdSignature(u64);

impl IdSignature {
    /// Bits of the length in bytes, above those of the letters.
    const LENGTH_BITS: u32 = 8;
    const LETTER_BITS: u32 = u64::BITS - Self::LENGTH_BITS;

    /// Returns the signature of a folded id.
    pub(crate) fn of(id: &str) -> Self {
        let letters =
            id.bytes().fold(0, |bits, byte| bits | 1 << (u32::from(byte) % Self::LETTER_BITS));
        let length = u64::from(u8::try_from(id.len()).unwrap_or(u8::MAX));
        Self(letters | length << Self::LETTER_BITS)
    }

    /// Returns whether two ids may be at most `edits` changes of a character apart. `bytes` is the length of the longest
    /// character of the ids that are compared.
    pub(crate) fn may_be_near(self, other: Self, edits: usize, bytes: usize) -> bool {
        let length = |signature: Self| (signature.0 >> Self::LETTER_BITS) as usize;
        let letters = ((self.0 ^ other.0) << Self::LENGTH_BITS).count_ones() as usize;
        // A change of a character takes its bytes away and adds those of another.
        letters <= 2 * edits * bytes && length(self).abs_diff(length(other)) <= edits * bytes
    }
}

/// Documents with their terms, sorted in several ways.
#[derive(Debug)]
pub(crate) struct Segment {
    records: Box<[Arc<DocumentRecord>]>,
    dictionary: Dictionary,
    /// End of each term's posting list.
    ends: Box<[u32]>,
    postings: Box<[u8]>,
    /// Documents sorted by key.
    by_key: Box<[u32]>,
    /// Documents sorted by the folded id, then by key.
    by_id: Box<[u32]>,
    /// Names and titles sorted by text, then by kind and key.
    names: Box<[(u32, NameKind)]>,
    /// Letters and lengths of the folded ids, by document.
    id_signatures: Box<[IdSignature]>,
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
        self.hashed_postings(term, term_hash(term))
    }

    /// Returns the posting list of a term with its hash, which is the same for all segments.
    pub(crate) fn hashed_postings(&self, term: &str, hash: TermHash) -> Option<Postings<'_>> {
        Some(self.list(self.dictionary.find(term, hash)?))
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

    /// Iterates over the documents in the order of their keys.
    pub(crate) fn documents_by_key(&self) -> &[u32] {
        &self.by_key
    }

    /// Iterates over the documents whose id begins with a text, in the order of their keys.
    pub(crate) fn with_id_prefix<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = u32> + 'a {
        let key = |document: &u32| &self.records[*document as usize].key;
        EntryKind::ALL.into_iter().flat_map(move |kind| {
            let start = self.by_key.partition_point(|document| {
                let key = key(document);
                (key.kind, &*key.id) < (kind, prefix)
            });
            let is_found = move |document: &u32| {
                let key = key(document);
                key.kind == kind && key.id.starts_with(prefix)
            };
            self.by_key[start..].iter().copied().take_while(is_found)
        })
    }

    /// Iterates over the documents whose folded id begins with a text, in the order of these ids.
    pub(crate) fn with_folded_id_prefix<'a>(
        &'a self,
        prefix: &'a str,
    ) -> impl Iterator<Item = u32> + 'a {
        let id = |document: &u32| &*self.records[*document as usize].id_key;
        let start = self.by_id.partition_point(|document| id(document) < prefix);
        let found = self.by_id[start..].iter().copied();
        found.take_while(move |document| id(document).starts_with(prefix))
    }

    /// Iterates over the documents that have a folded id, name or title, the best kind of name first, each kind in the
    /// order of keys.
    pub(crate) fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (NameKind, u32)> + 'a {
        let ids = self
            .with_folded_id_prefix(name)
            .take_while(move |document| *self.records[*document as usize].id_key == *name);
        let start = self.names.partition_point(|&found| self.name(found) < name);
        let others = self.names[start..].iter().copied();
        let others = others.take_while(move |&found| self.name(found) == name);
        ids.map(|document| (NameKind::Id, document))
            .chain(others.map(|(document, kind)| (kind, document)))
    }

    /// Returns the letters and lengths of the folded ids, by document.
    pub(crate) fn id_signatures(&self) -> &[IdSignature] {
        &self.id_signatures
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
            + self.records.len() * (2 * size_of::<u32>() + size_of::<IdSignature>())
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
        let record = |document: u32| &*self.records[document as usize];
        let mut by_key: Vec<u32> = (0..count).collect();
        by_key.sort_unstable_by(|one, other| record(*one).key.cmp(&record(*other).key));
        // Sorts that are stable keep the order of keys among equal names.
        let mut by_id = by_key.clone();
        by_id.sort_by(|one, other| record(*one).id_key.cmp(&record(*other).id_key));
        let kinds = [NameKind::Name, NameKind::Title];
        let mut names: Vec<(u32, NameKind)> = kinds
            .into_iter()
            .flat_map(|kind| by_key.iter().map(move |document| (*document, kind)))
            .filter(|&(document, kind)| name_of(record(document), kind).is_some())
            .collect();
        names.sort_by(|one, other| {
            name_of(record(one.0), one.1).cmp(&name_of(record(other.0), other.1))
        });
        let id_signatures = self.records.iter().map(|record| IdSignature::of(&record.id_key));
        let mut alias_index: HashMap<TermHash, Vec<u32>> = HashMap::new();
        for ((alias, _), at) in self.aliases.iter().zip(0..) {
            for term in [Some(&alias.acronym), alias.words.first()].into_iter().flatten() {
                alias_index.entry(term_hash(term)).or_default().push(at);
            }
        }
        Segment {
            by_key: by_key.into_boxed_slice(),
            by_id: by_id.into_boxed_slice(),
            id_signatures: id_signatures.collect(),
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
