//! `GET /v1/auth/verify`: validity of a key, and the plan of its owner.

use axum::{extract::State, response::Response};
use serde::Serialize;
use serde_json::{Number, Value};
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    Gateway,
    caller::AuthenticatedUser,
    error::GatewayError,
    parsed_field::PlanName,
    response::{Success, json_response},
};

pub(crate) fn routes() -> OpenApiRouter<Gateway> {
    OpenApiRouter::new().routes(routes!(verify))
}

/// Response for a valid key.
#[derive(Debug, Serialize, ToSchema)]
struct VerifyResponse {
    success: Success,
    /// Always true: a request without a valid key is refused.
    #[schema(examples(true))]
    valid: bool,
    /// Credits of the owner, as an administrator set them; nothing is charged.
    #[schema(value_type = f64)]
    credits: Number,
    /// Plan of the owner.
    tier: PlanName,
}

/// Verify a key
///
/// The listener has already checked the key; a revoked key is refused with 401.
#[utoipa::path(
    get,
    path = "/v1/auth/verify",
    tag = "keys",
    responses((status = 200, description = "The key is valid", body = VerifyResponse)),
    security(("key" = [])),
)]
async fn verify(
    State(gateway): State<Gateway>,
    AuthenticatedUser(user): AuthenticatedUser,
) -> Result<Response, GatewayError> {
    let profile = gateway.vault(move |vault| vault.profile(&user.owner)).await?;
    let tier = profile.as_ref().map(|profile| profile.plan).unwrap_or_default();
    let credits = profile.map(|profile| profile.to_json()["credits"].clone());
    let credits = match credits {
        Some(Value::Number(credits)) => credits,
        _ => 0.into(),
    };
    Ok(json_response(VerifyResponse { success: Success, valid: true, credits, tier: tier.into() }))
}
