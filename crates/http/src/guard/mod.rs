//! Who may ask: the host that is named, the page that asks, and the token that is presented.
//!
//! It stands before every route, also before those that do not exist, and knows none of them but the two
//! that tell of health, which need no token.

mod cors;
mod host;
mod origin;
mod token;

use std::{net::SocketAddr, sync::Arc};

use axum::{
    extract::{Request, State},
    http::header,
    middleware::Next,
    response::{IntoResponse as _, Response},
};

pub use self::token::Credential;
use self::{host::Hosts, origin::Origins, token::Token};
use crate::{health, refusal};

/// Who may ask, as it is set.
#[derive(Clone, Default)]
pub struct Access {
    /// Names that this server is known by, beside localhost and its addresses.
    pub hosts: Vec<String>,
    /// Origins whose pages may ask, beside those of this machine; `null` for pages that have none, `*` for
    /// all.
    pub origins: Vec<String>,
    /// What must be presented.
    pub token: Option<String>,
}

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { hosts, origins, token } = self;
        let token = token.as_ref().map(|_| "_");
        f.debug_struct("Access")
            .field("hosts", hosts)
            .field("origins", origins)
            .field("token", &token)
            .finish()
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
#[derive(Debug, Clone)]
pub struct Guard(Arc<Rules>);

#[derive(Debug)]
struct Rules {
    hosts: Hosts,
    origins: Origins,
    token: Option<Token>,
}

impl Guard {
    /// Reads the rules.
    ///
    /// # Errors
    /// When one of them cannot be used.
    pub fn new(access: Access) -> Result<Self, BadRule> {
        let Access { hosts, origins, token } = access;
        Ok(Self(Arc::new(Rules {
            hosts: Hosts::new(&hosts)?,
            origins: Origins::new(&origins)?,
            token: token.as_deref().map(Token::new),
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
pub(crate) async fn admit(State(door): State<Door>, mut request: Request, next: Next) -> Response {
    let Rules { hosts, origins, token } = &*door.guard.0;
    let headers = request.headers();
    if let Err(refused) = hosts.check(request.uri(), headers, door.bound) {
        tracing::debug!(host = ?headers.get(header::HOST), "refused");
        return refused.into_response();
    }
    if let Some(origin) = headers.get_all(header::ORIGIN).iter().find(|one| !origins.allow(one)) {
        tracing::debug!(?origin, "refused");
        return refusal::ORIGIN_NOT_ALLOWED.into_response();
    }
    let origin = headers.get(header::ORIGIN).cloned();
    let open = [health::ALIVE, health::READY].contains(&request.uri().path());
    let mut response = if cors::is_preflight(request.method(), headers) {
        cors::preflight(headers)
    } else if !open && token.as_ref().is_some_and(|token| !token.is_presented(headers)) {
        refusal::UNAUTHORIZED.into_response()
    } else {
        let credential = Credential::of(headers);
        request.extensions_mut().insert(credential);
        next.run(request).await
    };
    cors::mark(response.headers_mut(), origin);
    response
}
