//! Sessions over plain requests: connect, send, poll, disconnect. Each request carries one message.
//!
//! The content type of bodies is ignored: clients declare JSON also where they send none.

use std::{sync::Arc, time::Duration};

use axum::{
    Json,
    extract::{Query, Request, State},
    http::{HeaderMap, Method, StatusCode, Uri, header, request::Parts},
    response::{IntoResponse as _, Response},
};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use serde::Deserialize;
use serde_json::{json, value::RawValue};
use skills_core::{Caller, Code, Coded, OverBudget, Reservation};
use skills_net::CredentialClient;
use uuid::Uuid;

use super::{
    error_response::{MdpErrorResponse, text_error},
    options,
};
use crate::{
    CloseReason, ConnectionMode, MAX_UNAUTHENTICATED_MESSAGE_BYTES, MdpHost, MdpTimeouts, Session,
    SessionError, SessionOutput, wire::WireError,
};

const METHODS: &str = "GET, POST, OPTIONS";
const SESSION_HEADER: &str = "x-mdp-session-id";
/// Maximum bytes of a body besides its message.
const ENVELOPE_BYTES: usize = 1 << 10;
/// Error message that the protocol prescribes.
const INVALID_MESSAGE: &str = "Invalid MDP client message";

pub(super) async fn handle(State(host): State<MdpHost>, request: Request) -> Response {
    let call = request.uri().path().trim_start_matches("/mdp/http-loop");
    match (request.method(), call) {
        (&Method::OPTIONS, _) => options(request.headers(), METHODS),
        (&Method::POST, "/connect") => connect(&host, request).await,
        (&Method::POST, "/send") => send(&host, request).await,
        (&Method::GET, "/poll") => poll(&host, request).await,
        (&Method::POST, "/disconnect") => disconnect(&host, &request),
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}

/// Returns the maximum bytes of the body of a request: that of the next message on its session, with its envelope. Only
/// `/send` has a message.
pub(super) fn max_body(host: &MdpHost, head: &Parts) -> usize {
    if !head.uri.path().ends_with("/send") {
        return ENVELOPE_BYTES;
    }
    let Parts { headers, uri, extensions, .. } = head;
    let transport = host.auth().transport_auth(headers, extensions);
    let limits = &host.config().limits;
    let message = session(host, headers, uri, &transport.caller)
        .map_or(MAX_UNAUTHENTICATED_MESSAGE_BYTES.min(limits.message_bytes), |session| {
            session.max_message_bytes(transport.is_authorized, limits)
        });
    message.saturating_add(ENVELOPE_BYTES)
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct PollQuery {
    session_id: Option<String>,
    wait_ms: Option<String>,
}

fn query(uri: &Uri) -> PollQuery {
    Query::try_from_uri(uri).map(|Query(query)| query).unwrap_or_default()
}

/// Returns the session that a request names in its header or query, if the caller may use it.
fn session(
    host: &MdpHost,
    headers: &HeaderMap,
    uri: &Uri,
    caller: &Caller,
) -> Option<Arc<Session>> {
    let named =
        headers.get(SESSION_HEADER).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let id = Uuid::try_parse(&named.or_else(|| query(uri).session_id)?).ok()?;
    let session = host.session(id).filter(|session| session.mode == ConnectionMode::HttpLoop)?;
    host.end_with_key(&session, caller);
    session.is_usable_by(caller).then_some(session)
}

fn caller(request: &Request) -> Caller {
    request.extensions().get().cloned().unwrap_or_default()
}

/// Builds the response to an invalid body.
fn bad_body(error: &str) -> Response {
    text_error(StatusCode::BAD_REQUEST, error, Code::BadRequest, None)
}

/// Receives the body of a request within the size limit, reserving memory as it arrives.
async fn body(
    host: &MdpHost,
    request: Request,
    max: usize,
) -> Result<(Bytes, Reservation), Response> {
    let overloaded =
        |error: OverBudget| MdpErrorResponse::from(SessionError::from(error)).into_response();
    let mut reserved = host.memory().incoming.try_reserve(0).map_err(overloaded)?;
    let mut read = BytesMut::new();
    let mut chunks = request.into_body().into_data_stream();
    while let Some(chunk) = chunks.next().await {
        let Some(chunk) = chunk.ok().filter(|chunk| chunk.len() <= max - read.len()) else {
            let error = format!("the body is incomplete or has more than {max} bytes");
            let status = StatusCode::PAYLOAD_TOO_LARGE;
            return Err(text_error(status, &error, Code::BodyTooLarge, None));
        };
        // A growing buffer is copied into one of twice its size.
        reserved.try_grow(2 * chunk.len()).map_err(overloaded)?;
        read.extend_from_slice(&chunk);
    }
    Ok((read.freeze(), reserved))
}

async fn connect(host: &MdpHost, request: Request) -> Response {
    let transport = host.auth().transport_auth(request.headers(), request.extensions());
    let (body, _reserved) = match body(host, request, ENVELOPE_BYTES).await {
        Ok(body) => body,
        Err(response) => return response,
    };
    if !body.trim_ascii().is_empty()
        && let Err(error) = serde_json::from_slice::<&RawValue>(&body)
    {
        return bad_body(&error.to_string());
    }
    match host.open_session(ConnectionMode::HttpLoop, transport) {
        Ok(session) => Json(json!({ "sessionId": session.id })).into_response(),
        Err(error) => MdpErrorResponse::from(error).into_response(),
    }
}

async fn send(host: &MdpHost, request: Request) -> Response {
    #[derive(Deserialize)]
    struct SendRequest<'a> {
        #[serde(borrow)]
        message: &'a RawValue,
    }
    let caller = caller(&request);
    let Some(session) = session(host, request.headers(), request.uri(), &caller) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let transport = host.auth().transport_auth(request.headers(), request.extensions());
    let client = CredentialClient::from_extensions(request.extensions());
    let max = session.max_message_bytes(transport.is_authorized, &host.config().limits);
    let (body, _reserved) = match body(host, request, max.saturating_add(ENVELOPE_BYTES)).await {
        Ok(body) => body,
        Err(response) => return response,
    };
    let sent: SendRequest<'_> = match serde_json::from_slice(&body) {
        Ok(sent) => sent,
        Err(error) if error.is_data() => {
            return bad_body(INVALID_MESSAGE);
        }
        Err(error) => return bad_body(&error.to_string()),
    };
    match host.receive_with_auth(&session, &transport, sent.message.get()) {
        Ok(()) => (StatusCode::ACCEPTED, Json(json!({ "ok": true }))).into_response(),
        // An invalid message changes nothing; after any other error client and host would be out of sync.
        Err(error @ SessionError::Message(WireError::Unexpected(_) | WireError::NotJson(_))) => {
            let details = Some(error.to_string());
            text_error(StatusCode::BAD_REQUEST, INVALID_MESSAGE, error.code(), details)
        }
        Err(error) => {
            if matches!(error, SessionError::Unauthorized) {
                host.delay_refusal(&client).await;
            }
            host.reject(&session, &error);
            let status = match error {
                SessionError::Unauthorized => StatusCode::UNAUTHORIZED,
                SessionError::Overloaded => StatusCode::SERVICE_UNAVAILABLE,
                _ => StatusCode::BAD_REQUEST,
            };
            let text = error.to_string();
            text_error(status, &text, error.code(), Some(text.clone()))
        }
    }
}

