//! `/api/search` as `npx skills find` asks for it (tried with 1.7.4).
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
use skills_registry::{
    RegistryError, SkillRegistry, SkillRow, available::to_agent_skill, search::SearchRequest,
};

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
    let skills = state.view(&caller.map(|caller| caller.0).unwrap_or_default())?;
    let limit = parameters.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT);
    let base = state.base_url(&headers);
    let found = find(&*skills, parameters.q, limit).await?.into_iter();
    let found = found.filter_map(|(_, row)| {
        let name = to_agent_skill(&row).ok()?.name;
        let source = format!("{base}/skill/{}", row.id);
        Some(FoundSkill { id: format!("{source}/{name}"), name, installs: 0, source })
    });
    Ok(Json(Results { skills: found.collect() }))
}

/// Searches skills that can be installed, the best first. Prompts and live skills cannot.
pub(crate) async fn find(
    skills: &dyn SkillRegistry,
    query: String,
    limit: usize,
) -> Result<Vec<(f32, Arc<SkillRow>)>, RegistryError> {
    let request = SearchRequest { limit: Some(limit), ..SearchRequest::new(query) };
    let page = skills.search(request).await?;
    let catalog = skills.catalog().await?;
    let found = page.results.into_iter().filter_map(|result| {
        let row = catalog.stored(&result.id).filter(|row| to_agent_skill(row).is_ok())?;
        Some((result.score, Arc::clone(row)))
    });
    Ok(found.collect())
}
