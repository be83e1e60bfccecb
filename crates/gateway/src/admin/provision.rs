//! `POST /v1/admin/provision`: a user and their first key. Deprecated: `keys` and `sync_cache` do more.

use axum::{extract::State, response::Response};
use serde::{Deserialize, Serialize};
use skills_core::{Digest, Owner};
use skills_vault::{AccountChange, AccountTier, ProfileChange, Vault};
use utoipa::ToSchema;

use super::door::Administrator;
use crate::{
    Gateway,
    envelope::{About, Success, created},
    error::GatewayError,
    fields::{AccountTierName, KeyHash, Text, Uid},
    input::Sent,
    openapi::Refused,
};

/// What a user begins with who brings nothing.
const FIRST_CREDITS: f64 = 50.0;

/// A user that is to be. Of several names for the same thing, the first that is there counts.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct Provision {
    /// Who.
    #[schema(value_type = Option<Uid>, inline)]
    user_uid: Option<Text<Owner>>,
    /// The same.
    #[schema(value_type = Option<Uid>, inline)]
    uid: Option<Text<Owner>>,
    /// Their key.
    #[schema(value_type = Option<KeyHash>, inline)]
    key_hash: Option<Text<Digest>>,
    /// The same.
    #[schema(value_type = Option<KeyHash>, inline)]
    hash: Option<Text<Digest>>,
    /// Their credits.
    #[schema(default = 50)]
    credits: Option<f64>,
    /// What they pay for.
    #[schema(value_type = Option<AccountTierName>, inline)]
    tier: Option<Text<AccountTier>>,
}

/// A user that is.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Provisioned {
    success: Success,
    user_uid: String,
    key_hash: String,
    initial_credits: f64,
    tier: AccountTierName,
    #[serde(rename = "_uniskill")]
    about: About,
}

/// Provision a user
#[utoipa::path(
    post,
    path = "/v1/admin/provision",
    tag = "administration",
    request_body = Provision,
    responses(
        (status = 201, description = "The user can use the key", body = Provisioned),
        (status = 409, response = Refused),
        (status = 415, response = Refused),
        (status = 422, response = Refused),
    ),
    security(("admin" = [])),
)]
#[deprecated]
pub(super) async fn provision(
    State(gateway): State<Gateway>,
    Administrator(actor): Administrator,
    Sent(sent): Sent<Provision>,
) -> Result<Response, GatewayError> {
    let Text(owner) = sent.user_uid.or(sent.uid).ok_or(GatewayError::Missing("user_uid"))?;
    let Text(hash) = sent.key_hash.or(sent.hash).ok_or(GatewayError::Missing("key_hash"))?;
    let tier = sent.tier.map(|Text(tier)| tier).unwrap_or_default();
    let credits = sent.credits.unwrap_or(FIRST_CREDITS);
    let answered = Provisioned {
        success: Success,
        user_uid: owner.to_string(),
        key_hash: hash.to_string(),
        initial_credits: credits,
        tier: tier.into(),
        about: About::default(),
    };
    let profile = ProfileChange { credits: Some(credits), tier: Some(tier), username: None };
    let take_over = move |vault: &Vault| {
        let change = AccountChange { profile, key: Some(hash), ..AccountChange::of(&owner) };
        vault.take_over(actor.act(), &change)
    };
    gateway.vault(take_over).await?;
    Ok(created(answered))
}
