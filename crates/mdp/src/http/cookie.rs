//! `/mdp/auth`: exchanges a token for a cookie, for browsers, which cannot send headers with a WebSocket.

use axum::{
    body::to_bytes,
    extract::{Request, State},
    http::{HeaderValue, Method, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use serde::Deserialize;
use skills_core::Code;
use skills_net::CredentialClient;

use super::{error_response::text_error, options};
use crate::{
    MdpHost,
    auth::{COOKIE, RegistrationAuth},
    wire::AuthContext,
};

const METHODS: &str = "GET, POST, DELETE, OPTIONS";
/// Path of the route.
pub(super) const PATH: &str = "/mdp/auth";
/// Maximum bytes of a body.
pub(super) const MAX_BODY_BYTES: usize = 16 << 10;

#[derive(Deserialize)]
struct AuthRequest {
    auth: Option<AuthContext>,
}

pub(super) async fn handle(State(host): State<MdpHost>, request: Request) -> Response {
    match *request.method() {
        Method::OPTIONS => options(request.headers(), METHODS),
        Method::POST => match issue(&host, request).await {
            Ok(cookie) => set_cookie(&host, &cookie, host.config().times.cookie.as_secs()),
            Err((status, error)) => {
                let is_token = status == StatusCode::UNAUTHORIZED;
                let code = if is_token { Code::Unauthorized } else { Code::BadRequest };
                text_error(status, &error, code, None)
            }
        },
        Method::DELETE => set_cookie(&host, "", 0),
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}

async fn issue(host: &MdpHost, request: Request) -> Result<String, (StatusCode, String)> {
    let bad = |error: String| (StatusCode::BAD_REQUEST, error);
    let presented = RegistrationAuth::credentials_from_headers(request.headers());
    let client = CredentialClient::from_extensions(request.extensions());
    let body = to_bytes(request.into_body(), MAX_BODY_BYTES).await;
    let body = body.map_err(|_| bad(format!("the body has more than {MAX_BODY_BYTES} bytes")))?;
    let posted = match body.trim_ascii() {
        [] => None,
        body => {
            serde_json::from_slice::<AuthRequest>(body)
                .map_err(|error| bad(error.to_string()))?
                .auth
        }
    };
    let auth = match (posted, presented) {
        (Some(posted), Some(presented)) => posted.with_fallback(presented),
        (posted, presented) => posted.or(presented).unwrap_or_default(),
    };
    if auth.is_empty() {
        return Err(bad("Auth endpoint requires an auth context".to_owned()));
    }
    if !host.auth().is_valid_token(auth.token.as_deref()) {
        host.delay_refusal(&client).await;
        let error =
            "the token of this server is required: send it as auth.token or as a bearer token";
        return Err((StatusCode::UNAUTHORIZED, error.to_owned()));
    }
    Ok(host.auth().issue_cookie())
}

fn set_cookie(host: &MdpHost, value: &str, seconds: u64) -> Response {
    let secure = if host.config().behind_tls { "; Secure" } else { "" };
    let cookie =
        format!("{COOKIE}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}");
    let mut response = StatusCode::NO_CONTENT.into_response();
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
