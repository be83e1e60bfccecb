//! Routes for administrators: skills of any layer (`sync_skill`, `delete_skill`), accounts (`sync_cache`, `provision`,
//! `keys`), tools (`refresh_tools`), the audit log (`log`), the state of the server (`status`) and queries without results
//! (`search_misses`).
//!
//! `auth` authorizes administrators, `manifest_input` parses and stores skills. Every change is recorded with its
//! actor: changes of content in the change log of the store, changes of accounts in the audit log of the vault.

mod auth;
mod delete_skill;
mod keys;
mod log;
mod manifest_input;
mod provision;
mod refresh_tools;
mod search_misses;
mod status;
mod sync_cache;
mod sync_skill;

pub use refresh_tools::REFRESH_TOOLS;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::Gateway;

#[expect(deprecated, reason = "provision is still accepted")]
pub(crate) fn routes() -> OpenApiRouter<Gateway> {
    OpenApiRouter::new()
        .routes(routes!(sync_skill::sync_skill))
        .routes(routes!(sync_cache::sync_cache))
        .routes(routes!(provision::provision))
        .routes(routes!(refresh_tools::refresh_tools))
        .routes(routes!(delete_skill::delete_skill))
        .routes(routes!(keys::list_keys, keys::create_key))
        .routes(routes!(keys::revoke_key))
        .routes(routes!(log::read_log))
        .routes(routes!(status::read_status))
        .routes(routes!(search_misses::search_misses))
}
