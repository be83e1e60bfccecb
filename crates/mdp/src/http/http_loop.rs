//! Sessions over plain requests: connect, send, poll, disconnect. What a WebSocket carries, one message for
//! each request.
//!
//! Bodies are read as they are, whatever type they say to have: clients say JSON also where they send none.

use std::{sync::Arc, time::Duration};

use axum::{
    Json,
    body::{Bytes, to_bytes},
    extract::{Query, Request, State},
    http::{HeaderMap, Method, StatusCode, Uri, header},
    response::{IntoResponse as _, Response},
};
use serde::Deserialize;
use serde_json::{json, value::RawValue};
use uuid::Uuid;

use super::{options, refusal::Refusal};
use crate::{Close, Host, Limits, Mode, Next, Refused, Session, Times, wire::WireError};

const METHODS: &str = "GET, POST, OPTIONS";
const SESSION: &str = "x-mdp-session-id";
/// What a request has around its message.
const ENVELOPE: usize = 1 << 10;
/// The words of the protocol.
const INVALID: &str = "Invalid MDP client message";

pub(super) async fn answer(State(host): State<Host>, request: Request) -> Response {
    let call = request.uri().path().trim_start_matches("/mdp/http-loop");
    match (request.method(), call) {
        (&Method::OPTIONS, _) => options(request.headers(), METHODS),
        (&Method::POST, "/connect") => connect(&host, request).await,
        (&Method::POST, "/send") => send(&host, request).await,
        (&Method::GET, "/poll") => poll(&host, request.headers(), request.uri()).await,
        (&Method::POST, "/disconnect") => disconnect(&host, request.headers(), request.uri()),
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}

/// Bytes of the largest body: a result with what is around it.
pub(super) fn max_body(host: &Host) -> usize {
    let Limits { result_bytes, message_bytes, .. } = host.config().limits;
    result_bytes.max(message_bytes).saturating_add(ENVELOPE)
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Asked {
    session_id: Option<String>,
    wait_ms: Option<String>,
}

fn asked(uri: &Uri) -> Asked {
    Query::try_from_uri(uri).map(|Query(asked)| asked).unwrap_or_default()
}

/// The session that a request names, in its header or its query. Its credentials are the request's own.
fn session(host: &Host, headers: &HeaderMap, uri: &Uri) -> Option<Arc<Session>> {
    let named = headers.get(SESSION).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let id = Uuid::try_parse(&named.or_else(|| asked(uri).session_id)?).ok()?;
    host.session(id).filter(|session| session.mode == Mode::HttpLoop)
}

fn bad(status: StatusCode, error: &str, refused: Option<&Refused>) -> Response {
    let body = match refused {
        Some(refused) => {
            json!({ "error": error, "code": refused.code(), "details": refused.to_string() })
        }
        None => json!({ "error": error }),
    };
    (status, Json(body)).into_response()
}

/// The body of a request, if it is not too large.
async fn body(request: Request, max: usize) -> Result<Bytes, Response> {
    let too_large = |_| {
        let error = format!("the body is broken or has more than {max} bytes");
        bad(StatusCode::PAYLOAD_TOO_LARGE, &error, None)
    };
    to_bytes(request.into_body(), max).await.map_err(too_large)
}

async fn connect(host: &Host, request: Request) -> Response {
    let transport = host.keys().transport(request.headers());
    let body = match body(request, ENVELOPE).await {
        Ok(body) => body,
        Err(response) => return response,
    };
    if !body.trim_ascii().is_empty()
        && let Err(error) = serde_json::from_slice::<&RawValue>(&body)
    {
        return bad(StatusCode::BAD_REQUEST, &error.to_string(), None);
    }
    match host.open(Mode::HttpLoop, transport) {
        Ok(session) => Json(json!({ "sessionId": session.id })).into_response(),
        Err(refused) => Refusal::from(refused).into_response(),
    }
}

async fn send(host: &Host, request: Request) -> Response {
    #[derive(Deserialize)]
    struct Sent<'a> {
        #[serde(borrow)]
        message: &'a RawValue,
    }
    let Some(session) = session(host, request.headers(), request.uri()) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let transport = host.keys().transport(request.headers());
    // Only who is registered can have results, which may be larger.
    let max = match session.is_registered() {
        true => max_body(host),
        false => host.config().limits.message_bytes.saturating_add(ENVELOPE),
    };
    let body = match body(request, max).await {
        Ok(body) => body,
        Err(response) => return response,
    };
    let sent: Sent<'_> = match serde_json::from_slice(&body) {
        Ok(sent) => sent,
        Err(error) if error.is_data() => return bad(StatusCode::BAD_REQUEST, INVALID, None),
        Err(error) => return bad(StatusCode::BAD_REQUEST, &error.to_string(), None),
    };
    match host.receive_by(&session, transport, sent.message.get()) {
        Ok(()) => (StatusCode::ACCEPTED, Json(json!({ "ok": true }))).into_response(),
        // What is no message harms nobody; whatever else is refused leaves the two ends out of step.
        Err(refused @ Refused::Message(WireError::Unexpected(_) | WireError::NotJson(_))) => {
            bad(StatusCode::BAD_REQUEST, INVALID, Some(&refused))
        }
        Err(refused) => {
            host.refuse(&session, &refused);
            let status = match refused {
                Refused::Unauthorized => StatusCode::UNAUTHORIZED,
                _ => StatusCode::BAD_REQUEST,
            };
            bad(status, &refused.to_string(), Some(&refused))
        }
    }
}

