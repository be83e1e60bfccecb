//! `/api/search` as `npx skills find` asks for it (from the format; not tried with the client).
//!
//! The client prints `source@name` and installs with `add SOURCE --skill NAME`, so a source is the address of a discovery
//! index of that skill alone. It sends no credential.

use std::sync::Arc;

use axum::{
    Extension, Json, Router,
    extract::{Query, State},
    http::HeaderMap,
    routing::get,
};
use serde::{Deserialize, Serialize};
use skills_core::Caller;
use skills_http::{RouteGroup, RoutePolicy};
use skills_registry::{SkillRegistry, available::to_agent_skill, search::SearchRequest};

use crate::{error::DistributionError, state::DistributionState};

/// Results if the request names no limit.
const DEFAULT_LIMIT: usize = 20;
/// Most results.
const MAX_LIMIT: usize = 100;

#[derive(Deserialize)]
struct Parameters {
    #[serde(default)]
    q: String,
    limit: Option<usize>,
}

#[derive(Serialize)]
struct Results {
    skills: Vec<FoundSkill>,
}

#[derive(Serialize)]
struct FoundSkill {
    id: String,
    name: String,
    /// Installs are not counted. The client sorts by them and keeps the order of equal ones.
    installs: u64,
    source: String,
}

pub(crate) fn routes(state: &Arc<DistributionState>) -> RouteGroup {
    let routes = Router::new().route("/api/search", get(search)).with_state(Arc::clone(state));
    RouteGroup::new(routes, RoutePolicy { is_public: true, ..RoutePolicy::default() })
}

async fn search(
    State(state): State<Arc<DistributionState>>,
    Query(parameters): Query<Parameters>,
    caller: Option<Extension<Caller>>,
    headers: HeaderMap,
) -> Result<Json<Results>, DistributionError> {
    let skills: Arc<dyn SkillRegistry> = match caller.map(|caller| caller.0).unwrap_or_default() {
        Caller::Anonymous => Arc::clone(&state.skills),
        caller => Arc::clone(&state.skills).view(&caller)?,
    };
    let limit = parameters.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT);
    let mut request = SearchRequest::new(parameters.q);
    request.limit = Some(limit);
    let page = skills.search(request).await?;
    let (catalog, base) = (skills.catalog().await?, state.base_url(&headers));
    let found = page.results.into_iter().filter_map(|result| {
        // Prompts and live skills cannot be installed.
        let row = catalog.stored(&result.id)?;
        let name = to_agent_skill(row).ok()?.name;
        let source = format!("{base}/skill/{}", row.id);
        Some(FoundSkill { id: format!("{source}/{name}"), name, installs: 0, source })
    });
    Ok(Json(Results { skills: found.collect() }))
}
