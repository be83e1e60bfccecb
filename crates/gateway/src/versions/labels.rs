//! `PUT` and `DELETE /v1/skills/{id}/labels/{label}`: the labels of a skill.

use axum::{extract::State, response::Response};
use serde::Deserialize;
use skills_core::{Caller, Label, VersionSelector};
use skills_registry::LabelRequest;
use utoipa::ToSchema;

use super::{
    target::{LayerQuery, WritableEntry, writable_entry},
    wire::{StateResponse, Version},
};
use crate::{
    Gateway,
    caller::MaybeUser,
    error::GatewayError,
    extractors::{JsonBody, OptionalJsonBody, PathParam, Query},
    openapi::ErrorResponse,
    parsed_field::{LabelName, Parsed},
    response::json_response,
};

/// Path parameters.
#[derive(Debug, Deserialize)]
pub(super) struct LabelPath {
    id: String,
    label: Parsed<Label>,
}

/// Version that gets a label.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct SetLabel {
    #[schema(value_type = Version)]
    version: VersionSelector,
    /// Number of the version that must have the label now; 0 if none must have it.
    expected: Option<u64>,
}

/// Condition of a removal.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct RemoveLabel {
    /// Number of the version that must have the label now.
    expected: Option<u64>,
}

/// Move a label
///
/// The version with the label `stable` is served to all who name no version. Protected labels require an administrator.
#[utoipa::path(
    put,
    path = "/v1/skills/{id}/labels/{label}",
    tag = "versions",
    params(
        ("id" = String, Path, description = "Id of the skill"),
        ("label" = inline(LabelName), Path, description = "Label"),
        LayerQuery,
    ),
    request_body = SetLabel,
    responses(
        (status = 200, description = "The version has the label", body = StateResponse),
        (status = 404, response = ErrorResponse),
        (status = 409, response = ErrorResponse),
        (status = 410, response = ErrorResponse),
        (status = 429, response = ErrorResponse),
    ),
    security(("key" = []), ("admin" = [])),
)]
pub(super) async fn set_label(
    State(gateway): State<Gateway>,
    MaybeUser(caller): MaybeUser,
    PathParam(path): PathParam<LabelPath>,
    Query(layer): Query<LayerQuery>,
    JsonBody(SetLabel { version, expected }): JsonBody<SetLabel>,
) -> Result<Response, GatewayError> {
    change_label(&gateway, &caller, path, layer, Some(version), expected).await
}

/// Remove a label
#[utoipa::path(
    delete,
    path = "/v1/skills/{id}/labels/{label}",
    tag = "versions",
    params(
        ("id" = String, Path, description = "Id of the skill"),
        ("label" = inline(LabelName), Path, description = "Label"),
        LayerQuery,
    ),
    request_body = Option<RemoveLabel>,
    responses(
        (status = 200, description = "No version has the label", body = StateResponse),
        (status = 404, response = ErrorResponse),
        (status = 409, response = ErrorResponse),
        (status = 429, response = ErrorResponse),
    ),
    security(("key" = []), ("admin" = [])),
)]
pub(super) async fn remove_label(
    State(gateway): State<Gateway>,
    MaybeUser(caller): MaybeUser,
    PathParam(path): PathParam<LabelPath>,
    Query(layer): Query<LayerQuery>,
    OptionalJsonBody(body): OptionalJsonBody<RemoveLabel>,
) -> Result<Response, GatewayError> {
    let expected = body.and_then(|RemoveLabel { expected }| expected);
    change_label(&gateway, &caller, path, layer, None, expected).await
}

async fn change_label(
    gateway: &Gateway,
    caller: &Caller,
    LabelPath { id, label: Parsed(label) }: LabelPath,
    layer: LayerQuery,
    version: Option<VersionSelector>,
    expected: Option<u64>,
) -> Result<Response, GatewayError> {
    let WritableEntry { registry, key, actor } =
        writable_entry(gateway, caller, layer, &id, Some(&label)).await?;
    let request = LabelRequest { id, tier: None, label, version, expected };
    let state = registry.set_label(&actor, &key, &request).await?;
    Ok(json_response(StateResponse::from(state)))
}
