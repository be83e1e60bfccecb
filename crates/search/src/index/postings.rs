//! Posting lists: documents that have a term, in order, each with the term's weight.
//!
//! A list is sparse or dense, whichever takes less memory. A sparse one has the distances between documents as
//! variable-length integers, each before a weight. A dense one has a weight for every document of the segment, 0 for those
//! without the term: frequent terms are looked up by document without reading what is before it.

/// Appends an integer.
fn push_varint(bytes: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        bytes.push((value as u8) | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Reads an integer.
fn read_varint(bytes: &[u8], at: &mut usize) -> Option<u32> {
    let mut value = 0;
    for shift in [0, 7, 14, 21, 28] {
        let byte = *bytes.get(*at)?;
        *at += 1;
        value |= u32::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// Posting list under construction.
#[derive(Debug, Default)]
pub(super) struct PostingsBuilder {
    postings: Vec<(u32, u8)>,
    sparse: Vec<u8>,
}

impl PostingsBuilder {
    /// Appends a document, which comes after all documents before. The weight is not 0.
    pub(super) fn push(&mut self, document: u32, weight: u8) {
        self.postings.push((document, weight));
    }

    /// Returns whether the list has no documents.
    pub(super) const fn is_empty(&self) -> bool {
        self.postings.is_empty()
    }

    /// Appends the list to all lists of a segment of `documents` documents, and starts the next one.
    pub(super) fn finish_into(&mut self, lists: &mut Vec<u8>, documents: usize) {
        let count = u32::try_from(self.postings.len()).unwrap_or(u32::MAX);
        self.sparse.clear();
        let mut next = 0;
        for &(document, weight) in &self.postings {
            push_varint(&mut self.sparse, document - next);
            self.sparse.push(weight);
            next = document + 1;
        }
        // The lowest bit tells the form. A segment has far less than 2^31 documents.
        let is_dense = documents <= self.sparse.len();
        push_varint(lists, count << 1 | u32::from(is_dense));
        if is_dense {
            let start = lists.len();
            lists.resize(start + documents, 0);
            for &(document, weight) in &self.postings {
                lists[start + document as usize] = weight;
            }
        } else {
            lists.extend_from_slice(&self.sparse);
        }
        self.postings.clear();
    }
}

/// Posting list.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Postings<'a> {
    count: u32,
    form: PostingsForm<'a>,
}

/// Form of a posting list.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PostingsForm<'a> {
    /// Weights by document.
    Dense(&'a [u8]),
    /// Distances and weights.
    Sparse(SparsePostings<'a>),
}

impl<'a> Postings<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        let mut at = 0;
        let header = read_varint(bytes, &mut at).unwrap_or(0);
        let bytes = &bytes[at..];
        let form = if header & 1 == 1 {
            PostingsForm::Dense(bytes)
        } else {
            PostingsForm::Sparse(SparsePostings { bytes, at: 0, next: 0 })
        };
        Self { count: header >> 1, form }
    }

    /// Returns the number of documents, including deleted ones.
    pub(crate) const fn documents(&self) -> u32 {
        self.count
    }

    /// Returns the list in its form.
    pub(crate) const fn form(&self) -> PostingsForm<'a> {
        self.form
    }

    /// Calls `sink` with each document and its weight, in order.
    pub(crate) fn for_each(self, mut sink: impl FnMut(u32, u8)) {
        match self.form {
            PostingsForm::Dense(weights) => {
                let weights = weights.iter().zip(0..).filter(|(weight, _)| **weight > 0);
                weights.for_each(|(weight, document)| sink(document, *weight));
            }
            PostingsForm::Sparse(list) => {
                list.for_each(|(document, weight)| sink(document, weight))
            }
        }
    }

    /// Returns a reader of weights by document.
    pub(crate) fn reader(self) -> PostingsReader<'a> {
        PostingsReader { form: self.form, head: None }
    }
}

/// Iterator over a sparse posting list.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SparsePostings<'a> {
    bytes: &'a [u8],
    at: usize,
    next: u32,
}

impl SparsePostings<'_> {
    /// Returns the next posting if its document is before `end`.
    pub(crate) fn next_before(&mut self, end: u32) -> Option<(u32, u8)> {
        let mut ahead = *self;
        let posting = ahead.next().filter(|(document, _)| *document < end)?;
        *self = ahead;
        Some(posting)
    }
}

impl Iterator for SparsePostings<'_> {
    type Item = (u32, u8);

    fn next(&mut self) -> Option<Self::Item> {
        // Most distances take one byte.
        let distance = match self.bytes.get(self.at) {
            Some(&byte) if byte < 0x80 => {
                self.at += 1;
                u32::from(byte)
            }
            _ => read_varint(self.bytes, &mut self.at)?,
        };
        let weight = *self.bytes.get(self.at)?;
        self.at += 1;
        let document = self.next + distance;
        self.next = document + 1;
        Some((document, weight))
    }
}

/// Reader of the weights of documents that are asked for in order.
#[derive(Debug)]
pub(crate) struct PostingsReader<'a> {
    form: PostingsForm<'a>,
    /// Posting of a sparse list that was read last.
    head: Option<(u32, u8)>,
}

impl PostingsReader<'_> {
    /// Returns the weight of a document, 0 if it is not in the list. No document before an earlier one may be asked for.
    pub(crate) fn weight(&mut self, document: u32) -> u8 {
        match &mut self.form {
            PostingsForm::Dense(weights) => weights.get(document as usize).copied().unwrap_or(0),
            PostingsForm::Sparse(list) => {
                while self.head.is_none_or(|(head, _)| head < document) {
                    self.head = list.next();
                    if self.head.is_none() {
                        // Nothing is left; documents have smaller numbers.
                        self.head = Some((u32::MAX, 0));
                    }
                }
                self.head.filter(|(head, _)| *head == document).map_or(0, |(_, weight)| weight)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn lists_are_read_as_they_were_written(
            postings in prop::collection::btree_map(0_u32..2000, 1_u8.., 0..300),
            more in 0_usize..3000,
        ) {
            let documents = postings.keys().next_back().map_or(0, |last| *last as usize + 1) + more;
            let mut builder = PostingsBuilder::default();
            for (&document, &weight) in &postings {
                builder.push(document, weight);
            }
            let mut bytes = Vec::new();
            builder.finish_into(&mut bytes, documents);
            let list = Postings::new(&bytes);
            prop_assert_eq!(list.documents() as usize, postings.len());
            prop_assert!(bytes.len() <= 3 + documents.min(3 * postings.len()));
            let mut read = std::collections::BTreeMap::new();
            list.for_each(|document, weight| { read.insert(document, weight); });
            prop_assert_eq!(&read, &postings);
            let mut reader = list.reader();
            for document in 0..u32::try_from(documents).unwrap() {
                let weight = postings.get(&document).copied().unwrap_or(0);
                prop_assert_eq!(reader.weight(document), weight);
            }
        }
    }

    #[test]
    fn a_list_takes_the_smaller_form() {
        let size = |count: u32, documents: usize| {
            let mut builder = PostingsBuilder::default();
            (0..count).for_each(|document| builder.push(document, 7));
            let mut bytes = Vec::new();
            builder.finish_into(&mut bytes, documents);
            (bytes.len(), matches!(Postings::new(&bytes).form(), PostingsForm::Dense(_)))
        };
        assert_eq!(size(10, 1000), (21, false));
        assert_eq!(size(1000, 1000), (1002, true));
    }
}
