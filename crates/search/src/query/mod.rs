//! From a query to results.
//!
//! - [`parse`]: the query language; [`clauses`] splits it
//! - [`corpus`]: statistics of the partitions that a search reads
//! - [`synonyms`], [`word_forms`], [`typos`]: other spellings of a word; [`expansion`] collects them as concepts
//! - [`document_filter`], [`phrases`]: documents that fit filters, exclusions and phrases
//! - [`evaluation`]: scores of all documents; [`candidate`]: the best of them first; [`ranking`]: the order of the best
//! - [`names`]: exact names and beginnings of ids, moved up
//! - [`fusion`]: that order with the one of a model of meaning
//! - [`snippet`]: matched fields and the best passage; [`suggestions`]: near ids
//! - [`work`]: bounds of all of it, and counted steps
//! - [`searcher`]: all of it

mod candidate;
mod clauses;
mod corpus;
mod document_filter;
mod evaluation;
mod expansion;
mod fusion;
mod names;
mod parse;
mod phrases;
mod ranking;
mod searcher;
mod snippet;
mod suggestions;
mod synonyms;
mod typos;
mod word_forms;
mod work;

pub use self::{
    parse::{MAX_QUERY_BYTES, Query, QueryFilters},
    searcher::{MAX_RESULTS, SearchHit, SearchResults, Searcher, Visibility, Visible},
    snippet::MatchedField,
    synonyms::SynonymTable,
    work::SearchWork,
};
