//! `POST /v1/skills/{id}/versions/{version}/yank`: withdrawal of a version.

use axum::{extract::State, response::Response};
use serde::Deserialize;
use skills_core::VersionSelector;
use skills_registry::YankRequest;
use utoipa::ToSchema;

use super::{
    target::{LayerQuery, WritableEntry, writable_entry},
    wire::{StateResponse, Version},
};
use crate::{
    Gateway,
    caller::MaybeUser,
    error::GatewayError,
    extractors::{JsonBody, PathParam, Query},
    openapi::ErrorResponse,
    parsed_field::Parsed,
    response::json_response,
};

/// Path parameters.
#[derive(Debug, Deserialize)]
pub(super) struct VersionPath {
    id: String,
    version: Parsed<VersionSelector>,
}

/// Reason and kind of a withdrawal.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct Yank {
    /// Reason, at most 1 KiB; required unless the yank is undone.
    #[serde(default)]
    reason: String,
    /// True to undo a yank.
    #[serde(default)]
    undo: bool,
    /// True to remove the content for good.
    #[serde(default)]
    purge: bool,
}

/// Yank a version
///
/// A yanked version is read only by its number or digest, with a warning. A purged version cannot be read any more.
#[utoipa::path(
    post,
    path = "/v1/skills/{id}/versions/{version}/yank",
    tag = "versions",
    params(
        ("id" = String, Path, description = "Id of the skill"),
        ("version" = inline(Version), Path, description = "Version"),
        LayerQuery,
    ),
    request_body = Yank,
    responses(
        (status = 200, description = "The version is yanked, or no longer", body = StateResponse),
        (status = 404, response = ErrorResponse),
        (status = 409, response = ErrorResponse),
        (status = 410, response = ErrorResponse),
        (status = 429, response = ErrorResponse),
    ),
    security(("key" = []), ("admin" = [])),
)]
pub(super) async fn yank(
    State(gateway): State<Gateway>,
    MaybeUser(caller): MaybeUser,
    PathParam(VersionPath { id, version: Parsed(version) }): PathParam<VersionPath>,
    Query(layer): Query<LayerQuery>,
    JsonBody(Yank { reason, undo, purge }): JsonBody<Yank>,
) -> Result<Response, GatewayError> {
    let WritableEntry { registry, key, actor } =
        writable_entry(&gateway, &caller, layer, &id, None).await?;
    let request = YankRequest { id, tier: None, version, reason, undo, purge };
    let state = registry.yank(&actor, &key, &request).await?;
    Ok(json_response(StateResponse::from(state)))
}
