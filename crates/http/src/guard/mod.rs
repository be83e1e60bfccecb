//! Access rules: allowed hosts, allowed web origins, and the token or key of the caller.
//!
//! [`check_host_and_origin`] runs before all routes, including those that do not exist. [`Authenticator`] runs before
//! all routes but health, and stores the [`skills_core::Caller`] as an extension of the request. Neither knows a route.

mod cors;
mod credential;
mod host;
mod origin;
mod own_origin;

use std::{net::SocketAddr, sync::Arc};

use axum::{
    extract::Request,
    http::{Extensions, HeaderMap, HeaderValue, Method, StatusCode, header, request::Parts},
    response::{IntoResponse as _, Response},
};

use skills_core::{
    Caller, Code, Coded, KeyDirectory, KeyEnd, KeyLookup, Token, caller::EmptyKeyDirectory,
};
use skills_net::{CredentialClient, FailedCredentials, PeerUsers, socket_owner::is_own_or_root};

use self::{
    cors::Page,
    credential::PresentedCredential,
    host::Hosts,
    origin::{Origins, PageReach},
};
use crate::{
    LocalPeer,
    error::{self, HttpError},
    is_local_request,
};

/// Access settings.
#[derive(Clone)]
pub struct Access {
    /// Host names of this server, besides localhost and its addresses.
    pub hosts: Vec<String>,
    /// Origins whose pages may send requests, besides those of this machine. `null` (pages without an origin) and `*`
    /// (all pages) only allow reading [public](crate::RoutePolicy::is_public) routes.
    pub origins: Vec<String>,
    /// Token that requests without a key must present.
    pub token: Option<String>,
    /// Directory of user keys.
    pub keys: Arc<dyn KeyDirectory>,
}

impl Default for Access {
    fn default() -> Self {
        Self { hosts: vec![], origins: vec![], token: None, keys: Arc::new(EmptyKeyDirectory) }
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

/// Invalid access setting.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AccessRuleError {
    /// Invalid entry of [`Access::hosts`].
    #[error("{0:?} is not a host")]
    Host(String),
    /// Invalid entry of [`Access::origins`].
    #[error("{0:?} is not an origin")]
    Origin(String),
}

impl Coded for AccessRuleError {
    fn code(&self) -> Code {
        match self {
            Self::Host(_) => Code::BadHost,
            Self::Origin(_) => Code::BadOrigin,
        }
    }

    fn hint(&self) -> Option<&str> {
        match self {
            Self::Host(_) => {
                Some("a host is a name or an address without a port, such as skills.example")
            }
            Self::Origin(_) => Some(
                "an origin is scheme, host and port, such as https://app.example:8443, without a path; \
                 or null, or *",
            ),
        }
    }
}

/// Compiled access rules; clones share them.
#[derive(Clone)]
pub struct Guard(Arc<Rules>);

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Rules { hosts, origins, token, .. } = &*self.0;
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
    keys: Arc<dyn KeyDirectory>,
    failed_credentials: FailedCredentials,
    peer_users: PeerUsers,
}

impl Rules {
    /// Looks up a credential. The token of the server belongs to no user.
    fn lookup(&self, presented: &[u8]) -> KeyLookup {
        if self.token.as_ref().is_some_and(|token| token.matches(presented)) {
            return KeyLookup::Found(Caller::Anonymous);
        }
        self.keys.lookup(std::str::from_utf8(presented).unwrap_or_default())
    }

    /// Identifies the caller by the credential in the headers.
    fn identify(&self, headers: &HeaderMap) -> Result<Caller, HttpError> {
        match PresentedCredential::from_headers(headers) {
            PresentedCredential::One(presented) => self.identify_one(presented),
            // It is undecidable which of them the client means.
            PresentedCredential::SeveralWithAKey => Err(error::UNKNOWN_KEY),
            PresentedCredential::None => self.without_credential(),
        }
    }

    /// Identifies the caller by one credential.
    fn identify_one(&self, presented: &[u8]) -> Result<Caller, HttpError> {
        match self.lookup(presented) {
            KeyLookup::Found(caller) => Ok(caller),
            KeyLookup::UnknownKey => Err(error::UNKNOWN_KEY),
            KeyLookup::Unavailable => Err(error::KEYS_UNAVAILABLE),
            KeyLookup::NotAKey => self.without_credential(),
        }
    }

    fn without_credential(&self) -> Result<Caller, HttpError> {
        if self.token.is_some() { Err(error::UNAUTHORIZED) } else { Ok(Caller::Anonymous) }
    }
}

