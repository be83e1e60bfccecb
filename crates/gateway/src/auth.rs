//! `GET /v1/auth/verify`: whether a key is good, and what its owner pays for.

use axum::{extract::State, response::Response};
use serde::Serialize;
use serde_json::{Number, Value};
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    Gateway,
    caller::WithKey,
    envelope::{Success, answer},
    error::GatewayError,
    fields::AccountTierName,
};

pub(crate) fn routes() -> OpenApiRouter<Gateway> {
    OpenApiRouter::new().routes(routes!(verify))
}

/// A key that is good.
#[derive(Debug, Serialize, ToSchema)]
struct Verified {
    success: Success,
    /// Always true: who has no good key gets another answer.
    #[schema(examples(true))]
    valid: bool,
    /// Kept and passed on; nothing is charged.
    #[schema(value_type = f64)]
    credits: Number,
    /// What the owner pays for.
    tier: AccountTierName,
}

/// Verify a key
///
/// Whoever stands before all routes has looked it up already: one that was revoked is refused at once.
#[utoipa::path(
    get,
    path = "/v1/auth/verify",
    tag = "keys",
    responses((status = 200, description = "The key is good", body = Verified)),
    security(("key" = [])),
)]
async fn verify(
    State(gateway): State<Gateway>,
    WithKey(user): WithKey,
) -> Result<Response, GatewayError> {
    let profile = gateway.vault(move |vault| vault.profile(&user.owner)).await?;
    let tier = profile.as_ref().map(|profile| profile.tier).unwrap_or_default();
    let credits = profile.map(|profile| profile.to_json()["credits"].clone());
    let credits = match credits {
        Some(Value::Number(credits)) => credits,
        _ => 0.into(),
    };
    Ok(answer(Verified { success: Success, valid: true, credits, tier: tier.into() }))
}
