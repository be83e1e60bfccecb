//! The index: immutable segments of documents, and the writer that adds and merges them.
//!
//! - [`postings`]: lists of documents and weights, compressed
//! - [`dictionary`]: terms of a segment
//! - [`segment`]: terms, postings and records of some documents; [`merge`]: one segment from several
//! - [`partition`]: the documents of one layer, as readers see them
//! - [`writer`]: the only one that changes a partition
//!
//! A new document becomes a segment of its own, so adding it costs as much as its text. Segments of similar size are
//! merged later, where nobody waits. Readers hold a [`Partition`] and never a lock.

mod dictionary;
mod merge;
mod partition;
mod postings;
mod segment;
mod writer;

pub use self::{
    merge::{MergeTask, MergedSegment},
    partition::Partition,
    writer::PartitionWriter,
};
pub(crate) use self::{
    partition::{DocumentSet, SegmentView},
    postings::{Postings, PostingsForm, SparsePostings},
    segment::{IdSignature, Segment},
};
