//! `GET /v1/skills/{id}/versions`: the versions of a skill.

use axum::{extract::State, response::Response};
use serde::{Deserialize, Deserializer, de};
use skills_core::version::split_version;
use skills_registry::{HistoryPage, HistoryRequest, RegistryError, versions::MAX_VERSIONS};
use utoipa::IntoParams;

use super::{
    target::{TierQuery, readable_entry},
    wire::VersionList,
};
use crate::{
    Gateway,
    caller::MaybeUser,
    error::GatewayError,
    extractors::{PathParam, Query},
    openapi::ErrorResponse,
    response::{Success, json_response},
    skills::row_number,
};

/// Page of versions.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct VersionsQuery {
    /// Maximum number of versions: 50 by default, at most 500.
    #[serde(default, deserialize_with = "parse_limit")]
    #[param(minimum = 1, maximum = 500, default = 50)]
    limit: Option<usize>,
    /// The `next` of the previous page.
    #[param(max_length = 128)]
    cursor: Option<String>,
}

/// Parses the number of rows, which other surfaces clamp.
fn parse_limit<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<usize>, D::Error> {
    match usize::deserialize(deserializer)? {
        limit @ 1..=MAX_VERSIONS => Ok(Some(limit)),
        _ => Err(de::Error::custom(format!("limit is 1 to {MAX_VERSIONS}"))),
    }
}

/// List the versions of a skill
///
/// Newest first, also those of a removed skill. An address such as `id@3` lists that version alone.
#[utoipa::path(
    get,
    path = "/v1/skills/{id}/versions",
    tag = "versions",
    params(("id" = String, Path, description = "Id of the skill"), TierQuery, VersionsQuery),
    responses(
        (status = 200, description = "A page of versions", body = VersionList),
        (status = 404, response = ErrorResponse),
        (status = 409, response = ErrorResponse),
        (status = 410, response = ErrorResponse),
        (status = 422, response = ErrorResponse),
    ),
)]
pub(super) async fn history(
    State(gateway): State<Gateway>,
    MaybeUser(caller): MaybeUser,
    PathParam(address): PathParam<String>,
    Query(TierQuery { tier }): Query<TierQuery>,
    Query(VersionsQuery { limit, cursor }): Query<VersionsQuery>,
) -> Result<Response, GatewayError> {
    if cursor.as_deref().is_some_and(|cursor| row_number(cursor).is_none()) {
        return Err(GatewayError::InvalidCursor);
    }
    let registry = gateway.registry().await?;
    let (id, version) = split_version(&address).map_err(RegistryError::from)?;
    let key = readable_entry(&registry, &caller, tier, &id).await?;
    let HistoryPage { data, next } = match version {
        Some(version) => {
            HistoryPage { data: vec![registry.version_info(&key, &version).await?], next: None }
        }
        None => {
            let id = id.into_owned();
            let request = HistoryRequest { id, tier: None, limit, after: cursor };
            registry.history(&key, &request).await?
        }
    };
    let data = data.into_iter().map(Into::into).collect();
    Ok(json_response(VersionList { success: Success, data, next }))
}
