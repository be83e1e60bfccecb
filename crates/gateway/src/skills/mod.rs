//! Skills as a caller sees them: `list`, `detail` and `schema`; `wire` is what they look like.

mod detail;
mod list;
mod schema;
mod wire;

use utoipa_axum::{router::OpenApiRouter, routes};

pub(crate) use wire::{Limit, MAX_CURSOR_BYTES, PageQuery, StoredAt, TierName};

use crate::Gateway;

pub(crate) fn routes() -> OpenApiRouter<Gateway> {
    OpenApiRouter::new()
        .routes(routes!(list::list))
        .routes(routes!(schema::schema))
        .routes(routes!(detail::detail))
}
