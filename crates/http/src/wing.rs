//! Routes that cannot live under the limits of all, and say so. What they say is theirs; this crate knows none
//! of them.

use std::{fmt, sync::Arc};

use axum::{Router, http::HeaderMap};
use skills_core::Caller;

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
#[derive(Debug, Clone, Default)]
pub struct Terms {
    /// Bytes of a request's body, where it is not those of [`Limits`](crate::Limits).
    pub body_bytes: Option<usize>,
    /// Whether requests wait for something to happen: they are no work under way, and how long they last and
    /// how many there are is bounded by the routes themselves.
    pub waits: bool,
    /// Which requests the routes check themselves: a credential that nobody here knows does not keep them out.
    pub own_check: Option<OwnCheck>,
    /// What every answer says to who asked.
    pub mark: Option<Mark>,
}

/// Writes what an answer says to a caller into its head. Refusals of this crate are answers too.
#[derive(Clone)]
pub struct Mark(Arc<Write>);

type Write = dyn Fn(&Caller, &mut HeaderMap) + Send + Sync;

impl Mark {
    /// Asked after every request of somebody who is let in.
    pub fn new(write: impl Fn(&Caller, &mut HeaderMap) + Send + Sync + 'static) -> Self {
        Self(Arc::new(write))
    }

    pub(crate) fn write(&self, caller: &Caller, answer: &mut HeaderMap) {
        (self.0)(caller, answer);
    }
}

impl fmt::Debug for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mark")
    }
}

impl Wing {
    /// Routes with terms.
    #[must_use]
    pub const fn new(routes: Router, terms: Terms) -> Self {
        Self { routes, terms }
    }
}
