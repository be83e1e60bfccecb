//! Context of a request: the session, the person and the registry as they see it; and the middleware that provides it.

use std::{convert::Infallible, sync::Arc};

use axum::{
    extract::{FromRequestParts, Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header, request::Parts},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use skills_core::{RequestBudget, Tier, origin::WebHost};
use skills_http::{LocalPeer, is_local_request};
use skills_registry::{Catalog, SkillRegistry};
use skills_vault::now;

use crate::{
    Console,
    error::{ConsoleError, ErrorPage},
    layout,
    session::{CookieName, Identity, SessionId, set_cookie},
    sign_in,
};

/// Context of a request; cheap to clone.
#[derive(Clone)]
pub(crate) struct Visit(Arc<VisitData>);

pub(crate) struct VisitData {
    pub(crate) console: Console,
    pub(crate) session: SessionId,
    /// `None` if the person has to sign in.
    pub(crate) identity: Option<Identity>,
    /// Host and port that the browser used, such as `127.0.0.1:47372`.
    host: String,
    /// True if the browser used TLS: browsers send metadata about a request to other hosts over TLS only.
    is_tls: bool,
    /// True if the browser runs on this machine, as far as the server can tell.
    pub(crate) is_local: bool,
    /// Sender of the request, where that decides about the person: without a session on a server without a token.
    pub(crate) local_peer: Option<LocalPeer>,
    /// Path and query of the request.
    pub(crate) target: String,
    /// True if the request wants a part of a page for a script.
    pub(crate) is_fragment: bool,
    /// Memory of the request; `None` without the limits of the server.
    budget: Option<RequestBudget>,
}

impl std::ops::Deref for Visit {
    type Target = VisitData;

    fn deref(&self) -> &VisitData {
        &self.0
    }
}

impl Visit {
    /// Returns the person.
    ///
    /// # Errors
    /// When they have to sign in.
    pub(crate) fn person(&self) -> Result<&Identity, ConsoleError> {
        self.identity.as_ref().ok_or(ConsoleError::SignInNeeded)
    }

    /// Returns whether the person signed in, so that they can sign out.
    pub(crate) fn is_signed_in(&self) -> bool {
        // Without a session, only the sender decides about the person.
        self.identity.is_some() && self.local_peer.is_none()
    }

    /// Returns the registry as the person sees it.
    ///
    /// # Errors
    /// When they have to sign in.
    pub(crate) fn skills(&self) -> Result<Arc<dyn SkillRegistry>, ConsoleError> {
        let caller = self.person()?.caller();
        Ok(Arc::clone(&self.console.parts.skills).view(&caller)?)
    }

    /// Returns the catalog as the person sees it.
    ///
    /// # Errors
    /// When they have to sign in, or the registry cannot be read.
    pub(crate) async fn catalog(&self) -> Result<Arc<Catalog>, ConsoleError> {
        Ok(self.skills()?.catalog().await?)
    }

    /// Checks that the person may change a tier, and counts the change against the limit of their key.
    ///
    /// # Errors
    /// When they may not, or have no changes left in this minute.
    pub(crate) async fn authorize_write(&self, tier: Tier) -> Result<(), ConsoleError> {
        let person = self.person()?;
        if !person.may_write(tier) {
            return Err(ConsoleError::Forbidden("you may not change skills of this tier"));
        }
        if let Identity::User(_) = person {
            self.console.parts.limiter.take(&person.caller(), now()).await?;
        }
        Ok(())
    }

    /// Returns the address of the server for clients of the person: `public_url`, else the one that their browser used,
    /// without a path. Every page that shows an address takes it from here.
    pub(crate) fn server_address(&self) -> String {
        if let Some(url) = &self.console.parts.public_url {
            return url.to_string();
        }
        let scheme = if self.is_tls { "https" } else { "http" };
        format!("{scheme}://{}", self.host)
    }

    /// Reserves memory for the rest of the request. When the response is sent, its own bytes are reserved instead.
    ///
    /// # Errors
    /// When it is not free.
    pub(crate) fn reserve(&self, bytes: usize) -> Result<(), ConsoleError> {
        Ok(self.budget.as_ref().map_or(Ok(()), |budget| budget.try_grow(bytes))?)
    }

    /// Gives back memory of the request, such as that of a body that was read.
    pub(crate) fn give_back(&self, bytes: usize) {
        if let Some(budget) = &self.budget {
            // Shrinking is always possible.
            let _ = budget.resize(budget.bytes().saturating_sub(bytes));
        }
    }

    /// Returns the token for the forms of the page.
    pub(crate) fn form_token(&self) -> String {
        self.console.sessions.form_token(&self.session)
    }
}

impl<S: Sync> FromRequestParts<S> for Visit {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        // The middleware is around every route of this crate.
        #[expect(
            clippy::expect_used,
            reason = "a route without the middleware is a mistake in `routes`"
        )]
        Ok(parts.extensions.get::<Self>().cloned().expect("the middleware provides the visit"))
    }
}

