//! Search of a remote registry: its own where it has one.

use serde_json::{Value, json};
use skills_registry::{
    RegistryError,
    search::{HitKind, KindFilter, MAX_LIMIT, SearchPage, SearchRequest, SearchResult},
};

use crate::{RemoteRegistry, rows};

/// Function that searches.
const SEARCH: &str = "skills::search";
/// Most suggestions that are taken over.
const MAX_SUGGESTIONS: usize = 8;
/// Longest cursor that is taken over, in bytes.
const MAX_CURSOR_BYTES: usize = 128;

impl RemoteRegistry {
    /// Searches with the registry's own function; `None` if it has none.
    ///
    /// # Errors
    /// When the registry cannot be reached, or refuses the search.
    pub(crate) async fn search_remote(
        &self,
        request: &SearchRequest,
    ) -> Result<Option<SearchPage>, RegistryError> {
        if !self.capabilities().await?.has(SEARCH) {
            return Ok(None);
        }
        let page = self.call(SEARCH, payload(request)).await?;
        Ok(Some(check(page)))
    }
}

fn payload(request: &SearchRequest) -> Value {
    let mut payload = json!({ "query": request.query, "limit": request.page_limit() });
    if let Some(kind) = request.kind {
        payload["kind"] = json!(KindFilter::as_str(kind));
    }
    if let Some(tier) = request.tier {
        payload["tier"] = json!(tier);
    }
    if let Some(cursor) = &request.cursor {
        payload["cursor"] = json!(cursor);
    }
    if request.for_model {
        payload["for_model"] = json!(true);
    }
    if request.unlogged {
        payload["unlogged"] = json!(true);
    }
    payload
}

/// Drops results whose ids break the rules, and truncates texts: a remote registry is untrusted.
fn check(mut page: SearchPage) -> SearchPage {
    page.results.retain(|result| match (result.kind, &result.live) {
        (HitKind::Prompt, _) => rows::check_prompt_name(&result.id).is_ok(),
        (HitKind::Skill | HitKind::Tool, _) => rows::is_skill_id(&result.id),
    });
    page.results.truncate(MAX_LIMIT);
    page.results = page.results.into_iter().map(truncate).collect();
    page.did_you_mean.truncate(MAX_SUGGESTIONS);
    page.did_you_mean = page.did_you_mean.into_iter().map(rows::truncate).collect();
    page.next = page.next.filter(|next| next.len() <= MAX_CURSOR_BYTES);
    page
}

fn truncate(mut result: SearchResult) -> SearchResult {
    result.title = rows::truncate(result.title);
    result.description = result.description.map(rows::truncate);
    result.snippet = rows::truncate(result.snippet);
    result.uri = result.uri.map(rows::truncate);
    result.live = result.live.map(rows::truncate);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_with_invalid_ids_are_dropped() {
        let page = json!({
            "results": [
                { "id": "../x", "kind": "skill", "title": "T", "score": 1.0 },
                { "id": "ok", "kind": "skill", "title": "x".repeat(5000), "score": 1.0 },
                { "id": "a b", "kind": "prompt", "title": "T", "score": 1.0 },
                { "id": "desk/a/skill.md", "kind": "skill", "title": "T", "score": 1.0, "live": "desk" },
            ],
            "did_you_mean": ["a", "b"], "next": "n".repeat(500), "unknown": 1,
        });
        let page = check(serde_json::from_value(page).unwrap());
        let ids: Vec<&str> = page.results.iter().map(|result| result.id.as_str()).collect();
        assert_eq!(ids, ["ok", "desk/a/skill.md"]);
        assert!(page.results[0].title.chars().count() <= 1024 && page.next.is_none());
    }
}
