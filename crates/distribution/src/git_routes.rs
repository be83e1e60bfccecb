//! Git remotes over smart HTTP, read-only.
//!
//! | path | skills |
//! |---|---|
//! | `/git/all.git` | what everyone sees |
//! | `/git/official.git`, `/git/market.git` | one tier |
//! | `/git/skill/{id}.git` | one skill, as the caller sees it |
//! | `/git/collection/{name}.git` | the skills of a collection, as the caller sees it |
//! | `/git/mine.git` | all that the caller sees |
//! | `/git/private.git` | the caller's own |
//!
//! Git sends a key only after a 401, so the last two always ask for one.

use std::{io::Read as _, sync::Arc};

use axum::{
    Router,
    body::Body,
    extract::{Path, Query, State},
    http::{HeaderMap, HeaderValue, header},
    response::{IntoResponse as _, Response},
    routing::get,
};
use bytes::Bytes;
use flate2::read::GzDecoder;
use futures_util::stream;
use serde::Deserialize;
use skills_core::{Caller, RequestBudget};
use skills_git::{
    Advertisement, Outcome,
    upload_pack::{Request, Version},
};
use skills_http::{BodyLimit, RouteGroup, RoutePolicy};
use tokio::sync::mpsc;

use crate::{
    error::DistributionError,
    pack_stream::{PackPlan, PackSender},
    state::{DistributionState, Repository},
};

/// Most bytes of a request, before and after decompression: a negotiation of 200 000 commits.
const MAX_REQUEST: usize = 10 << 20;
/// Chunks of a pack that wait for the client.
const QUEUE: usize = 4;

/// Returns the routes of the git remotes.
pub(crate) fn routes(state: &Arc<DistributionState>) -> RouteGroup {
    let routes = Router::new()
        .route("/git/{*path}", get(advertise).post(upload_pack))
        .with_state(Arc::clone(state));
    let body_limit = Some(BodyLimit::new(|_| MAX_REQUEST));
    RouteGroup::new(
        routes,
        RoutePolicy { accepts_basic: true, body_limit, ..RoutePolicy::default() },
    )
}

#[derive(Deserialize)]
struct Service {
    service: Option<String>,
}

async fn advertise(
    State(state): State<Arc<DistributionState>>,
    Path(path): Path<String>,
    Query(query): Query<Service>,
    caller: Option<axum::Extension<Caller>>,
    headers: HeaderMap,
) -> Result<Response, DistributionError> {
    let view = path.strip_suffix("/info/refs").ok_or(DistributionError::NotFound)?;
    let caller = caller.map(|caller| caller.0).unwrap_or_default();
    let repository = state.repository(view, &caller).await?;
    match query.service.as_deref() {
        Some("git-upload-pack") => {}
        Some("git-receive-pack") => return Err(DistributionError::ReadOnly),
        _ => return Err(DistributionError::DumbProtocol),
    }
    let body = Advertisement::body(version(&headers), &*repository.history);
    Ok(respond("application/x-git-upload-pack-advertisement", Body::from(body)))
}

async fn upload_pack(
    State(state): State<Arc<DistributionState>>,
    Path(path): Path<String>,
    caller: Option<axum::Extension<Caller>>,
    budget: Option<axum::Extension<RequestBudget>>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, DistributionError> {
    if path.ends_with("/git-receive-pack") {
        return Err(DistributionError::ReadOnly);
    }
    let view = path.strip_suffix("/git-upload-pack").ok_or(DistributionError::NotFound)?;
    let caller = caller.map(|caller| caller.0).unwrap_or_default();
    let repository = state.repository(view, &caller).await?;
    let body = decoded(&headers, body)?;
    let reply = match Request::parse(version(&headers), &body, &*repository.history)? {
        Request::Nothing => Outcome::Reply(vec![]),
        Request::References(reply) => Outcome::Reply(reply),
        Request::Fetch(fetch) => fetch.answer(&*repository.history)?,
    };
    let body = match reply {
        Outcome::Reply(reply) => Body::from(reply),
        Outcome::Pack { head, commits, had, is_thin, side_band } => {
            let Repository { skills, history } = repository;
            let plan = PackPlan::new(&history, &commits, &had, is_thin);
            let share = match &budget {
                Some(budget) => {
                    budget.try_grow(plan.memory(&history)).inspect_err(|_| budget.refuse())?;
                    budget.share()
                }
                None => state.settings.budget.clone(),
            };
            let (chunks, queue) = mpsc::channel(QUEUE);
            // The receiver is not dropped before this is sent, and the queue is empty.
            let _ = chunks.try_send(Bytes::from(head));
            let blobs = Arc::clone(&state.repositories.blobs);
            let entries = Arc::clone(&state.repositories.entries);
            let sender =
                PackSender { history, skills, blobs, entries, budget: share, side_band, chunks };
            tokio::spawn(sender.send(plan));
            Body::from_stream(stream::unfold(queue, async |mut queue| {
                let chunk: Bytes = queue.recv().await?;
                Some((Ok::<_, std::convert::Infallible>(chunk), queue))
            }))
        }
    };
    Ok(respond("application/x-git-upload-pack-result", body))
}

fn version(headers: &HeaderMap) -> Version {
    let header = headers.get("git-protocol").and_then(|value| value.to_str().ok());
    header.map(Version::from_header).unwrap_or_default()
}

/// Returns the body of a request, which git compresses from 1 KiB on.
fn decoded(headers: &HeaderMap, body: Bytes) -> Result<Bytes, DistributionError> {
    match headers.get(header::CONTENT_ENCODING).map(HeaderValue::as_bytes) {
        None | Some(b"identity") => Ok(body),
        Some(b"gzip" | b"x-gzip") => {
            let mut bytes = Vec::new();
            let mut reader = GzDecoder::new(&body[..]).take(MAX_REQUEST as u64 + 1);
            reader.read_to_end(&mut bytes).map_err(|_| DistributionError::Encoding)?;
            if bytes.len() > MAX_REQUEST {
                return Err(DistributionError::TooLarge);
            }
            Ok(bytes.into())
        }
        Some(_) => Err(DistributionError::Encoding),
    }
}

fn respond(content_type: &'static str, body: Body) -> Response {
    let headers = [
        (header::CONTENT_TYPE, content_type),
        (header::CACHE_CONTROL, "no-store"),
        (header::VARY, "authorization, git-protocol"),
    ];
    (headers, body).into_response()
}
