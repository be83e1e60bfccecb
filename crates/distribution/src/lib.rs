//! Skills as a source that the installers of clients read.
//!
//! - [`view`]: the skills that an address stands for, as a list of ids and versions
//! - `history`: commits of a view, derived from the change log alone
//! - `skill_tree`: git objects of one skill
//! - `formats`: generated files, one module per client
//! - `pack_plan`, `pack_stream`: packs, decided as a whole and streamed object by object
//! - `pack_entries`: cache of compressed objects
//! - `repositories`: cache of histories
//! - `turn_cache`: cache of what several clients wait for
//! - `git_routes`: git remotes over smart HTTP
//! - `search`: search for `npx skills`
//! - `clawhub`: the registry API of ClawHub clients
//! - `marketplace`, `archive`: the marketplace over plain HTTP, and zip archives
//! - `listing`, `timeline`: what a marketplace lists, and the versions that clients see
//!
//! A view is the only thing that decides what a caller gets. Everything else is the same for all views.

mod archive;
mod clawhub;
mod error;
mod formats;
mod git_routes;
mod history;
mod listing;
mod marketplace;
mod pack_entries;
mod pack_plan;
mod pack_stream;
mod plugin_version;
mod repositories;
mod row_memory;
mod search;
mod skill_tree;
mod state;
mod timeline;
mod turn_cache;
pub mod view;

use std::sync::Arc;

use skills_http::RouteGroup;
use skills_registry::SkillRegistry;

pub use clawhub::API_PREFIX as CLAWHUB_PREFIX;
pub use state::Settings;

/// Returns the routes, with the names of the surfaces that their requests are counted for.
pub fn routes(
    skills: Arc<dyn SkillRegistry>,
    settings: Settings,
) -> Vec<(&'static str, RouteGroup)> {
    let state = Arc::new(state::DistributionState::new(skills, settings));
    let [clawhub, clawhub_files] = clawhub::routes(&state);
    vec![
        ("git", git_routes::routes(&state)),
        ("marketplace", marketplace::routes(&state)),
        ("discovery", search::routes(&state)),
        ("clawhub", clawhub),
        ("clawhub", clawhub_files),
    ]
}