async fn poll(host: &Host, headers: &HeaderMap, uri: &Uri) -> Response {
    let Some(session) = session(host, headers, uri) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let wait = wait(asked(uri).wait_ms.as_deref(), &host.config().times);
    match session.poll(wait).await {
        Some(Next::Message(message)) => {
            let body = format!("{{\"message\":{message}}}");
            ([(header::CONTENT_TYPE, "application/json")], body).into_response()
        }
        Some(Next::Close(_)) => StatusCode::NOT_FOUND.into_response(),
        None => StatusCode::NO_CONTENT.into_response(),
    }
}

/// How long a poll waits that asks for so many milliseconds. What is no such number asks for nothing.
fn wait(asked: Option<&str>, times: &Times) -> Duration {
    let wait = match asked.and_then(|wait| wait.trim().parse::<f64>().ok()) {
        Some(wait) if wait > 0.0 => {
            Duration::try_from_secs_f64(wait / 1000.0).unwrap_or(Duration::MAX)
        }
        _ => times.poll,
    };
    wait.min(times.longest_poll)
}

fn disconnect(host: &Host, headers: &HeaderMap, uri: &Uri) -> Response {
    if let Some(session) = session(host, headers, uri) {
        host.end(&session, Close::new(1000, "disconnected"));
    }
    StatusCode::NO_CONTENT.into_response()
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::{Config, Transport};

    #[tokio::test(start_paused = true)]
    async fn a_poll_waits_as_long_as_it_asks_for_within_a_minute() {
        // A ping would be what it waits for.
        let hour = Duration::from_secs(3600);
        let times = Times { ping_every: hour, silence: hour * 2, ..Times::default() };
        let config = Config { times, ..Config::default() };
        let host = Host::start(config, None, CancellationToken::new());
        for (asked, seconds) in [
            ("", 25),
            ("&waitMs=", 25),
            ("&waitMs=0", 25),
            ("&waitMs=-5", 25),
            ("&waitMs=NaN", 25),
            ("&waitMs=soon", 25),
            ("&waitMs=3000", 3),
            ("&waitMs=60000", 60),
            ("&waitMs=60001", 60),
            ("&waitMs=1e400", 60),
        ] {
            let transport = Transport { has_auth: false, is_authorized: true };
            let session = host.open(Mode::HttpLoop, transport).unwrap();
            let register = r#"{"type":"registerClient","client":{"id":"c","name":"c","paths":[]}}"#;
            host.receive(&session, register).unwrap();
            let uri = format!("/mdp/http-loop/poll?sessionId={}{asked}", session.id);
            let start = Instant::now();
            let answer = poll(&host, &HeaderMap::new(), &uri.parse().unwrap()).await;
            assert_eq!(answer.status(), StatusCode::NO_CONTENT, "{asked}");
            assert_eq!(start.elapsed().as_secs(), seconds, "{asked}");
        }
    }
}