async fn poll(host: &MdpHost, request: Request) -> Response {
    let caller = caller(&request);
    let Some(session) = session(host, request.headers(), request.uri(), &caller) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let wait = poll_wait(query(request.uri()).wait_ms.as_deref(), &host.config().times);
    match session.poll(wait).await {
        Some(SessionOutput::Message(message)) => {
            let body = Bytes::from_owner(message.wrapped("{\"message\":", "}"));
            ([(header::CONTENT_TYPE, "application/json")], body).into_response()
        }
        Some(SessionOutput::Close(_)) => StatusCode::NOT_FOUND.into_response(),
        None => StatusCode::NO_CONTENT.into_response(),
    }
}

/// Returns the duration of a poll from its `waitMs`. An invalid number counts as absent.
fn poll_wait(requested: Option<&str>, times: &MdpTimeouts) -> Duration {
    let wait = match requested.and_then(|wait| wait.trim().parse::<f64>().ok()) {
        Some(wait) if wait > 0.0 => {
            Duration::try_from_secs_f64(wait / 1000.0).unwrap_or(Duration::MAX)
        }
        _ => times.poll,
    };
    wait.min(times.longest_poll)
}

fn disconnect(host: &MdpHost, request: &Request) -> Response {
    let caller = caller(request);
    if let Some(session) = session(host, request.headers(), request.uri(), &caller) {
        host.end_session(&session, CloseReason::new(1000, "disconnected"));
    }
    StatusCode::NO_CONTENT.into_response()
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::{Config, TransportAuth};

    #[tokio::test(start_paused = true)]
    async fn a_poll_waits_for_the_requested_time_up_to_a_minute() {
        // A ping would end the poll.
        let hour = Duration::from_secs(3600);
        let times = MdpTimeouts { ping_every: hour, silence: hour * 2, ..MdpTimeouts::default() };
        let config = Config { times, ..Config::default() };
        let host = MdpHost::start(config, None, CancellationToken::new());
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
            let transport = TransportAuth { is_authorized: true, ..TransportAuth::default() };
            let session = host.open_session(ConnectionMode::HttpLoop, transport).unwrap();
            let register = r#"{"type":"registerClient","client":{"id":"c","name":"c","paths":[]}}"#;
            host.receive(&session, register).unwrap();
            let uri = format!("/mdp/http-loop/poll?sessionId={}{asked}", session.id);
            let start = Instant::now();
            let request = Request::get(uri).body(axum::body::Body::empty()).unwrap();
            let answer = poll(&host, request).await;
            assert_eq!(answer.status(), StatusCode::NO_CONTENT, "{asked}");
            assert_eq!(start.elapsed().as_secs(), seconds, "{asked}");
        }
    }
}