impl Guard {
    /// Compiles the rules.
    ///
    /// # Errors
    /// When a host or an origin is invalid.
    pub fn new(access: Access) -> Result<Self, AccessRuleError> {
        let Access { hosts, origins, token, keys } = access;
        Ok(Self(Arc::new(Rules {
            hosts: Hosts::new(&hosts)?,
            origins: Origins::new(&origins)?,
            token: token.as_deref().map(Token::new),
            keys,
            failed_credentials: FailedCredentials::default(),
            peer_users: PeerUsers::default(),
        })))
    }

    /// Returns the counter of refused credentials, which all surfaces of a server share.
    #[must_use]
    pub fn failed_credentials(&self) -> &FailedCredentials {
        &self.0.failed_credentials
    }

    /// Identifies the caller by a credential that came by another way than a header; `None` for an unknown one.
    #[must_use]
    pub fn identify(&self, credential: &str) -> Option<Caller> {
        match self.0.lookup(credential.as_bytes()) {
            KeyLookup::Found(caller) => Some(caller),
            KeyLookup::UnknownKey | KeyLookup::Unavailable | KeyLookup::NotAKey => None,
        }
    }

    /// Counts a credential of a request that a surface refuses, and returns when the refusal may be sent.
    pub async fn delay_refusal(&self, surface: &'static str, extensions: &Extensions) {
        let client = CredentialClient::from_extensions(extensions);
        self.0.failed_credentials.refuse(surface, &client).await;
    }

    /// Returns the sender of a request as far as it can be told without a credential.
    pub async fn local_peer(&self, parts: &Parts) -> LocalPeer {
        if self.serves_other_machines() || !is_local_request(parts) {
            return LocalPeer::Elsewhere;
        }
        match self.0.peer_users.find(&parts.extensions).await {
            Some(user) if is_own_or_root(user) => LocalPeer::Owner,
            Some(_) => LocalPeer::OtherUser,
            None => LocalPeer::Unknown,
        }
    }

    /// Returns whether requests without a key need the token.
    #[must_use]
    pub fn has_token(&self) -> bool {
        self.0.token.is_some()
    }

    /// Returns whether the server has other hosts or pages than those of this machine: people elsewhere use it, possibly
    /// through a proxy that does not say so.
    #[must_use]
    pub fn serves_other_machines(&self) -> bool {
        !self.0.hosts.is_empty() || !self.0.origins.is_empty()
    }

    /// Returns whether the credential of a caller is still accepted.
    #[must_use]
    pub fn is_active(&self, caller: &Caller) -> bool {
        self.0.keys.is_active(caller)
    }

    /// Returns the configured origins that match pages of any site: `*` and `null`.
    pub fn wildcard_origins(&self) -> impl Iterator<Item = &'static str> {
        self.0.origins.wildcards()
    }
}

/// Guard of a server that is bound to an address.
#[derive(Debug, Clone)]
pub(crate) struct BoundGuard {
    pub(crate) guard: Guard,
    pub(crate) bound: SocketAddr,
}

pub(crate) use self::own_origin::OwnPages;

/// Rejects disallowed hosts and origins, and answers CORS requests, unless the route is for this server's own pages.
pub(crate) async fn check_host_and_origin(
    guard: &BoundGuard,
    own_pages: Option<OwnPages>,
    mut request: Request,
    next: impl AsyncFnOnce(Request) -> Response,
) -> Response {
    let rules = &*guard.guard.0;
    let headers = request.headers();
    if let Err(error) = rules.hosts.check(request.uri(), headers, guard.bound) {
        tracing::debug!(host = ?headers.get(header::HOST), "request rejected: host not allowed");
        return error.into_response();
    }
    if let Some(own_pages) = own_pages {
        return match own_origin::check(own_pages, request.method(), headers) {
            Ok(()) => next(request).await,
            Err(error) => {
                let origin = headers.get(header::ORIGIN);
                tracing::debug!(?origin, "request rejected: not a page of this server");
                error.into_response()
            }
        };
    }
    let reach = match rules.origins.reach(headers) {
        Ok(reach) => reach,
        Err(error) => {
            let origin = headers.get(header::ORIGIN);
            tracing::debug!(?origin, "request rejected: origin not allowed");
            return error.into_response();
        }
    };
    let with_cookies = reach == PageReach::AllRoutes;
    let page =
        headers.get(header::ORIGIN).map(|origin| Page { origin: origin.clone(), with_cookies });
    let mut response = match reach {
        PageReach::AllRoutes if cors::is_preflight(request.method(), headers) => {
            cors::preflight(headers, cors::METHODS)
        }
        PageReach::AllRoutes => next(request).await,
        PageReach::PublicRoutes(otherwise) => {
            request.extensions_mut().insert(PublicOnly(otherwise));
            let response = next(request).await;
            if response.extensions().get() == Some(&otherwise) {
                // A page that is not allowed may not read the reason.
                return response;
            }
            response
        }
    };
    cors::insert_headers(response.headers_mut(), page);
    response
}

