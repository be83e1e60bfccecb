//! `POST /v1/skills/{id}/rollback`: registration of an older version's content.

use axum::{extract::State, response::Response};
use serde::Deserialize;
use skills_core::VersionSelector;
use skills_registry::{PublishRequest, RollbackRequest};
use utoipa::ToSchema;

use super::{
    target::{LayerQuery, WritableEntry, writable_entry},
    wire::{PublishedResponse, Version},
};
use crate::{
    Gateway,
    caller::MaybeUser,
    error::GatewayError,
    extractors::{JsonBody, PathParam, Query},
    openapi::ErrorResponse,
    response::json_response,
};

/// Version to return to.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct Rollback {
    #[schema(value_type = Version)]
    to: VersionSelector,
    /// Message of the new version, at most 1 KiB.
    message: Option<String>,
    /// Number that the newest version must have.
    expected_version: Option<u64>,
}

/// Roll a skill back
///
/// Registers the content of an older version again, as a new version.
#[utoipa::path(
    post,
    path = "/v1/skills/{id}/rollback",
    tag = "versions",
    params(("id" = String, Path, description = "Id of the skill"), LayerQuery),
    request_body = Rollback,
    responses(
        (status = 200, description = "The content is registered", body = PublishedResponse),
        (status = 404, response = ErrorResponse),
        (status = 409, response = ErrorResponse),
        (status = 410, response = ErrorResponse),
        (status = 429, response = ErrorResponse),
    ),
    security(("key" = []), ("admin" = [])),
)]
pub(super) async fn rollback(
    State(gateway): State<Gateway>,
    MaybeUser(caller): MaybeUser,
    PathParam(id): PathParam<String>,
    Query(layer): Query<LayerQuery>,
    JsonBody(Rollback { to, message, expected_version }): JsonBody<Rollback>,
) -> Result<Response, GatewayError> {
    let WritableEntry { registry, key, actor } =
        writable_entry(&gateway, &caller, layer, &id, None).await?;
    let publish = PublishRequest { message, expected_version };
    let request = RollbackRequest { id, tier: None, to, publish };
    let published = registry.rollback(&actor, &key, &request).await?;
    Ok(json_response(PublishedResponse::new(&key, published)))
}
