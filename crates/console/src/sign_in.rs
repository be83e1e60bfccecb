//! Signing in with a key, the server's token or `ADMIN_KEY`, and signing out.

use axum::{
    extract::{Path, State},
    http::{Extensions, HeaderMap, Method, StatusCode, header},
    response::Response,
};
use maud::{Markup, html};
use skills_http::LocalPeer;

use crate::{
    Console, HOME,
    components::{token_field, with_query},
    error::ConsoleError,
    form::Form,
    layout::{Page, Section},
    response::see_other,
    session::{CookieName, Identity, SessionId, set_cookie},
    visit::Visit,
};

/// Path of the page.
const PATH: &str = "/ui/sign-in";

/// Redirects to the page, and from there back to the present one.
pub(crate) fn redirect(visit: &Visit) -> Response {
    see_other(&with_query(PATH, &[("next", &visit.target)]))
}

/// Returns the path to open after signing in: one of the console, never of another site.
fn next_path(target: Option<&str>) -> &str {
    let is_own = |path: &&str| {
        (*path == HOME || path.starts_with("/ui/") || path.starts_with("/ui?"))
            && !path.starts_with(PATH)
            && !path.contains(['\\', '\r', '\n'])
    };
    target.filter(is_own).unwrap_or(HOME)
}

/// Renders the form.
pub(crate) async fn page(visit: Visit) -> Response {
    let (_, query) = visit.target.split_once('?').unwrap_or_default();
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    let next = pairs.find_map(|(name, value)| (name == "next").then(|| value.into_owned()));
    respond(&visit, StatusCode::OK, next.as_deref(), None)
}

fn respond(
    visit: &Visit,
    status: StatusCode,
    next: Option<&str>,
    refusal: Option<&str>,
) -> Response {
    let body = body(visit, next_path(next), refusal);
    Page::new("Sign in", Section::None, body).respond_with(visit, status)
}

fn body(visit: &Visit, next: &str, refusal: Option<&str>) -> Markup {
    html! {
        div.narrow {
            h1 { "Sign in" }
            p { "Paste a key (" code { "us-…" } "), the server's token or " code { "ADMIN_KEY" }
                ". It is exchanged for a cookie that ends when you sign out, close the browser, or the key is revoked." }
            @if let Some(refusal) = refusal {
                div.notice.error role="alert" { p #refusal { (refusal) } }
            }
            form.stack method="post" action=(PATH) {
                (token_field(visit))
                input type="hidden" name="next" value=(next);
                label for="credential" { "Key or token" }
                input #credential name="credential" type="password" autocomplete="off" required
                    autofocus spellcheck="false" aria-describedby=[refusal.map(|_| "refusal")];
                button.primary type="submit" { "Sign in" }
            }
            @if let Some(identity) = &visit.identity {
                p.muted { "Without signing in: " (identity.description()) }
            } @else {
                @if let Some(reason) = visit.local_peer.and_then(stranger) {
                    p #stranger { (reason) " Without a key, open the link that " code { "skills status" }
                        " shows to that user. It works once." }
                }
                p.muted { "The person who runs the server creates keys with " code { "skills key create --uid NAME" } "." }
            }
        }
    }
}

/// Returns why a person is not the one at this machine, who needs no credential.
const fn stranger(peer: LocalPeer) -> Option<&'static str> {
    match peer {
        LocalPeer::Owner => None,
        LocalPeer::OtherUser => Some(
            "Only the user who runs the server needs no key; this browser runs as another user of the machine.",
        ),
        LocalPeer::Unknown => Some(
            "Only the user who runs the server needs no key, and the server cannot tell which user this browser runs as, \
             as on macOS or from a container.",
        ),
        LocalPeer::Elsewhere => Some(
            "Only the user who runs the server needs no key, on the same machine and without a proxy.",
        ),
    }
}

/// Exchanges the credential for a session.
pub(crate) async fn sign_in(
    State(console): State<Console>,
    visit: Visit,
    headers: HeaderMap,
    extensions: Extensions,
    form: Form,
) -> Result<Response, ConsoleError> {
    let credential = form.line("credential").unwrap_or_default();
    let credential = credential.strip_prefix("Bearer ").unwrap_or(credential).trim();
    let next = form.line("next");
    let identity = console.parts.guard.identify(credential).and_then(Identity::from_caller);
    let Some(identity) = identity.or_else(|| redeem(&console, credential)) else {
        console.parts.guard.delay_refusal("console", &extensions).await;
        let refusal =
            "This key or token is unknown: it was never issued, or it is revoked or expired.";
        return Ok(respond(&visit, StatusCode::UNAUTHORIZED, next, Some(refusal)));
    };
    open_session(&console, &visit, identity, next_path(next), &headers)
}

/// Returns the person at this machine if a text is the secret of the one-time link.
fn redeem(console: &Console, secret: &str) -> Option<Identity> {
    let is_link = console.parts.link.as_ref().is_some_and(|link| link.redeem(secret));
    is_link.then_some(Identity::Local { is_admin: !console.parts.has_admin_key })
}

/// Exchanges the one-time link for a session. The redirect keeps its secret out of the `Referer` of later requests.
pub(crate) async fn open_link(
    State(console): State<Console>,
    Path(secret): Path<String>,
    visit: Visit,
    method: Method,
    headers: HeaderMap,
    extensions: Extensions,
) -> Result<Response, ConsoleError> {
    // A program that looks whether the address exists must not use it up.
    let identity = (method == Method::GET).then(|| redeem(&console, &secret)).flatten();
    let Some(identity) = identity else {
        if visit.identity.is_some() {
            return Ok(see_other(HOME));
        }
        console.parts.guard.delay_refusal("console", &extensions).await;
        let refusal = "This link was used, or the server was started again. Open the one that `skills status` shows.";
        return Ok(respond(&visit, StatusCode::UNAUTHORIZED, None, Some(refusal)));
    };
    open_session(&console, &visit, identity, HOME, &headers)
}

/// Opens a session under a new id and redirects to a page.
fn open_session(
    console: &Console,
    visit: &Visit,
    identity: Identity,
    next: &str,
    headers: &HeaderMap,
) -> Result<Response, ConsoleError> {
    console.sessions.sign_out(&visit.session);
    let id = console.sessions.sign_in(identity)?;
    let mut response = see_other(next);
    let cookie = set_cookie(&CookieName::from_headers(headers), &id, headers);
    response.headers_mut().insert(header::SET_COOKIE, cookie);
    Ok(response)
}

/// Ends the session.
pub(crate) async fn sign_out(
    State(console): State<Console>,
    visit: Visit,
    headers: HeaderMap,
    _form: Form,
) -> Result<Response, ConsoleError> {
    console.sessions.sign_out(&visit.session);
    let id = SessionId::random().map_err(|_| ConsoleError::Internal)?;
    let mut response = see_other(HOME);
    let cookie = set_cookie(&CookieName::from_headers(&headers), &id, &headers);
    response.headers_mut().insert(header::SET_COOKIE, cookie);
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_page_is_one_of_the_console() {
        for path in ["/ui", "/ui/skills/a?tab=files", "/ui?q=x"] {
            assert_eq!(next_path(Some(path)), path);
        }
        for path in [
            "//evil.example",
            "https://evil.example",
            "/v1/skills",
            "/ui\\evil",
            "/uievil",
            "/ui/sign-in",
            "/ui/\r\nx",
            "",
        ] {
            assert_eq!(next_path(Some(path)), HOME, "{path}");
        }
        assert_eq!(next_path(None), HOME);
    }
}
