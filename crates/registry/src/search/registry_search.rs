//! Searches of a registry in this process.

use skills_core::{Caller, output};

use super::{
    IndexPageRequest, SearchPage, SearchRequest, evaluation::Evaluated,
    index_page::render_index_page,
};
use crate::{Registry, RegistryError, Resource};

impl Registry {
    /// Searches as a caller. Entries whose registration was acknowledged before are found.
    ///
    /// # Errors
    /// When the cursor belongs to another search.
    pub async fn search_as(
        &self,
        caller: &Caller,
        request: SearchRequest,
    ) -> Result<SearchPage, RegistryError> {
        let index = self.search_index();
        let is_current =
            index.wait_for(self.catalog().version(), &self.publisher().index_signal).await;
        let catalog = self.catalog_for(caller);
        let is_logged = request.cursor.is_none() && !request.unlogged;
        let query = request.query.clone();
        let Evaluated { page, is_miss } =
            index.search(catalog, caller.owner().cloned(), request).await?;
        let is_miss = is_miss && is_logged && !query.trim().is_empty();
        if is_current
            && is_miss
            && let Some(misses) = &index.config().misses
        {
            misses.record(caller, &query);
        }
        Ok(SearchPage { indexing: !is_current, ..page })
    }

    /// Renders the index for a query and a budget.
    pub(crate) async fn read_index_page(
        &self,
        caller: &Caller,
        uri: &str,
        request: &IndexPageRequest,
    ) -> Result<Resource, RegistryError> {
        let found = match request.search() {
            Some(search) => self.search_as(caller, search).await?.results,
            None => vec![],
        };
        let text = render_index_page(&self.catalog_for(caller), &found, request);
        Ok(Resource {
            uri: uri.to_owned(),
            mime_type: output::MARKDOWN.to_owned(),
            body: text.into(),
            version: None,
        })
    }
}
