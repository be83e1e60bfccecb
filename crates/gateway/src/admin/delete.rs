//! `DELETE /v1/admin/skills/{tier}/{id}`: a skill is removed from a layer. Its versions stay in the store.

use axum::{extract::State, response::Response};
use serde::{Deserialize, Serialize};
use skills_core::{Kind, Layer, Owner, SkillId};
use skills_registry::RegistryError;
use utoipa::{IntoParams, ToSchema};

use super::door::Administrator;
use crate::{
    Gateway,
    envelope::{Success, answer},
    error::GatewayError,
    fields::{Id, Text, Uid},
    input::{Asked, Named},
    openapi::Refused,
    skills::TierName,
};

/// Which skill.
#[derive(Debug, Deserialize)]
pub(super) struct Place {
    tier: TierName,
    id: Text<SkillId>,
}

/// Whose.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct OwnerQuery {
    /// Whose; for the private tier, and for no other.
    #[param(value_type = Option<Uid>, inline)]
    uid: Option<Text<Owner>>,
}

/// A skill that is no more.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Deleted {
    success: Success,
    id: String,
    tier: TierName,
}

/// Delete a skill
///
/// Under just this id, from just this layer: what it shadowed answers to the name again.
#[utoipa::path(
    delete,
    path = "/v1/admin/skills/{tier}/{id}",
    tag = "administration",
    params(
        ("tier" = inline(TierName), Path, description = "Where it is stored"),
        ("id" = inline(Id), Path, description = "Its id"),
        OwnerQuery,
    ),
    responses(
        (status = 200, description = "It is gone", body = Deleted),
        (status = 404, response = Refused),
    ),
    security(("admin" = [])),
)]
pub(super) async fn delete_skill(
    State(gateway): State<Gateway>,
    Administrator(actor): Administrator,
    Named(Place { tier, id: Text(id) }): Named<Place>,
    Asked(OwnerQuery { uid }): Asked<OwnerQuery>,
) -> Result<Response, GatewayError> {
    let layer = match (tier, uid) {
        (TierName::Private, Some(Text(owner))) => Layer::Private(owner),
        (TierName::Official, None) => Layer::Official,
        (TierName::Market, None) => Layer::Market,
        _ => return Err(GatewayError::Uid),
    };
    let registry = gateway.registry().await?;
    match registry.remove_skill_in(actor.as_str(), &layer, id.as_str()).await? {
        true => Ok(answer(Deleted { success: Success, id: id.to_string(), tier })),
        false => Err(RegistryError::NotFound { kind: Kind::Skill, id: id.to_string() }.into()),
    }
}
