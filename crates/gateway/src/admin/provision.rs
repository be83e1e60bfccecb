//! `POST /v1/admin/provision`: creation of a user with a first key. Deprecated in favour of `keys` and `sync_cache`.

use axum::{extract::State, response::Response};
use serde::{Deserialize, Serialize};
use skills_core::{Digest, Owner};
use skills_vault::{AccountChange, Plan, ProfileChange, Vault};
use utoipa::ToSchema;

use super::auth::Administrator;
use crate::{
    Gateway,
    error::GatewayError,
    extractors::JsonBody,
    openapi::ErrorResponse,
    parsed_field::{KeyHash, Parsed, PlanName, Uid},
    response::{ResponseMetadata, Success, created_response},
};

/// Credits of a new user by default.
const DEFAULT_CREDITS: f64 = 50.0;

/// A new user. Of several aliases of a field, the first that is present counts.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct Provision {
    /// Id of the user.
    #[schema(value_type = Option<Uid>, inline)]
    user_uid: Option<Parsed<Owner>>,
    /// Alias of `user_uid`.
    #[schema(value_type = Option<Uid>, inline)]
    uid: Option<Parsed<Owner>>,
    /// Hash of the first key.
    #[schema(value_type = Option<KeyHash>, inline)]
    key_hash: Option<Parsed<Digest>>,
    /// Alias of `key_hash`.
    #[schema(value_type = Option<KeyHash>, inline)]
    hash: Option<Parsed<Digest>>,
    /// Credits of the user.
    #[schema(default = 50)]
    credits: Option<f64>,
    /// Plan of the user.
    #[schema(value_type = Option<PlanName>, inline)]
    tier: Option<Parsed<Plan>>,
}

/// The created user.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ProvisionResponse {
    success: Success,
    user_uid: String,
    key_hash: String,
    initial_credits: f64,
    tier: PlanName,
    #[serde(rename = "_uniskill")]
    about: ResponseMetadata,
}

/// Provision a user
#[utoipa::path(
    post,
    path = "/v1/admin/provision",
    tag = "administration",
    request_body = Provision,
    responses(
        (status = 201, description = "The user is created", body = ProvisionResponse),
        (status = 409, response = ErrorResponse),
    ),
    security(("admin" = [])),
)]
#[deprecated]
pub(super) async fn provision(
    State(gateway): State<Gateway>,
    Administrator(actor): Administrator,
    JsonBody(body): JsonBody<Provision>,
) -> Result<Response, GatewayError> {
    let Parsed(owner) = body.user_uid.or(body.uid).ok_or(GatewayError::MissingField("user_uid"))?;
    let Parsed(hash) = body.key_hash.or(body.hash).ok_or(GatewayError::MissingField("key_hash"))?;
    let tier = body.tier.map(|Parsed(tier)| tier).unwrap_or_default();
    let credits = body.credits.unwrap_or(DEFAULT_CREDITS);
    let response = ProvisionResponse {
        success: Success,
        user_uid: owner.to_string(),
        key_hash: hash.to_string(),
        initial_credits: credits,
        tier: tier.into(),
        about: ResponseMetadata::default(),
    };
    let profile = ProfileChange { credits: Some(credits), plan: Some(tier), username: None };
    let update = move |vault: &Vault| {
        let change = AccountChange { profile, key: Some(hash), ..AccountChange::new(&owner) };
        vault.apply_account_change(actor.act(), &change)
    };
    gateway.vault(update).await?;
    Ok(created_response(response))
}
