//! Routes for the versions of a skill: `history`, `diff`, `labels`, `rollback` and `yank`. `target` finds the entry and
//! authorizes changes, `wire` has the JSON types.
//!
//! Every caller who can read a skill can read its versions. A key changes the private entries of its user; an
//! administrator changes those of every layer.

mod diff;
mod history;
mod labels;
mod rollback;
mod target;
mod wire;
mod yank;

use utoipa_axum::{router::OpenApiRouter, routes};

use crate::Gateway;

pub(crate) fn routes() -> OpenApiRouter<Gateway> {
    OpenApiRouter::new()
        .routes(routes!(history::history))
        .routes(routes!(diff::diff))
        .routes(routes!(labels::set_label, labels::remove_label))
        .routes(routes!(rollback::rollback))
        .routes(routes!(yank::yank))
}
