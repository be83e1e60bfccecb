//! From a query to results.
//!
//! - [`parse`]: the query language
//! - [`corpus`]: statistics of the partitions that a search reads
//! - [`synonyms`], [`word_forms`], [`typos`]: other spellings of a word; [`expansion`] collects them as concepts
//! - [`evaluation`]: scores of all documents; [`ranking`]: the order of the best
//! - [`fusion`]: that order with the one of a model of meaning
//! - [`snippet`]: matched fields and the best passage; [`suggestions`]: near ids
//! - [`searcher`]: all of it

mod corpus;
mod evaluation;
mod expansion;
mod fusion;
mod parse;
mod ranking;
mod searcher;
mod snippet;
mod suggestions;
mod synonyms;
mod typos;
mod word_forms;

pub use self::{
    parse::{MAX_QUERY_BYTES, Query, QueryFilters},
    searcher::{MAX_RESULTS, SearchHit, SearchResults, Searcher, Visibility, Visible},
    snippet::MatchedField,
    synonyms::SynonymTable,
};
