//! Routes for the skills in a caller's view: `list`, `detail` and `schema`. `wire` has their JSON types.

mod detail;
mod list;
mod schema;
mod wire;

use utoipa_axum::{router::OpenApiRouter, routes};

pub(crate) use detail::DetailCache;
pub(crate) use wire::{
    ImportedFrom, Limit, LimitQuery, MAX_CURSOR_BYTES, PageQuery, StoredAt, TierName, row_number,
};

use crate::Gateway;

pub(crate) fn routes() -> OpenApiRouter<Gateway> {
    OpenApiRouter::new()
        .routes(routes!(list::list))
        .routes(routes!(schema::schema))
        .routes(routes!(detail::detail))
}
