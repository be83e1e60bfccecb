//! Search over the catalog and the text of its documents.
//!
//! - [`SearchRequest`], [`SearchPage`]: the one shape of a search on every surface
//! - [`SearchIndex`]: the index of a registry; `indexer`: the thread that keeps it up to the catalog
//! - `documents`: what is searchable about a row
//! - `registry_search`, `evaluation`: a search as one caller sees it; [`RowSearch`]: the same without texts, for remote registries
//! - [`index_page`]: the index `iii://skills` for a query and a budget of tokens
//! - [`SearchMissLog`]: queries without a result
//!
//! The index has a partition per layer. A search reads those that its caller sees, so that neither results nor
//! scores depend on private entries of others. The writer thread does nothing for the index but wake its thread; a
//! search waits until the index has the catalog that the caller sees.

mod config;
mod documents;
mod evaluation;
mod index;
mod index_page;
mod indexer;
mod registry_search;
mod request;
mod root_texts;
mod row_search;
mod signal;

pub use skills_search::{
    EmbeddingModel, HitKind, MatchedField, ModelError, SearchDocument, SearchField, SynonymTable,
    estimate_tokens,
    routing::{self, RoutingFinding},
};

pub(crate) use self::signal::IndexSignal;
pub use self::{
    config::{ModelLoader, SearchConfig, SearchMissLog},
    index::{IndexProgress, SearchIndex},
    index_page::{IndexPageRequest, index_page},
    request::{DEFAULT_LIMIT, KindFilter, MAX_LIMIT, SearchPage, SearchRequest, SearchResult},
    row_search::RowSearch,
};
