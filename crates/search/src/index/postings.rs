//! Posting lists: documents that have a term, in order, each with the term's weight. Distances between documents are
//! variable-length integers.

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
    bytes: Vec<u8>,
    next: u32,
    count: u32,
}

impl PostingsBuilder {
    /// Appends a document, which comes after all documents before.
    pub(super) fn push(&mut self, document: u32, weight: u8) {
        push_varint(&mut self.bytes, document - self.next);
        self.bytes.push(weight);
        self.next = document + 1;
        self.count += 1;
    }

    /// Returns whether the list has no documents.
    pub(super) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Appends the list to all lists of a segment, and starts the next one.
    pub(super) fn finish_into(&mut self, lists: &mut Vec<u8>) {
        push_varint(lists, self.count);
        lists.extend_from_slice(&self.bytes);
        self.bytes.clear();
        (self.next, self.count) = (0, 0);
    }
}

/// Iterator over a posting list.
#[derive(Debug, Clone)]
pub(crate) struct Postings<'a> {
    bytes: &'a [u8],
    at: usize,
    next: u32,
    count: u32,
}

impl<'a> Postings<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        let mut at = 0;
        let count = read_varint(bytes, &mut at).unwrap_or(0);
        Self { bytes, at, next: 0, count }
    }

    /// Returns the number of documents, including deleted ones.
    pub(crate) const fn documents(&self) -> u32 {
        self.count
    }
}

impl Iterator for Postings<'_> {
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn lists_are_read_as_they_were_written(
            documents in prop::collection::btree_map(0_u32..1 << 20, 1_u8.., 0..200),
        ) {
            let mut builder = PostingsBuilder::default();
            for (&document, &weight) in &documents {
                builder.push(document, weight);
            }
            prop_assert_eq!(builder.is_empty(), documents.is_empty());
            let mut bytes = Vec::new();
            builder.finish_into(&mut bytes);
            let list = Postings::new(&bytes);
            prop_assert_eq!(list.documents() as usize, documents.len());
            prop_assert_eq!(list.collect::<Vec<_>>(), documents.into_iter().collect::<Vec<_>>());
        }
    }
}