/// Extension of a request that may only read public routes, with the error for all others. Only the route group knows
/// whether it is public.
#[derive(Debug, Clone, Copy)]
struct PublicOnly(HttpError);

/// Predicate for requests whose credentials the route checks itself.
pub type AuthBypass = fn(&Method, &HeaderMap) -> bool;

/// Authentication of one route group.
#[derive(Debug, Clone)]
pub(crate) struct Authenticator {
    pub(crate) guard: Guard,
    pub(crate) bypass: Option<AuthBypass>,
    pub(crate) is_public: bool,
    pub(crate) accepts_basic: bool,
}

impl Authenticator {
    /// Checks a request that may only read public routes. Returns the response if no handler is needed.
    pub(crate) fn check_public(&self, request: &Request) -> Option<Response> {
        let PublicOnly(otherwise) = request.extensions().get()?;
        let (method, headers) = (request.method(), request.headers());
        let is_allowed = |method: &str| self.is_public && matches!(method, "GET" | "HEAD");
        if cors::is_preflight(method, headers) {
            let requested = headers.get(header::ACCESS_CONTROL_REQUEST_METHOD);
            let requested = requested.and_then(|method| method.to_str().ok()).unwrap_or_default();
            return Some(if is_allowed(requested) {
                cors::preflight(headers, cors::READ_METHODS)
            } else {
                otherwise.into_response()
            });
        }
        (!is_allowed(method.as_str())).then(|| otherwise.into_response())
    }

    /// Returns a future that completes when the key of a user ends; `None` for other callers.
    pub(crate) fn key_end(&self, caller: &Caller) -> Option<KeyEnd> {
        matches!(caller, Caller::User(_)).then(|| self.guard.0.keys.wait_until_ended(caller))
    }

    /// Makes a 401 ask for Basic credentials, where the routes accept them.
    pub(crate) fn challenge(&self, mut response: Response) -> Response {
        if self.accepts_basic && response.status() == StatusCode::UNAUTHORIZED {
            let basic = HeaderValue::from_static("Basic realm=\"skills\", charset=\"UTF-8\"");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, basic);
        }
        response
    }

    /// Returns the client if it presented a credential that nobody has: by the identified caller, or without one if the
    /// request was refused.
    pub(crate) fn guessing_client(
        &self,
        request: &Request,
        caller: Option<&Caller>,
    ) -> Option<CredentialClient> {
        let is_unknown = match caller {
            None => true,
            // Without a token any credential is accepted, until a route needs a key or the secret of an administrator.
            Some(Caller::Anonymous) => !self.guard.has_token() && self.bypass.is_none(),
            Some(_) => false,
        };
        let is_presented = is_unknown && request.headers().contains_key(header::AUTHORIZATION);
        is_presented.then(|| CredentialClient::from_extensions(request.extensions()))
    }

    /// Delays the refusal of a credential, if its client had too many.
    pub(crate) async fn delay_refusal(
        &self,
        client: Option<&CredentialClient>,
        status: StatusCode,
    ) {
        if let Some(client) = client.filter(|_| status == StatusCode::UNAUTHORIZED) {
            self.guard.failed_credentials().refuse("http", client).await;
        }
    }

    /// Identifies the caller and stores it as an extension of the request.
    ///
    /// # Errors
    /// When the credential is missing or unknown and the route does not check it itself.
    pub(crate) fn authenticate(&self, request: &mut Request) -> Result<Caller, HttpError> {
        let (method, headers) = (request.method(), request.headers());
        let basic = if self.accepts_basic { credential::basic(headers) } else { None };
        let identified = match &basic {
            Some(presented) => self.guard.0.identify_one(presented),
            None => self.guard.0.identify(headers),
        };
        let caller = identified.or_else(|error| match self.bypass {
            Some(bypass) if bypass(method, headers) => Ok(Caller::Anonymous),
            _ => Err(error),
        })?;
        if caller != Caller::Anonymous
            && let Some(PublicOnly(otherwise)) = request.extensions().get()
        {
            // Content that a user of a key sees is not public.
            return Err(*otherwise);
        }
        request.extensions_mut().insert(caller.clone());
        Ok(caller)
    }
}
