//! `GET /v1/search`: search in the caller's view.

use axum::{extract::State, response::Response};
use serde::{Deserialize, Serialize};
use skills_core::RuleError;
use skills_registry::{
    RegistryError,
    search::{HitKind, KindFilter, MAX_LIMIT, MatchedField, SearchPage, SearchRequest},
};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    Gateway,
    caller::MaybeUser,
    error::GatewayError,
    extractors::Query,
    openapi::ErrorResponse,
    response::{Success, json_response},
    skills::{MAX_CURSOR_BYTES, TierName},
};

pub(crate) fn routes() -> OpenApiRouter<Gateway> {
    OpenApiRouter::new().routes(routes!(search))
}

/// Search in the caller's view.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct SearchQuery {
    /// Words, "phrases", -word, and filters: tag:, tool:, tier:, kind:. Without words, everything that fits the
    /// filters is listed.
    #[serde(default)]
    q: String,
    /// Only entries of this kind: `skill`, `prompt`, `tool`, or `live` for those of live clients.
    #[param(value_type = Option<KindName>, inline)]
    kind: Option<String>,
    /// Only entries of this tier, including shadowed ones.
    #[param(inline)]
    tier: Option<TierName>,
    /// Most results of a page.
    #[param(minimum = 1, maximum = 100, default = 10)]
    limit: Option<usize>,
    /// The `next` of the previous page.
    #[param(max_length = 128)]
    cursor: Option<String>,
}

/// Kind of entries in a request.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
#[expect(dead_code, reason = "describes the parameter")]
enum KindName {
    Skill,
    Prompt,
    Tool,
    Live,
}

/// A page of results.
#[derive(Debug, Serialize, ToSchema)]
struct SearchResponse {
    success: Success,
    #[serde(flatten)]
    #[schema(value_type = SearchPageSchema)]
    page: SearchPage,
}

/// A page of results.
#[derive(ToSchema)]
#[schema(as = SearchPage)]
#[expect(dead_code, reason = "describes the response")]
struct SearchPageSchema {
    /// Results, the best first.
    results: Vec<SearchResultSchema>,
    /// Other queries and ids that may be meant; absent if there are none.
    did_you_mean: Option<Vec<String>>,
    /// Cursor of the next page; absent on the last page.
    next: Option<String>,
    /// True while the index is being built; absent otherwise.
    indexing: Option<bool>,
}

/// A result.
#[derive(ToSchema)]
#[schema(as = SearchResult)]
#[expect(dead_code, reason = "describes the response")]
struct SearchResultSchema {
    /// Skill id or prompt name.
    id: String,
    /// URI of a skill or tool; absent for prompts.
    uri: Option<String>,
    /// `skill`, `prompt` or `tool`.
    #[schema(value_type = String)]
    kind: HitKind,
    /// Title, or the id.
    title: String,
    /// Description.
    description: Option<String>,
    /// Score; comparable within one search.
    score: f32,
    /// Fields that match, with the words in them.
    #[schema(value_type = Vec<MatchedFieldSchema>)]
    matched: Vec<MatchedField>,
    /// Best passage, with matched words between `**`.
    snippet: String,
    /// Tier of a stored entry.
    tier: Option<TierName>,
    /// Live client that has the entry, unless it is stored.
    live: Option<String>,
}

/// A field that matches.
#[derive(ToSchema)]
#[schema(as = MatchedField)]
#[expect(dead_code, reason = "describes the response")]
struct MatchedFieldSchema {
    /// `id`, `name`, `title`, `tags`, `description`, `headings`, `body`, `files` or `parameters`.
    field: String,
    /// Words of the field.
    terms: Vec<String>,
}

/// Search
///
/// Skills, tools and prompts in the caller's view, the best match first.
#[utoipa::path(
    get,
    path = "/v1/search",
    tag = "skills",
    params(SearchQuery),
    responses(
        (status = 200, description = "A page of results", body = SearchResponse),
        (status = 400, response = ErrorResponse),
    ),
)]
async fn search(
    State(gateway): State<Gateway>,
    MaybeUser(caller): MaybeUser,
    Query(SearchQuery { q, kind, tier, limit, cursor }): Query<SearchQuery>,
) -> Result<Response, GatewayError> {
    if cursor.as_ref().is_some_and(|cursor| cursor.len() > MAX_CURSOR_BYTES) {
        return Err(GatewayError::InvalidCursor);
    }
    if limit.is_some_and(|limit| !(1..=MAX_LIMIT).contains(&limit)) {
        return Err(GatewayError::InvalidQuery(format!("limit is 1 to {MAX_LIMIT}")));
    }
    let kind = kind.as_deref().map(KindFilter::parse).transpose();
    let kind = kind.map_err(|error| GatewayError::InvalidQuery(error.to_string()))?;
    let tier = tier.map(Into::into);
    let request = SearchRequest { kind, tier, limit, cursor, ..SearchRequest::new(q) };
    let page = gateway.registry().await?.search_as(&caller, request).await;
    let page = page.map_err(|error| match error {
        RegistryError::Rule(RuleError::SearchCursor) => GatewayError::InvalidCursor,
        error => error.into(),
    })?;
    Ok(json_response(SearchResponse { success: Success, page }))
}
