//! Who may ask: the host that is named, the page that asks, and the token or key that is presented; and who that
//! is, which every request carries on as an extension, a [`skills_core::Caller`].
//!
//! It stands before every route, also before those that do not exist, and knows none of them: [`admit`] before
//! all, [`Gate::identify`] before those that are to know who asks, which are all but health.

mod cors;
mod host;
mod origin;
mod token;

use std::{net::SocketAddr, sync::Arc};

use axum::{
    extract::Request,
    http::{HeaderMap, Method, header},
    middleware::Next,
    response::{IntoResponse as _, Response},
};

use skills_core::{Caller, Identify, Identity, caller::NoKeys};

pub use self::token::Credential;
use self::{
    cors::Page,
    host::Hosts,
    origin::Origins,
    token::{Presented, Token},
};
use crate::refusal::{self, Refusal};

/// Who may ask, as it is set.
#[derive(Clone)]
pub struct Access {
    /// Names that this server is known by, beside localhost and its addresses.
    pub hosts: Vec<String>,
    /// Origins whose pages may ask, beside those of this machine; `null` for pages that have none, `*` for
    /// all.
    pub origins: Vec<String>,
    /// What must be presented, unless a key is.
    pub token: Option<String>,
    /// Whom keys stand for.
    pub keys: Arc<dyn Identify>,
}

impl Default for Access {
    fn default() -> Self {
        Self { hosts: vec![], origins: vec![], token: None, keys: Arc::new(NoKeys) }
    }
}

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { hosts, origins, token, keys: _ } = self;
        let token = token.as_ref().map(|_| "_");
        f.debug_struct("Access")
            .field("hosts", hosts)
            .field("origins", origins)
            .field("token", &token)
            .finish_non_exhaustive()
    }
}

/// Why a rule cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadRule {
    /// Of the hosts.
    #[error("{0:?} is not a host")]
    Host(String),
    /// Of the origins.
    #[error("{0:?} is not an origin")]
    Origin(String),
}

impl BadRule {
    /// Stable, for machines.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Host(_) => "bad_host",
            Self::Origin(_) => "bad_origin",
        }
    }

    /// What would be right.
    #[must_use]
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::Host(_) => {
                "a host is a name or an address without a port, such as skills.example"
            }
            Self::Origin(_) => {
                "an origin is scheme, host and port, such as https://app.example:8443, without a path; \
                 or null, or *"
            }
        }
    }
}

/// The rules, ready to be applied.
#[derive(Clone)]
pub struct Guard(Arc<Rules>);

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Rules { hosts, origins, token, keys: _ } = &*self.0;
        f.debug_struct("Guard")
            .field("hosts", hosts)
            .field("origins", origins)
            .field("token", token)
            .finish_non_exhaustive()
    }
}

struct Rules {
    hosts: Hosts,
    origins: Origins,
    token: Option<Token>,
    keys: Arc<dyn Identify>,
}

impl Rules {
    /// Who asks, unless they may not.
    fn caller(&self, headers: &HeaderMap) -> Result<Caller, Refusal> {
        let is_token = |presented| self.token.as_ref().is_some_and(|token| token.is(presented));
        match Presented::of(headers) {
            Presented::One(presented) if is_token(presented) => return Ok(Caller::Anonymous),
            Presented::One(presented) => {
                let text = std::str::from_utf8(presented).unwrap_or_default();
                match self.keys.identify(text) {
                    Identity::Known(caller) => return Ok(caller),
                    Identity::UnknownKey => return Err(refusal::UNKNOWN_KEY),
                    Identity::NotOurs => {}
                }
            }
            // Nobody can tell which of them is meant.
            Presented::SeveralWithAKey => return Err(refusal::UNKNOWN_KEY),
            Presented::Nothing => {}
        }
        if self.token.is_some() { Err(refusal::UNAUTHORIZED) } else { Ok(Caller::Anonymous) }
    }
}

impl Guard {
    /// Reads the rules.
    ///
    /// # Errors
    /// When one of them cannot be used.
    pub fn new(access: Access) -> Result<Self, BadRule> {
        let Access { hosts, origins, token, keys } = access;
        Ok(Self(Arc::new(Rules {
            hosts: Hosts::new(&hosts)?,
            origins: Origins::new(&origins)?,
            token: token.as_deref().map(Token::new),
            keys,
        })))
    }
}

/// A guard at an address.
#[derive(Debug, Clone)]
pub(crate) struct Door {
    guard: Guard,
    bound: SocketAddr,
}

impl Door {
    pub(crate) fn new(guard: Guard, bound: SocketAddr) -> Self {
        Self { guard, bound }
    }
}

/// Lets a request through, or says why not.
pub(crate) async fn admit(door: &Door, request: Request, next: Next) -> Response {
    let rules = &*door.guard.0;
    let headers = request.headers();
    if let Err(refused) = rules.hosts.check(request.uri(), headers, door.bound) {
        tracing::debug!(host = ?headers.get(header::HOST), "refused");
        return refused.into_response();
    }
    let mut origins = headers.get_all(header::ORIGIN).iter();
    if let Some(origin) = origins.find(|one| !rules.origins.allow(one)) {
        tracing::debug!(?origin, "refused");
        return refusal::ORIGIN_NOT_ALLOWED.into_response();
    }
    let page = headers
        .get(header::ORIGIN)
        .map(|origin| Page { origin: origin.clone(), with_cookies: rules.origins.name(origin) });
    let mut response = if cors::is_preflight(request.method(), headers) {
        cors::preflight(headers)
    } else {
        next.run(request).await
    };
    cors::mark(response.headers_mut(), page);
    response
}

/// Whether a request's credentials are left to the route that it is for.
pub type OwnCheck = fn(&Method, &HeaderMap) -> bool;

/// A guard before some routes.
#[derive(Debug, Clone)]
pub(crate) struct Gate {
    guard: Guard,
    own_check: Option<OwnCheck>,
}

impl Gate {
    pub(crate) fn new(guard: Guard, own_check: Option<OwnCheck>) -> Self {
        Self { guard, own_check }
    }

    fn caller(&self, method: &Method, headers: &HeaderMap) -> Result<Caller, Refusal> {
        self.guard.0.caller(headers).or_else(|refused| {
            let is_left = self.own_check.is_some_and(|is_left| is_left(method, headers));
            if is_left { Ok(Caller::Anonymous) } else { Err(refused) }
        })
    }

    /// Writes into a request who asks, unless nobody may who is not known.
    pub(crate) fn identify(&self, request: &mut Request) -> Result<Caller, Refusal> {
        let caller = self.caller(request.method(), request.headers())?;
        let credential = Credential::of(request.headers());
        let extensions = request.extensions_mut();
        extensions.insert(credential);
        extensions.insert(caller.clone());
        Ok(caller)
    }
}
