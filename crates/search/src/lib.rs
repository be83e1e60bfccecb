//! Search index of the registry: tokenizer, segments, ranking, snippets and routing diagnostics.
//!
//! - [`SearchDocument`]: what is searchable about an entry; [`Analyzer`] turns it into terms with weights
//! - [`PartitionWriter`], [`Partition`]: the documents of one layer, changed by one thread and read by all
//! - [`Query`]: a parsed query; [`Searcher`]: its evaluation over the partitions that a caller sees
//! - [`SynonymTable`]: words that mean the same; [`EmbeddingModel`]: an optional model of meaning
//! - [`estimate_tokens`]: size of a text for a model
//! - [`routing`]: skills that are hard to find, or that win each other's queries
//!
//! Everything here is a function of its input: no I/O, no threads, no protocol. It does not know callers or tiers;
//! the registry decides which partitions a search reads, and statistics come from these alone.

mod analysis;
mod document;
mod entry;
mod index;
mod model;
mod query;
pub mod routing;
mod text;
mod token_estimate;

pub use self::query::{
    MAX_QUERY_BYTES, MAX_RESULTS, MatchedField, Query, QueryFilters, SearchHit, SearchResults,
    SearchWork, Searcher, SynonymTable, Visibility, Visible,
};
pub use self::{
    analysis::{AnalyzedDocument, Analyzer},
    document::{DocumentKey, HitKind, SearchDocument, SearchField},
    index::{MergeTask, MergedSegment, Partition, PartitionWriter},
    model::{EmbeddingModel, ModelError, SafetensorsError, TokenizerError},
    text::fold,
    token_estimate::estimate_tokens,
};
