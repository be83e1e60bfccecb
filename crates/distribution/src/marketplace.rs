//! The marketplace of Claude Code over plain HTTP, and the archives that it names.
//!
//! Claude Code takes archives only from a public https address, so other servers offer folders of their git remotes.

use std::{collections::HashSet, sync::Arc};

use axum::{
    Extension, Router,
    extract::{Path, State},
    http::HeaderMap,
    response::{IntoResponse as _, Response},
    routing::get,
};
use skills_core::{Caller, MemoryBudget, RequestBudget, Tier, VersionSelector};
use skills_http::{RouteGroup, RoutePolicy, TaggedBody};

use crate::{
    archive::archive,
    error::DistributionError,
    formats::claude::{self, Source},
    state::DistributionState,
    view::{Selection, View},
};

/// Most collections of a marketplace, each of which has a history.
const MAX_COLLECTIONS: usize = 100;

/// Returns the routes of the marketplace and its archives.
pub(crate) fn routes(state: &Arc<DistributionState>) -> RouteGroup {
    let routes = Router::new()
        .route("/.claude-plugin/marketplace.json", get(marketplace))
        .route("/archive/{tier}/{id}/{version}", get(archive_file))
        .with_state(Arc::clone(state));
    RouteGroup::new(routes, RoutePolicy { accepts_basic: true, ..RoutePolicy::default() })
}

async fn marketplace(
    State(state): State<Arc<DistributionState>>,
    caller: Option<Extension<Caller>>,
    budget: Option<Extension<RequestBudget>>,
    headers: HeaderMap,
) -> Result<Response, DistributionError> {
    let caller = caller.map(|caller| caller.0).unwrap_or_default();
    let owner = caller.owner().cloned();
    let is_own = owner.is_some();
    let repository = state.open(View { owner, selection: Selection::All }, &caller).await?;
    let base = state.base_url(&headers);
    // Clients send no key for archives, so private skills come by git.
    let is_https = state.settings.public_url.as_ref().is_some_and(|url| url.is_https());
    let archives = is_https && !is_own && !state.settings.is_private;
    let share = share(&state, budget.as_deref());
    let remote = format!("{base}/git/{}.git", if is_own { "mine" } else { "all" });
    let mut entries = Vec::new();
    for skill in repository.history.skills() {
        let source = if archives {
            let blobs = &state.repositories.blobs;
            let digest = match state.digests.get(&*repository.skills, blobs, skill, &share).await {
                Ok(digest) => digest,
                Err(error) if error.is_unavailable() => return Err(error),
                // One damaged skill must not hide all others.
                Err(error) => {
                    tracing::warn!(id = %skill.id, %error, "skill left out of the marketplace");
                    continue;
                }
            };
            let url = format!("{base}/archive/{}/{}/{}.zip", skill.tier, skill.id, skill.version);
            Source::archive(url, digest.to_string())
        } else {
            Source::git_subdir(remote.clone(), format!("skills/{}", skill.info.name))
        };
        entries.push(claude::entry(&skill.info, source));
    }
    let names = repository.history.skills().map(|skill| skill.info.name.clone()).collect();
    entries.extend(collection_entries(&state, &caller, &base, names).await?);
    let text = claude::marketplace(&repository.history.head.name, entries.into_iter());
    let is_private = is_own || state.settings.is_private;
    let cache = if is_private { "private, max-age=60" } else { "public, max-age=60" };
    Ok(TaggedBody::new("application/json", text.into()).respond(&headers, cache))
}

/// Returns the entries of the collections that a caller sees. Each has a repository of its own. `names` has the plugins
/// that there are already: two of one name make a marketplace invalid.
async fn collection_entries(
    state: &DistributionState,
    caller: &Caller,
    base: &str,
    mut names: HashSet<String>,
) -> Result<Vec<String>, DistributionError> {
    let catalog = state.view(caller)?.catalog().await?;
    let mut entries = Vec::new();
    for info in catalog.collection_infos().into_iter().take(MAX_COLLECTIONS) {
        let url = format!("{base}/git/collection/{}.git", info.name);
        let (owner, selection) = (caller.owner().cloned(), state.collection_selection(info));
        let repository = state.open(View { owner, selection }, caller).await?;
        let plugin = repository.history.collection_plugin();
        if let Some(plugin) = plugin.filter(|plugin| names.insert(plugin.name.clone())) {
            let skills = repository.history.skills().map(|skill| &skill.info);
            entries.push(claude::remote_collection_entry(&plugin, url, skills));
        }
    }
    Ok(entries)
}

async fn archive_file(
    State(state): State<Arc<DistributionState>>,
    Path((tier, id, file)): Path<(String, String, String)>,
    caller: Option<Extension<Caller>>,
    budget: Option<Extension<RequestBudget>>,
    headers: HeaderMap,
) -> Result<Response, DistributionError> {
    let caller = caller.map(|caller| caller.0).unwrap_or_default();
    let not_found = || DistributionError::NotFound;
    let tier: Tier = tier.parse().map_err(|()| not_found())?;
    let number = file.strip_suffix(".zip").and_then(|number| number.parse().ok());
    let selector = VersionSelector::Number(number.ok_or_else(not_found)?);
    let skills = state.view(&caller)?;
    let row = skills.skill_version(Some(tier), &id, &selector).await?;
    let share = share(&state, budget.as_deref());
    let bytes = archive(&*skills, &state.repositories.blobs, &row, &share).await?;
    let is_private = tier == Tier::Private || state.settings.is_private;
    let cache = if is_private { "private, max-age=86400" } else { "public, max-age=86400" };
    Ok(TaggedBody::new("application/zip", bytes).respond(&headers, cache).into_response())
}

/// Returns the budget of a client.
fn share(state: &DistributionState, budget: Option<&RequestBudget>) -> MemoryBudget {
    budget.map_or_else(|| state.settings.budget.clone(), RequestBudget::share)
}
