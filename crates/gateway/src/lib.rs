//! The gateway: an HTTP API under `/v1` for skills in three tiers and for the people who use them.
//!
//! - [`Gateway`]: what all routes share
//! - [`Executor`]: calling tools
//! - `skills`: listing and reading; `execute`: calling; `openapi`: the description of all of it
//! - `auth`, `secrets`: what somebody with a key asks of their own; `admin`: what only administrators may
//! - `manifests`: manifests that were read, kept as long as they are asked for
//! - `slash`: paths with a slash at their end
//! - `caller`: who asks; `input`, `fields`: what is asked; `envelope`, `error`: what is answered; `rate`: how much is left
//!
//! Every answer is one JSON object with `success` in it. Who may come in at all is decided before a request
//! gets here: the caller is an extension of the request. What a name leads to is decided by the registry.

mod admin;
mod auth;
mod caller;
mod envelope;
mod error;
mod execute;
mod executor;
mod fields;
mod input;
mod manifests;
mod openapi;
mod rate;
mod secrets;
mod skills;
mod slash;
mod state;

use axum::{Router, routing::any};
use utoipa_axum::router::OpenApiRouter;

pub use admin::REFRESH_TOOLS;
pub use envelope::refused;
pub use executor::Executor;
pub use rate::mark;
pub use state::{Gateway, Parts};

use crate::error::GatewayError;

/// The routes, to be mounted where HTTP is served.
pub fn routes(gateway: &Gateway) -> Router {
    let (router, api) = described().split_for_parts();
    let api = openapi::finished(api);
    let router = router
        .route("/v1/openapi.json", openapi::route(&api))
        .method_not_allowed_fallback(async || GatewayError::Method);
    let without_slash = router.clone().fallback(nothing_here).with_state(gateway.clone());
    let nothing_there = move |request| slash::without(without_slash.clone(), request);
    router
        .route("/v1", any(nothing_here))
        .route("/v1/{*rest}", any(nothing_there))
        .with_state(gateway.clone())
}

/// Every route with its description. Only the description itself is served without one.
fn described() -> OpenApiRouter<Gateway> {
    OpenApiRouter::with_openapi(openapi::head())
        .merge(skills::routes())
        .merge(execute::routes())
        .merge(auth::routes())
        .merge(secrets::routes())
        .merge(admin::routes())
}

async fn nothing_here() -> GatewayError {
    GatewayError::NoSuchRoute
}
