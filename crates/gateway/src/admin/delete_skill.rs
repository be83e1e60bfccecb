//! `DELETE /v1/admin/skills/{tier}/{id}`: removal of a skill from a layer. Its versions stay in the store.

use axum::{extract::State, response::Response};
use serde::{Deserialize, Serialize};
use skills_core::{EntryKind, Layer, Owner, SkillId};
use skills_registry::RegistryError;
use utoipa::{IntoParams, ToSchema};

use super::auth::Administrator;
use crate::{
    Gateway,
    error::GatewayError,
    extractors::{PathParam, Query},
    openapi::ErrorResponse,
    parsed_field::{Id, Parsed, Uid},
    response::{Success, json_response},
    skills::TierName,
};

/// Path parameters.
#[derive(Debug, Deserialize)]
pub(super) struct SkillLocation {
    tier: TierName,
    id: Parsed<SkillId>,
}

/// Owner of a private skill.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct OwnerQuery {
    /// Id of the user; required for the private tier, invalid for the others.
    #[param(value_type = Option<Uid>, inline)]
    uid: Option<Parsed<Owner>>,
}

/// A deleted skill.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct DeleteResponse {
    success: Success,
    id: String,
    tier: TierName,
}

/// Delete a skill
///
/// Removes exactly this id from exactly this layer. The name then resolves to what the skill shadowed.
#[utoipa::path(
    delete,
    path = "/v1/admin/skills/{tier}/{id}",
    tag = "administration",
    params(
        ("tier" = inline(TierName), Path, description = "Tier of the skill"),
        ("id" = inline(Id), Path, description = "Id of the skill"),
        OwnerQuery,
    ),
    responses(
        (status = 200, description = "The skill is deleted", body = DeleteResponse),
        (status = 404, response = ErrorResponse),
    ),
    security(("admin" = [])),
)]
pub(super) async fn delete_skill(
    State(gateway): State<Gateway>,
    Administrator(actor): Administrator,
    PathParam(SkillLocation { tier, id: Parsed(id) }): PathParam<SkillLocation>,
    Query(OwnerQuery { uid }): Query<OwnerQuery>,
) -> Result<Response, GatewayError> {
    let layer = match (tier, uid) {
        (TierName::Private, Some(Parsed(owner))) => Layer::Private(owner),
        (TierName::Official, None) => Layer::Official,
        (TierName::Market, None) => Layer::Market,
        _ => return Err(GatewayError::OwnerMismatch),
    };
    let registry = gateway.registry().await?;
    let is_removed = registry.remove_skill(actor.as_str(), &layer, id.as_str()).await?;
    let id = id.to_string();
    if !is_removed {
        return Err(RegistryError::NotFound { kind: EntryKind::Skill, id }.into());
    }
    Ok(json_response(DeleteResponse { success: Success, id, tier }))
}
