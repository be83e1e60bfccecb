//! What only administrators may do: skills of any layer (`sync_skill`, `delete`), people (`sync_cache`,
//! `provision`, `keys`), tools (`refresh`), and the record of all of it (`log`).
//!
//! `door` decides who is an administrator. Everything that changes something is written down with who did it: what
//! concerns content in the log of changes, what concerns people in that of the vault.

mod delete;
mod door;
mod given;
mod keys;
mod log;
mod provision;
mod refresh;
mod sync_cache;
mod sync_skill;

pub use refresh::REFRESH_TOOLS;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::Gateway;

#[expect(deprecated, reason = "provision is still accepted")]
pub(crate) fn routes() -> OpenApiRouter<Gateway> {
    OpenApiRouter::new()
        .routes(routes!(sync_skill::sync_skill))
        .routes(routes!(sync_cache::sync_cache))
        .routes(routes!(provision::provision))
        .routes(routes!(refresh::refresh_tools))
        .routes(routes!(delete::delete_skill))
        .routes(routes!(keys::list_keys, keys::create_key))
        .routes(routes!(keys::revoke_key))
        .routes(routes!(log::read_log))
}
