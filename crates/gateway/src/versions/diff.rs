//! `GET /v1/skills/{id}/diff`: the difference of two versions of a skill.

use axum::{extract::State, response::Response};
use serde::Deserialize;
use skills_core::{VersionSelector, json_size::serialized_size};
use skills_registry::{RegistryError, diff_from};
use utoipa::IntoParams;

use super::{
    target::{TierQuery, readable_entry},
    wire::DiffResponse,
};
use crate::{
    Gateway,
    caller::{MaybeUser, ResponseBudget},
    error::GatewayError,
    extractors::{PathParam, Query},
    openapi::ErrorResponse,
    parsed_field::Parsed,
    response::{Success, json_response},
};

/// Versions to compare.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct DiffQuery {
    /// Earlier version: a number, a label, the author's version, or `sha256:` and at least 12 digits. Required unless the
    /// id has one, as in `pdf@3`.
    #[param(value_type = Option<String>)]
    from: Option<Parsed<VersionSelector>>,
    /// Later version.
    #[param(value_type = String)]
    to: Parsed<VersionSelector>,
}

/// Compare two versions of a skill
///
/// Changed fields of the frontmatter, changed files with unified diffs, and what the later version newly allows. Large
/// differences are truncated, which `truncated` says.
#[utoipa::path(
    get,
    path = "/v1/skills/{id}/diff",
    tag = "versions",
    params(
        ("id" = String, Path, description = "Id of the skill, also with the earlier version: `pdf@3`"),
        TierQuery,
        DiffQuery,
    ),
    responses(
        (status = 200, description = "The difference", body = DiffResponse),
        (status = 404, response = ErrorResponse),
        (status = 409, response = ErrorResponse),
        (status = 410, response = ErrorResponse),
        (status = 422, response = ErrorResponse),
    ),
)]
pub(super) async fn diff(
    State(gateway): State<Gateway>,
    MaybeUser(caller): MaybeUser,
    budget: ResponseBudget,
    PathParam(id): PathParam<String>,
    Query(TierQuery { tier }): Query<TierQuery>,
    Query(DiffQuery { from, to: Parsed(to) }): Query<DiffQuery>,
) -> Result<Response, GatewayError> {
    let from = from.map(|Parsed(from)| from);
    let (id, from) = diff_from(&id, from).map_err(RegistryError::from)?;
    let registry = gateway.registry().await?;
    let key = readable_entry(&registry, &caller, tier, &id).await?;
    let diff = registry.diff(&key, &from, &to).await?;
    // The difference, and its text in a buffer that grows.
    budget.reserve(serialized_size(&diff).saturating_mul(3))?;
    Ok(json_response(DiffResponse { success: Success, diff }))
}
