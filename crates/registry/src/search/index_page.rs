//! The index `iii://skills` for a query and a budget of tokens: `iii://skills?q=scanned+tables&budget=2000`.

use std::collections::HashSet;

use skills_core::{
    RuleError,
    id::INDEX_ID,
    uri::{SCHEME, percent_decode},
};

use super::{SearchRequest, SearchResult, estimate_tokens};
use crate::{Catalog, RegistryError, SkillRegistry};

/// Results that come before the other skills.
const MAX_RESULTS: usize = 100;

/// Selection of skills for the index.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IndexPageRequest {
    /// Query; skills that match come first.
    pub query: String,
    /// Most tokens of the page.
    pub budget: Option<usize>,
}

impl IndexPageRequest {
    /// Parses the URI of an index with parameters; `None` for other URIs.
    ///
    /// # Errors
    /// When a parameter is unknown or invalid.
    pub fn from_uri(uri: &str) -> Option<Result<Self, RuleError>> {
        let parameters = uri.strip_prefix(SCHEME)?.strip_prefix(INDEX_ID)?.strip_prefix('?')?;
        Some(Self::from_parameters(parameters).ok_or_else(|| RuleError::UriScheme(uri.to_owned())))
    }

    /// Returns the search for the skills that come first, if there is a query.
    pub(super) fn search(&self) -> Option<SearchRequest> {
        let limit = Some(MAX_RESULTS);
        let search = SearchRequest { limit, ..SearchRequest::new(&*self.query) };
        (!self.query.trim().is_empty()).then_some(search)
    }

    fn from_parameters(parameters: &str) -> Option<Self> {
        let mut request = Self::default();
        for parameter in parameters.split('&').filter(|parameter| !parameter.is_empty()) {
            let (name, value) = parameter.split_once('=')?;
            let value = value.replace('+', " ");
            let value = if value.contains('%') { percent_decode(&value)? } else { value };
            match name {
                "q" => request.query = value,
                "budget" => request.budget = Some(value.parse().ok()?),
                _ => return None,
            }
        }
        Some(request)
    }
}

/// Renders the index of a registry with the skills that match first.
///
/// # Errors
/// When the registry cannot be searched or listed.
pub async fn index_page<R: SkillRegistry + ?Sized>(
    registry: &R,
    request: &IndexPageRequest,
) -> Result<String, RegistryError> {
    let found = match request.search() {
        Some(search) => registry.search(search).await?.results,
        None => vec![],
    };
    Ok(render_index_page(&*registry.catalog().await?, &found, request))
}

/// Renders the index with the found skills first. Says how many were left out.
pub(super) fn render_index_page(
    catalog: &Catalog,
    found: &[SearchResult],
    request: &IndexPageRequest,
) -> String {
    let listed: HashSet<&str> = found.iter().map(|result| result.id.as_str()).collect();
    let first = found.iter().filter_map(|result| catalog.skill(&result.id));
    let others = catalog.skills_after(None).filter(|row| !listed.contains(&*row.id));
    let mut text = String::from("# Skills\n\n");
    let mut left = request.budget.map(|budget| budget.saturating_sub(estimate_tokens(&text)));
    let mut omitted = 0;
    for row in first.chain(others) {
        let line = row.index_line();
        let fits = left.is_none_or(|left| estimate_tokens(line) <= left);
        // What follows a line that does not fit is less relevant.
        if omitted > 0 || !fits {
            omitted += 1;
            continue;
        }
        left = left.map(|left| left - estimate_tokens(line));
        text.push_str(line);
    }
    if omitted > 0 {
        text.push_str(&format!(
            "\n{omitted} more skills do not fit the budget; search for others.\n"
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_uri_has_a_query_and_a_budget() {
        let parse = |uri: &str| IndexPageRequest::from_uri(uri);
        let request = parse("iii://skills?q=a+b%20c&budget=50").unwrap().unwrap();
        assert_eq!(request, IndexPageRequest { query: "a b c".to_owned(), budget: Some(50) });
        assert!(parse("iii://skills").is_none() && parse("iii://pdf?q=a").is_none());
        for uri in ["iii://skills?x=1", "iii://skills?budget=-1", "iii://skills?q"] {
            assert!(parse(uri).unwrap().is_err(), "{uri}");
        }
    }
}
