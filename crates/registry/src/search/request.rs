//! Requests and answers of a search, in the shape of every surface.

use serde::{Deserialize, Serialize};
use skills_core::{Digest, RuleError, Tier};
use skills_search::{HitKind, MAX_RESULTS, MatchedField, Query};

/// Results of a page where the request names no number.
pub const DEFAULT_LIMIT: usize = 10;
/// Most results of a page.
pub const MAX_LIMIT: usize = 100;

/// Kind of entries that a search is restricted to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KindFilter {
    /// Entries of a kind.
    Kind(HitKind),
    /// Entries of live clients.
    Live,
}

impl KindFilter {
    /// Parses the name of a kind.
    ///
    /// # Errors
    /// When there is no such kind.
    pub fn parse(name: &str) -> Result<Self, RuleError> {
        if name.eq_ignore_ascii_case("live") {
            return Ok(Self::Live);
        }
        let kind = HitKind::parse(name).map(Self::Kind);
        kind.ok_or_else(|| RuleError::SearchKind(name.chars().take(32).collect()))
    }

    /// Returns the name of the kind.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Kind(kind) => kind.as_str(),
            Self::Live => "live",
        }
    }
}

/// A search.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SearchRequest {
    /// Query in the query language.
    pub query: String,
    /// Kind of entries.
    pub kind: Option<KindFilter>,
    /// Tier. Entries that are shadowed elsewhere are found in it too.
    pub tier: Option<Tier>,
    /// Results of a page.
    pub limit: Option<usize>,
    /// `next` of the page before.
    pub cursor: Option<String>,
    /// Leaves out skills that models may not invoke.
    pub for_model: bool,
    /// Keeps the query out of the log of queries without a result, such as one that is still being typed.
    pub unlogged: bool,
}

impl SearchRequest {
    /// Creates a request for the first page of a query.
    #[must_use]
    pub fn new(query: impl Into<String>) -> Self {
        Self { query: query.into(), ..Self::default() }
    }

    /// Returns the number of results of a page.
    #[must_use]
    pub fn page_limit(&self) -> usize {
        self.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT)
    }

    /// Parses the query, with the filters of the request.
    pub(super) fn parse(&self) -> Query {
        let mut query = Query::parse(&self.query);
        let filters = query.filters_mut();
        match self.kind {
            Some(KindFilter::Kind(kind)) => filters.kinds = vec![kind],
            Some(KindFilter::Live) => filters.live = true,
            None => {}
        }
        if let Some(tier) = self.tier {
            filters.tiers = vec![tier];
        }
        query
    }

    /// Returns the position of the first result.
    ///
    /// # Errors
    /// When the cursor belongs to another search.
    pub(super) fn offset(&self) -> Result<usize, RuleError> {
        let Some(cursor) = &self.cursor else { return Ok(0) };
        let parts = cursor.split_once('.');
        let offset = parts.filter(|(_, mark)| **mark == *self.cursor_mark());
        let offset = offset.and_then(|(offset, _)| offset.parse().ok());
        offset.filter(|offset| *offset <= MAX_RESULTS).ok_or(RuleError::SearchCursor)
    }

    /// Returns the cursor of a later page.
    pub(super) fn cursor_at(&self, offset: usize) -> String {
        format!("{offset}.{}", self.cursor_mark())
    }

    /// Returns the part of a cursor that names its search, without revealing the query.
    fn cursor_mark(&self) -> String {
        let kind = self.kind.map_or("", KindFilter::as_str);
        let tier = self.tier.map_or("", Tier::as_str);
        let text = format!("{kind}\0{tier}\0{}\0{}", self.for_model, self.query);
        format!("{:.12}", Digest::of(text.as_bytes()).to_string())
    }
}

/// Result of a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SearchResult {
    /// Skill id or prompt name.
    pub id: String,
    /// URI of a skill or tool. Prompts have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uri: Option<String>,
    /// Kind.
    pub kind: HitKind,
    /// Title, or the id.
    pub title: String,
    /// Description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Score; comparable within one search.
    pub score: f32,
    /// Fields that match, with the words in them.
    #[serde(default)]
    pub matched: Vec<MatchedField>,
    /// Best passage, with matched words between `**`.
    #[serde(default)]
    pub snippet: String,
    /// Tier of a stored entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<Tier>,
    /// Live client that has the entry, unless it is stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<String>,
}

/// Page of results.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SearchPage {
    /// Results, the best first.
    pub results: Vec<SearchResult>,
    /// Other queries and ids that may be meant.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub did_you_mean: Vec<String>,
    /// Cursor of the next page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// True while the index is being built: the results are those of the entries indexed so far.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub indexing: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_belongs_to_one_search() {
        let mut request = SearchRequest::new("pdf");
        let cursor = request.cursor_at(20);
        assert!(!cursor.contains("pdf"));
        request.cursor = Some(cursor);
        assert_eq!(request.offset(), Ok(20));
        request.tier = Some(Tier::Market);
        assert_eq!(request.offset(), Err(RuleError::SearchCursor));
        for cursor in ["", "20", "x.y", "-1.0", "99999999999999999999.aa"] {
            request.cursor = Some(cursor.to_owned());
            assert_eq!(request.offset(), Err(RuleError::SearchCursor), "{cursor}");
        }
    }

    #[test]
    fn kinds_have_names() {
        assert_eq!(KindFilter::parse("Tool"), Ok(KindFilter::Kind(HitKind::Tool)));
        assert_eq!(KindFilter::parse("live"), Ok(KindFilter::Live));
        assert!(KindFilter::parse("skills").is_err());
    }
}
