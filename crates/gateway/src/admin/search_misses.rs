//! `GET /v1/admin/search-misses`: queries that found nothing in the last thirty days.

use axum::{extract::State, response::Response};
use serde::Serialize;
use skills_vault::{SearchMiss, now};
use utoipa::ToSchema;

use super::auth::Administrator;
use crate::{
    Gateway,
    error::GatewayError,
    extractors::Query,
    response::{Success, json_response},
    skills::{Limit, LimitQuery},
};

/// A query that found nothing.
#[derive(Debug, Serialize, ToSchema)]
struct MissEntry {
    /// Query in lower case.
    query: String,
    /// Times that it was searched for.
    count: u64,
    /// Number of callers; all without a key are one.
    callers: u64,
    /// Time of the last search, in RFC 3339.
    last_at: String,
}

impl From<SearchMiss> for MissEntry {
    fn from(SearchMiss { query, count, callers, last_at }: SearchMiss) -> Self {
        Self { query, count, callers, last_at }
    }
}

/// Queries that found nothing, the most frequent first.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct MissList {
    success: Success,
    data: Vec<MissEntry>,
}

/// Read queries without results
///
/// Queries that found nothing in the last thirty days, the most frequent first.
#[utoipa::path(
    get,
    path = "/v1/admin/search-misses",
    tag = "administration",
    params(LimitQuery),
    responses((status = 200, description = "Queries without results", body = MissList)),
    security(("admin" = [])),
)]
pub(super) async fn search_misses(
    State(gateway): State<Gateway>,
    Administrator(_): Administrator,
    Query(LimitQuery { limit: Limit(limit) }): Query<LimitQuery>,
) -> Result<Response, GatewayError> {
    let misses = gateway.vault(move |vault| vault.search_misses(now(), limit)).await?;
    let data = misses.into_iter().map(MissEntry::from).collect();
    Ok(json_response(MissList { success: Success, data }))
}
