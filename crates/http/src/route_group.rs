//! Routes whose policy differs from the default. The surface declares the policy; this crate knows none of them.

use std::{fmt, sync::Arc};

use axum::{
    Router,
    http::{HeaderMap, request::Parts},
};
use skills_core::Caller;

use crate::guard::AuthBypass;

/// Routes with a policy of their own.
#[derive(Debug, Clone, Default)]
pub struct RouteGroup {
    /// The routes.
    pub routes: Router,
    /// Differences from the default policy.
    pub policy: RoutePolicy,
}

/// Differences between a group of routes and all others. The host and origin rules are the same for all.
#[derive(Debug, Clone, Default)]
pub struct RoutePolicy {
    /// Maximum bytes of a request body, instead of [`HttpLimits::body_bytes`](crate::HttpLimits::body_bytes).
    pub body_limit: Option<BodyLimit>,
    /// Bodies are files that no handler parses: their JSON values are not counted, and no memory is reserved for more than
    /// their bytes.
    pub raw_bodies: bool,
    /// Finds the caller of a session that the routes keep themselves. What the request uses counts for that caller.
    pub session: Option<SessionLookup>,
    /// Requests wait for an event. They do not count as requests in progress, and the routes themselves bound their
    /// number and duration.
    pub long_poll: bool,
    /// Selects requests that the routes authenticate themselves: an unknown credential does not reject them.
    pub auth_bypass: Option<AuthBypass>,
    /// Accepts HTTP Basic credentials: the password is the key or token, whatever the user name. A 401 then asks for them,
    /// because git and package installers send a credential only after such a challenge.
    pub accepts_basic: bool,
    /// Allows reads by web pages whose origin only `*` or `null` allows, and links and embeds from other sites where
    /// `*` is listed.
    pub is_public: bool,
    /// Refuses requests of pages of all other origins, also of those that may use all other routes, and answers no CORS
    /// request. A request that may change something has to name this server as its origin.
    pub same_origin: bool,
    /// Lets links on pages of other origins open routes that are [`same_origin`](Self::same_origin): the browser loads
    /// them in a tab, where the other page cannot read them.
    pub linkable: bool,
    /// Surface that the requests are counted for.
    pub surface: Option<&'static str>,
    /// Adds headers to every response.
    pub decorator: Option<ResponseDecorator>,
}

/// Limit on the bytes of a request body, chosen by the head of the request before its body is received.
#[derive(Clone)]
pub struct BodyLimit(Arc<MaxBytes>);

type MaxBytes = dyn Fn(&Parts) -> usize + Send + Sync;

impl BodyLimit {
    /// Creates a limit that depends on the request.
    pub fn new(max_bytes: impl Fn(&Parts) -> usize + Send + Sync + 'static) -> Self {
        Self(Arc::new(max_bytes))
    }

    pub(crate) fn bytes(&self, head: &Parts) -> usize {
        (self.0)(head)
    }
}

impl fmt::Debug for BodyLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BodyLimit")
    }
}

/// Finds the caller of a session, such as that of a cookie, by the headers of a request.
#[derive(Clone)]
pub struct SessionLookup(Arc<FindCaller>);

type FindCaller = dyn Fn(&HeaderMap) -> Option<Caller> + Send + Sync;

impl SessionLookup {
    /// Creates a lookup. A session without a caller of its own belongs to its address.
    pub fn new(find: impl Fn(&HeaderMap) -> Option<Caller> + Send + Sync + 'static) -> Self {
        Self(Arc::new(find))
    }

    pub(crate) fn caller(&self, headers: &HeaderMap) -> Option<Caller> {
        (self.0)(headers)
    }
}

impl fmt::Debug for SessionLookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionLookup")
    }
}

/// Adds headers to the responses for authenticated callers, including the error responses of this crate.
#[derive(Clone)]
pub struct ResponseDecorator(Arc<Decorate>);

type Decorate = dyn Fn(&Caller, &mut HeaderMap) + Send + Sync;

impl ResponseDecorator {
    /// Creates a decorator that calls `decorate` after every request of an authenticated caller.
    pub fn new(decorate: impl Fn(&Caller, &mut HeaderMap) + Send + Sync + 'static) -> Self {
        Self(Arc::new(decorate))
    }

    pub(crate) fn apply(&self, caller: &Caller, headers: &mut HeaderMap) {
        (self.0)(caller, headers);
    }
}

impl fmt::Debug for ResponseDecorator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResponseDecorator")
    }
}

impl RouteGroup {
    /// Creates a group of routes with a policy.
    #[must_use]
    pub const fn new(routes: Router, policy: RoutePolicy) -> Self {
        Self { routes, policy }
    }
}
