//! Settings of the search.

use std::{fmt, sync::Arc};

use skills_core::Caller;
use skills_search::EmbeddingModel;

/// Log of queries without a result.
pub trait SearchMissLog: Send + Sync {
    /// Records a query. It must not block.
    fn record(&self, caller: &Caller, query: &str);
}

/// Loads the model of meaning. It is called once, on the thread that builds the index, and may block.
pub type ModelLoader = Arc<dyn Fn() -> Option<Arc<EmbeddingModel>> + Send + Sync>;

/// Settings and collaborators of the search.
#[derive(Clone, Default)]
pub struct SearchConfig {
    /// Groups of words that mean the same, beside the default ones.
    pub synonyms: Vec<Vec<String>>,
    /// Loader of the model of meaning.
    pub model: Option<ModelLoader>,
    /// Log of queries without a result.
    pub misses: Option<Arc<dyn SearchMissLog>>,
}

impl fmt::Debug for SearchConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SearchConfig")
            .field("has_model", &self.model.is_some())
            .field("logs_misses", &self.misses.is_some())
            .finish_non_exhaustive()
    }
}
