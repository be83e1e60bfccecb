//! Skills as a caller sees them: `list` and `detail`; `wire` is what they look like.

mod detail;
mod list;
mod wire;

use utoipa_axum::{router::OpenApiRouter, routes};

use crate::Gateway;

pub(crate) fn routes() -> OpenApiRouter<Gateway> {
    OpenApiRouter::new().routes(routes!(list::list)).routes(routes!(detail::detail))
}
