//! The registry API that ClawHub clients use, version 1 (tried with `clawhub` 0.23.3).
//!
//! - `owner`: publisher handles, which stand for tiers
//! - `skill_versions`: semantic versions of a skill
//! - `fingerprint`: hash by which a client knows the version of a folder
//! - `request`: the caller's view, and the skill that a request names
//! - `listing`: search and lists
//! - `reading`: metadata, files and archives of a skill
//! - `uploads`: files that wait for the publish that names them
//! - `publishing`: the three steps of a publish
//! - `withdrawing`: removal of skills and versions
//! - `wire`: responses
//!
//! Clients check responses strictly and print the body of an error as it is, so errors are plain text. What this registry
//! has no use for, such as stars and packages, is refused with a sentence and a status that clients do not retry.

mod error;
mod fingerprint;
mod listing;
mod owner;
mod publishing;
mod reading;
mod request;
mod skill_versions;
mod uploads;
mod wire;
mod withdrawing;

use std::sync::Arc;

use axum::{
    Router,
    http::{HeaderName, Method, Uri},
    routing::{delete, get, post},
};
use skills_core::Timestamp;
use skills_http::{BodyLimit, ResponseDecorator, RouteGroup, RoutePolicy};

use self::{
    error::ClawHubError, skill_versions::SkillVersionCache, uploads::MAX_FILE_BYTES,
    uploads::Uploads,
};
use crate::state::DistributionState;

/// Prefix of the paths whose errors are plain text.
pub const API_PREFIX: &str = "/api/v1/";

/// Calls per minute.
const LIMIT: HeaderName = HeaderName::from_static("ratelimit-limit");
/// Calls that are left in this minute.
const REMAINING: HeaderName = HeaderName::from_static("ratelimit-remaining");
/// Seconds until all calls are available again.
const RESET: HeaderName = HeaderName::from_static("ratelimit-reset");

struct ClawHubState {
    distribution: Arc<DistributionState>,
    versions: SkillVersionCache,
    uploads: Uploads,
}

/// Returns the routes of the API, and those that take the files of a publish.
pub(crate) fn routes(distribution: &Arc<DistributionState>) -> [RouteGroup; 2] {
    let state = Arc::new(ClawHubState {
        distribution: Arc::clone(distribution),
        versions: SkillVersionCache::default(),
        uploads: Uploads::default(),
    });
    let api = Router::new()
        .route("/.well-known/clawhub.json", get(reading::well_known))
        .route("/.well-known/clawdhub.json", get(reading::well_known))
        .route("/api/v1/whoami", get(reading::whoami))
        .route("/api/v1/search", get(listing::search))
        .route("/api/v1/resolve", get(reading::resolve))
        .route("/api/v1/download", get(reading::download))
        .route("/api/v1/skills", get(listing::list).post(publishing::publish))
        .route("/api/v1/skills/-/upload-url", post(publishing::upload_url))
        .route("/api/v1/skills/{slug}", get(reading::skill).delete(withdrawing::remove))
        .route("/api/v1/skills/{slug}/undelete", post(withdrawing::restore))
        .route("/api/v1/skills/{slug}/install", get(reading::install))
        .route("/api/v1/skills/{slug}/moderation", get(reading::moderation))
        .route("/api/v1/skills/{slug}/file", get(reading::file))
        .route("/api/v1/skills/{slug}/versions", get(reading::versions))
        .route(
            "/api/v1/skills/{slug}/versions/{version}",
            get(reading::version).merge(delete(withdrawing::yank)),
        )
        .route("/api/v1/skills/{slug}/versions/{version}/restore", post(withdrawing::unyank))
        .route("/api/v1/{*path}", axum::routing::any(unsupported))
        .with_state(Arc::clone(&state));
    let decorator = decorator(distribution);
    let policy = RoutePolicy { decorator: decorator.clone(), ..RoutePolicy::default() };
    let files = Router::new()
        .route("/api/v1/uploads/{id}", post(publishing::upload))
        .with_state(Arc::clone(&state));
    let body_limit = Some(BodyLimit::new(|_| MAX_FILE_BYTES));
    let file_policy =
        RoutePolicy { body_limit, raw_bodies: true, decorator, ..RoutePolicy::default() };
    [RouteGroup::new(api, policy), RouteGroup::new(files, file_policy)]
}

/// Returns the decorator that adds the state of the caller's rate limit.
fn decorator(distribution: &DistributionState) -> Option<ResponseDecorator> {
    let limiter = distribution.settings.limiter.clone()?;
    Some(ResponseDecorator::new(move |caller, headers| {
        let now = Timestamp::now();
        if let Some(limit) = limiter.peek(caller, now) {
            headers.insert(LIMIT, limit.limit.into());
            headers.insert(REMAINING, limit.remaining.into());
            headers.insert(RESET, limit.reset_at.saturating_sub(now.as_secs()).into());
        }
    }))
}

async fn unsupported(method: Method, uri: Uri) -> ClawHubError {
    let path = uri.path().strip_prefix(API_PREFIX).unwrap_or_default();
    let what = path.split('/').next().unwrap_or_default();
    let known = matches!(what, "skills" | "search" | "resolve" | "download" | "whoami");
    if known { ClawHubError::NoRoute(method) } else { ClawHubError::Unsupported(what.to_owned()) }
}