/// Provides the context of a request, sets the cookie of a new session, and renders error pages.
pub(crate) async fn provide(
    State(console): State<Console>,
    request: Request,
    next: Next,
) -> Response {
    let (mut parts, body) = request.into_parts();
    if site(&parts.headers) == Some("cross-site") {
        return layout::arrival_page(&target(&parts));
    }
    let cookie = CookieName::from_headers(&parts.headers);
    let presented = cookie.session_id(&parts.headers);
    let is_new = presented.is_none();
    let Ok(session) = presented.map_or_else(SessionId::random, Ok) else {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    };
    let is_local = !console.parts.guard.serves_other_machines() && is_local_request(&parts);
    let (identity, local_peer) = identify(&console, &session, &parts).await;
    let (host, is_local_host) = host(&parts.headers);
    let visit = Visit(Arc::new(VisitData {
        host,
        is_tls: !is_local_host && site(&parts.headers).is_some(),
        is_local,
        local_peer,
        target: target(&parts),
        is_fragment: parts.headers.contains_key("x-fragment"),
        budget: parts.extensions.get().cloned(),
        console,
        session,
        identity,
    }));
    parts.extensions.insert(visit.clone());
    let headers = parts.headers.clone();
    let is_read = matches!(parts.method, Method::GET | Method::HEAD);
    let mut response = next.run(Request::from_parts(parts, body)).await;
    if let Some(page) = response.extensions().get::<ErrorPage>().cloned() {
        response = if !page.needs_sign_in() || visit.is_fragment {
            layout::error_page(&visit, &page)
        } else if is_read {
            sign_in::redirect(&visit)
        } else {
            // The address of a form is no page, and what was typed must not be lost.
            layout::error_page(&visit, &ErrorPage::from(&ConsoleError::SessionEnded))
        };
    }
    let answer = response.headers_mut();
    answer.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    if is_new && !answer.contains_key(header::SET_COOKIE) {
        answer.insert(header::SET_COOKIE, set_cookie(&cookie, &visit.session, &headers));
    }
    response
}

/// Identifies the person: by their session, or as the person at this machine where the server has no token. Of several
/// users of a machine that is the user of the server, or root.
async fn identify(
    console: &Console,
    session: &SessionId,
    parts: &Parts,
) -> (Option<Identity>, Option<LocalPeer>) {
    let guard = &console.parts.guard;
    if let Some(identity) = console.sessions.identity(session) {
        if guard.is_active(&identity.caller()) {
            return (Some(identity), None);
        }
        console.sessions.sign_out(session);
    }
    if guard.has_token() {
        return (None, None);
    }
    let peer = guard.local_peer(parts).await;
    let identity = Identity::Local { is_admin: !console.parts.has_admin_key };
    ((peer == LocalPeer::Owner).then_some(identity), Some(peer))
}

/// Returns path and query of a request.
fn target(parts: &Parts) -> String {
    parts.uri.path_and_query().map_or_else(String::new, ToString::to_string)
}

/// Returns the relation of the page that caused a request to this server, where the browser says it.
fn site(headers: &HeaderMap) -> Option<&str> {
    headers.get("sec-fetch-site").and_then(|site| site.to_str().ok())
}

/// Returns the host that a request is addressed to, and whether it is a name of this machine.
fn host(headers: &HeaderMap) -> (String, bool) {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or("localhost");
    let is_local = WebHost::parse_authority(host).is_some_and(|(host, _)| {
        host.is_local() || matches!(host, WebHost::Ip(ip) if ip.is_loopback())
    });
    (host.to_owned(), is_local)
}
