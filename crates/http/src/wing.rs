//! Routes that cannot live under the limits of all, and say so. What they say is theirs; this crate knows none
//! of them.

use axum::Router;

use crate::guard::OwnCheck;

/// Routes with terms of their own.
#[derive(Debug, Clone, Default)]
pub struct Wing {
    /// The routes.
    pub routes: Router,
    /// How they differ from others.
    pub terms: Terms,
}

/// In what some routes differ from all others. Hosts and origins are the same for all.
#[derive(Debug, Clone, Copy, Default)]
pub struct Terms {
    /// Bytes of a request's body, where it is not those of [`Limits`](crate::Limits).
    pub body_bytes: Option<usize>,
    /// Whether requests wait for something to happen: they are no work under way, and how long they last and
    /// how many there are is bounded by the routes themselves.
    pub waits: bool,
    /// Which requests the routes check themselves: a credential that nobody here knows does not keep them out.
    pub own_check: Option<OwnCheck>,
}

impl Wing {
    /// Routes with terms.
    #[must_use]
    pub const fn new(routes: Router, terms: Terms) -> Self {
        Self { routes, terms }
    }
}
