//! The marketplace of Claude Code over plain HTTP, and the archives that it names.
//!
//! Claude Code takes archives only from a public https address, so other servers offer folders of their git remotes.

use std::sync::Arc;

use axum::{
    Extension, Router,
    extract::{Path, State},
    http::HeaderMap,
    response::{IntoResponse as _, Response},
    routing::get,
};
use skills_core::{Caller, Owner, Tier, VersionSelector, WorkAccount, WorkKind};
use skills_http::{RouteGroup, RoutePolicy, TaggedBody};
use skills_registry::{SizedLruCache, catalog::StoredRevision};

use crate::{
    archive::{Archive, archive},
    error::DistributionError,
    formats::claude::{self, Source},
    listing::{Listing, listing, number_of},
    state::DistributionState,
    view::{Selection, View},
};

/// Most bytes of cached marketplaces.
const MAX_BYTES: usize = 16 << 20;

const MARKETPLACE: WorkKind = WorkKind::compute("marketplace file");

/// Cache of rendered marketplaces, by owner and address of the server.
#[derive(Debug)]
pub(crate) struct Marketplaces(SizedLruCache<MarketplaceKey, (StoredRevision, TaggedBody)>);

type MarketplaceKey = (Option<Owner>, String);

impl Default for Marketplaces {
    fn default() -> Self {
        Self(SizedLruCache::new(MAX_BYTES))
    }
}

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
    headers: HeaderMap,
) -> Result<Response, DistributionError> {
    let caller = caller.map(|caller| caller.0).unwrap_or_default();
    let owner = caller.owner().cloned();
    let is_own = owner.is_some();
    // Clients send no key for archives, so private skills come by git.
    let is_https = state.settings.public_url.as_ref().is_some_and(|url| url.is_https());
    let has_archives = is_https && !is_own && !state.settings.is_private;
    let (revision, listing) = listing(&state, &caller, has_archives).await?;
    let key = (owner.clone(), state.base_url(&headers));
    let cached = state.marketplaces.0.get(&key).filter(|(cached, _)| *cached == revision);
    let body = match cached {
        Some((_, body)) => body,
        None => {
            let (base, bytes) = (key.1.clone(), listing.rendered_size(&key.1));
            let render = move |_: &_| {
                let text = render(&listing, owner, &base);
                TaggedBody::new("application/json", text.into())
            };
            let body = WorkAccount::current().run(MARKETPLACE, bytes, render).await?;
            state.marketplaces.0.put(key, (revision, body.clone()), body.len() + 256);
            body
        }
    };
    let is_private = is_own || state.settings.is_private;
    let cache = if is_private { "private, max-age=60" } else { "public, max-age=60" };
    Ok(body.respond(&headers, cache))
}

/// Returns the file. Skills with a digest are archives, others are folders of the remote of the view.
fn render(listing: &Listing, owner: Option<Owner>, base: &str) -> String {
    let remote = format!("{base}/git/{}.git", if owner.is_some() { "mine" } else { "all" });
    let plugins = listing.plugins.iter().map(|plugin| {
        let source = match plugin.digest {
            Some(digest) => {
                let (row, version) = (&plugin.row, number_of(&plugin.row));
                let url = format!("{base}/archive/{}/{}/{version}.zip", row.tier, row.id);
                Source::archive(url, digest.to_string())
            }
            None => Source::git_subdir(remote.clone(), format!("skills/{}", plugin.info.name)),
        };
        claude::entry(&plugin.info, source)
    });
    // Each collection has a repository of its own.
    let collections = listing.collections.iter().map(|collection| {
        let url = format!("{base}/git/collection/{}.git", collection.name);
        let skills = collection.skills.iter().map(String::as_str);
        claude::remote_collection_entry(&collection.info, url, skills)
    });
    let name = View { owner, selection: Selection::All }.marketplace_name();
    claude::marketplace(&name, plugins.chain(collections))
}

async fn archive_file(
    State(state): State<Arc<DistributionState>>,
    Path((tier, id, file)): Path<(String, String, String)>,
    caller: Option<Extension<Caller>>,
    headers: HeaderMap,
) -> Result<Response, DistributionError> {
    let caller = caller.map(|caller| caller.0).unwrap_or_default();
    let not_found = || DistributionError::NotFound;
    let tier: Tier = tier.parse().map_err(|()| not_found())?;
    let number = file.strip_suffix(".zip").and_then(|number| number.parse().ok());
    let selector = VersionSelector::Number(number.ok_or_else(not_found)?);
    let skills = state.view(&caller)?;
    let row = skills.skill_version(Some(tier), &id, &selector).await?;
    let Archive { bytes, digest } = archive(&skills, &state.repositories.blobs, &row).await?;
    let is_private = tier == Tier::Private || state.settings.is_private;
    let cache = if is_private { "private, max-age=86400" } else { "public, max-age=86400" };
    let body = TaggedBody::with_digest("application/zip", bytes, &digest);
    Ok(body.respond(&headers, cache).into_response())
}
