//! Merging of segments. It reads immutable segments only, so any thread can do it.

use super::{
    SegmentView,
    segment::{Segment, SegmentBuilder},
};

/// Segments to be merged.
#[derive(Debug)]
pub struct MergeTask {
    /// Writer that planned the merge. Another one has other segments with the same ids.
    pub(super) writer: u64,
    pub(super) inputs: Vec<SegmentView>,
}

/// Result of a merge, for the writer.
#[derive(Debug)]
pub struct MergedSegment {
    /// Writer that planned the merge.
    pub(super) writer: u64,
    pub(super) segment: Segment,
    /// Ids of the merged segments.
    pub(super) inputs: Vec<u64>,
    /// Segment and number that each document had.
    pub(super) origins: Vec<(u64, u32)>,
}

impl MergeTask {
    /// Returns the number of documents to be merged, a measure of the time it takes.
    #[must_use]
    pub fn documents(&self) -> usize {
        self.inputs.iter().map(SegmentView::len).sum()
    }

    /// Merges the segments and drops deleted documents.
    #[must_use]
    pub fn run(self) -> MergedSegment {
        let mut builder = SegmentBuilder::default();
        let mut origins = Vec::new();
        let mut numbers: Vec<Vec<Option<u32>>> = Vec::with_capacity(self.inputs.len());
        for view in &self.inputs {
            let mut aliases = view.segment.aliases().peekable();
            let renumber = |(record, old): (_, u32)| {
                let mut own = Vec::new();
                while let Some((alias, _)) = aliases.next_if(|(_, document)| *document == old) {
                    own.push(alias.clone());
                }
                if view.is_deleted(old) {
                    return None;
                }
                origins.push((view.id, old));
                Some(builder.add_document(std::sync::Arc::clone(record), own))
            };
            numbers.push(view.segment.records().iter().zip(0..).map(renumber).collect());
        }
        let mut positions = vec![0; self.inputs.len()];
        while let Some(term) = self.next_term(&positions) {
            for ((view, position), numbers) in self.inputs.iter().zip(&mut positions).zip(&numbers)
            {
                let segment = &view.segment;
                if *position < segment.term_count() && segment.term(*position) == term {
                    segment.list(*position).for_each(|document, weight| {
                        if let Some(number) = numbers[document as usize] {
                            builder.add_posting(number, weight);
                        }
                    });
                    *position += 1;
                }
            }
            builder.finish_term(term);
        }
        let inputs = self.inputs.iter().map(|view| view.id).collect();
        MergedSegment { writer: self.writer, segment: builder.finish(), inputs, origins }
    }

    /// Returns the smallest term at the positions.
    fn next_term(&self, positions: &[usize]) -> Option<&str> {
        let segments = self.inputs.iter().map(|view| &view.segment).zip(positions);
        segments
            .filter(|(segment, position)| **position < segment.term_count())
            .map(|(segment, &position)| segment.term(position))
            .min()
    }
}
