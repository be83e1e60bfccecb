//! Search over the rows of a catalog, without the texts of documents: for registries that have no search of their own.

use std::sync::{Arc, LazyLock};

use skills_search::{Analyzer, Partition, PartitionWriter};

use super::{
    RoutingFinding, SearchPage, SearchRequest, SynonymTable, documents,
    evaluation::{Evaluation, Scope},
    routing,
};
use crate::{Catalog, RegistryError};

/// Index of the rows of one view.
#[derive(Debug)]
pub struct RowSearch {
    partition: Partition,
}

/// Default synonyms.
static SYNONYMS: LazyLock<SynonymTable> = LazyLock::new(|| SynonymTable::with_groups([]));

impl RowSearch {
    /// Indexes the rows of a view.
    pub(crate) fn new(catalog: &Catalog) -> Self {
        let mut analyzer = Analyzer::default();
        let skills = catalog.skills_after(None).map(|row| documents::of_skill(row, None));
        let prompts = catalog.prompts_after(None).map(|row| documents::of_prompt(row));
        let documents = skills.chain(prompts);
        let mut writer = PartitionWriter::default();
        writer.add(documents.map(|document| analyzer.analyze(&document)).collect());
        Self { partition: writer.snapshot() }
    }

    /// Searches the rows.
    fn search(
        &self,
        catalog: &Catalog,
        request: &SearchRequest,
    ) -> Result<SearchPage, RegistryError> {
        let evaluation = Evaluation {
            catalog,
            scopes: &[Scope::View],
            partitions: &[&self.partition],
            synonyms: &SYNONYMS,
            model: None,
        };
        Ok(evaluation.run(request)?.page)
    }
}

impl Catalog {
    /// Searches the rows of this view, without the texts of documents.
    ///
    /// # Errors
    /// When the request is invalid.
    pub fn search_rows(
        self: &Arc<Self>,
        request: &SearchRequest,
    ) -> Result<SearchPage, RegistryError> {
        self.row_search().search(self, request)
    }

    /// Returns the findings about the routing of this view's skills, by their names and descriptions.
    #[must_use]
    pub fn routing_findings(&self) -> Vec<RoutingFinding> {
        let stored = self.skills_after(None).filter(|row| !row.is_live());
        let documents: Vec<_> = stored.map(|row| documents::of_skill(row, None)).collect();
        routing::diagnose(&documents, &SYNONYMS)
    }
}
