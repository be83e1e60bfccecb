//! The index `iii://skills` for a query and a budget of tokens: `iii://skills?q=scanned+tables&budget=2000`.

use std::collections::HashSet;

use skills_core::{
    RuleError,
    id::INDEX_ID,
    text::{MAX_QUOTED_CHARS, first_chars},
    uri::{SCHEME, percent_decode},
};

use super::{HitKind, SearchRequest, SearchResult, estimate_tokens};
use crate::{Catalog, RegistryError, SkillRegistry, SkillRow};

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
        let refused =
            || RuleError::IndexParameters(first_chars(parameters, MAX_QUOTED_CHARS).to_owned());
        Some(Self::from_parameters(parameters).ok_or_else(refused))
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

/// Returns the listed row of a result. A prompt has none, nor has a result that another tier shadows.
fn listed_row<'a>(catalog: &'a Catalog, result: &SearchResult) -> Option<&'a SkillRow> {
    let row = catalog.skill(&result.id).filter(|_| result.kind != HitKind::Prompt)?;
    let is_same = *row.id == *result.id && row.stored_tier() == result.tier;
    is_same.then_some(row)
}

/// Renders the index with the found skills first. Says how many were left out. Without room for a skill, the page is its
/// heading and that remark.
pub(super) fn render_index_page(
    catalog: &Catalog,
    found: &[SearchResult],
    request: &IndexPageRequest,
) -> String {
    let mut listed: HashSet<&str> = HashSet::new();
    let mut rows: Vec<&SkillRow> = Vec::new();
    for row in found.iter().filter_map(|result| listed_row(catalog, result)) {
        if listed.insert(&row.id) {
            rows.push(row);
        }
    }
    let others = catalog.skills_after(None).filter(|row| !listed.contains(&*row.id));
    rows.extend(others.map(AsRef::as_ref));
    let mut text = String::from("# Skills\n\n");
    let shown = request
        .budget
        .map_or(rows.len(), |budget| fitting(&rows, budget.saturating_sub(estimate_tokens(&text))));
    rows[..shown].iter().for_each(|row| text.push_str(row.index_line()));
    if shown < rows.len() {
        text.push_str(&remark(rows.len() - shown));
    }
    text
}

/// Returns the number of rows that fit a budget, with the remark about those that do not. A row after one that does not
/// fit is less relevant.
fn fitting(rows: &[&SkillRow], budget: usize) -> usize {
    let reserved = budget.saturating_sub(estimate_tokens(&remark(rows.len())));
    let mut used = 0;
    let mut shown_with_remark = 0;
    for (at, row) in rows.iter().enumerate() {
        used += estimate_tokens(row.index_line());
        if used > budget {
            return shown_with_remark;
        }
        if used <= reserved {
            shown_with_remark = at + 1;
        }
    }
    rows.len()
}

fn remark(omitted: usize) -> String {
    format!("\n{omitted} more skills do not fit the budget; search for others.\n")
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
        let long = parse(&format!("iii://skills?{}", "x".repeat(100_000))).unwrap().unwrap_err();
        assert!(matches!(long, RuleError::IndexParameters(_)), "{long}");
        assert!(long.to_string().len() < 250, "{}", long.to_string().len());
    }
}
