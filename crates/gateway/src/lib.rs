//! HTTP API under `/v1`: skills in three tiers, their execution, keys, secrets and administration.
//!
//! - [`Gateway`]: state shared by all routes
//! - `skills`, `available_skills`: listing and reading; `search`: searching; `execute`: execution of tools
//! - `collections`: named lists of skills
//! - `versions`: history, differences, labels, rollback and yanks of skills
//! - `verify_key`, `secrets`: routes for users; `admin`: routes for administrators
//! - `caller`, `extractors`, `parsed_field`: parsing of requests
//! - `response`, `error`, `rate_limit_headers`: shape of responses
//! - `trailing_slash`: paths with a trailing slash; `openapi`: OpenAPI description
//!
//! Every response of a route is a JSON object with the field `success`, except those of the public catalogue. The
//! listener authenticates requests and stores the caller in their extensions; the registry resolves names.

mod admin;
mod available_skills;
mod caller;
mod collections;
mod error;
mod execute;
mod extractors;
mod openapi;
mod parsed_field;
mod rate_limit_headers;
mod response;
mod search;
mod secrets;
mod skills;
mod state;
mod trailing_slash;
mod verify_key;
mod versions;

use axum::{Router, routing::any};
use utoipa_axum::router::OpenApiRouter;

pub use admin::REFRESH_TOOLS;
pub use rate_limit_headers::add_rate_limit_headers;
pub use response::error_body;
pub use state::{Gateway, GatewayParts};

use crate::error::GatewayError;

/// Returns the routes for callers, and the OpenAPI description of all routes.
pub fn routes(gateway: &Gateway) -> Router {
    let (router, api) = api_routes().split_for_parts();
    let api = openapi::complete(api, available_skills::routes().into_openapi());
    let router = router
        .route("/v1/openapi.json", openapi::route(&api))
        .method_not_allowed_fallback(async || GatewayError::MethodNotAllowed);
    let without_slash = router.clone().fallback(route_not_found).with_state(gateway.clone());
    let fallback =
        move |request| trailing_slash::retry_without_slash(without_slash.clone(), request);
    router
        .route("/v1", any(route_not_found))
        .route("/v1/{*rest}", any(fallback))
        .with_state(gateway.clone())
}

/// Returns the routes of the public catalogue, which pages of any origin may read.
pub fn public_routes(gateway: &Gateway) -> Router {
    available_skills::routes().with_state(gateway.clone()).into()
}

/// Returns all routes that require the caller, with their descriptions.
fn api_routes() -> OpenApiRouter<Gateway> {
    OpenApiRouter::with_openapi(openapi::base())
        .merge(skills::routes())
        .merge(search::routes())
        .merge(versions::routes())
        .merge(collections::routes())
        .merge(execute::routes())
        .merge(verify_key::routes())
        .merge(secrets::routes())
        .merge(admin::routes())
}

async fn route_not_found() -> GatewayError {
    GatewayError::RouteNotFound
}
