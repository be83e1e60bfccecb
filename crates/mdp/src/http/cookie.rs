//! `/mdp/auth`: a cookie for who cannot send headers with a WebSocket.

use axum::{
    Json,
    body::to_bytes,
    extract::{Request, State},
    http::{HeaderValue, Method, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use serde::Deserialize;
use serde_json::json;

use super::options;
use crate::{Host, auth::COOKIE, wire::Auth};

const METHODS: &str = "GET, POST, DELETE, OPTIONS";
/// Bytes of a body. Nothing larger fits into a cookie.
const MAX_BODY: usize = 16 << 10;
/// Bytes of a cookie that browsers take.
const MAX_COOKIE: usize = 4000;

#[derive(Deserialize)]
struct Posted {
    auth: Option<Auth>,
}

pub(super) async fn answer(State(host): State<Host>, request: Request) -> Response {
    match *request.method() {
        Method::OPTIONS => options(request.headers(), METHODS),
        Method::POST => match give(&host, request).await {
            Ok(cookie) => set(&host, &cookie, host.config().times.cookie.as_secs()),
            Err((status, error)) => (status, Json(json!({ "error": error }))).into_response(),
        },
        Method::DELETE => set(&host, "", 0),
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}

async fn give(host: &Host, request: Request) -> Result<String, (StatusCode, String)> {
    let bad = |error: String| (StatusCode::BAD_REQUEST, error);
    let presented = host.keys().credentials(request.headers());
    let body = to_bytes(request.into_body(), MAX_BODY).await;
    let body = body.map_err(|_| bad(format!("the body has more than {MAX_BODY} bytes")))?;
    let posted = match body.trim_ascii() {
        [] => None,
        body => {
            serde_json::from_slice::<Posted>(body).map_err(|error| bad(error.to_string()))?.auth
        }
    };
    let auth = match (posted, presented) {
        (Some(posted), Some(presented)) => posted.over(presented),
        (posted, presented) => posted.or(presented).unwrap_or_default(),
    };
    if auth.is_empty() {
        return Err(bad("Auth endpoint requires an auth context".to_owned()));
    }
    if !host.keys().token_is_good(auth.token.as_deref()) {
        let error = "the token of this server is required, as auth.token or as a bearer token";
        return Err((StatusCode::UNAUTHORIZED, error.to_owned()));
    }
    let cookie = host.keys().sign(&auth);
    match cookie.len() <= MAX_COOKIE {
        true => Ok(cookie),
        false => Err(bad("the auth context is too large for a cookie".to_owned())),
    }
}

fn set(host: &Host, value: &str, seconds: u64) -> Response {
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
