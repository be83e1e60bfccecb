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
use serde::Deserialize;
use skills_core::{
    Caller, MemoryBudget, RequestBudget, Reservation, WorkAccount, WorkKind, work::StopFlag,
};
use skills_git::{
    Advertisement, Outcome, SideBand,
    upload_pack::{Request, Version},
};
use skills_http::{BodyLimit, RouteGroup, RoutePolicy};

use crate::{
    error::DistributionError,
    history::History,
    pack_plan::PackPlan,
    pack_stream::{self, PackSender},
    state::{DistributionState, Repository},
};

/// Most bytes of a request, before and after decompression: a negotiation of 200 000 commits.
const MAX_REQUEST: usize = 10 << 20;
/// Bytes that are decompressed between two checks of memory and of the stop flag.
const STEP: usize = 256 << 10;
/// Memory of a decompressed request for each of its bytes: a growing buffer, and what is parsed.
const DECODED_WEIGHT: usize = 2 + Request::WEIGHT;
/// Most refs that are advertised without a permit: they take microseconds, less than a change of threads.
const MAX_INLINE_REFERENCES: usize = 64;
/// Memory of a ref and its lines.
const REFERENCE: usize = 512;
/// Memory of a commit in the sets of a negotiation.
const NEGOTIATED_COMMIT: usize = 160;

const NEGOTIATION: WorkKind = WorkKind::compute("git negotiation");

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
    let (version, history) = (version(&headers), repository.history);
    let references = history.max_references();
    let body = if references <= MAX_INLINE_REFERENCES {
        Advertisement::body(version, &*history)
    } else {
        let advertise = move |_: &StopFlag| Advertisement::body(version, &*history);
        WorkAccount::current().run(NEGOTIATION, references * REFERENCE, advertise).await?
    };
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
    let (version, encoding) = (version(&headers), encoding(&headers)?);
    let Repository { skills, history } = state.repository(view, &caller).await?;
    let account = WorkAccount::current();
    let bytes = history.max_references() * REFERENCE;
    let (own, negotiated) = (account.clone(), Arc::clone(&history));
    let negotiate = move |stop: &StopFlag| {
        let (body, _reservation) = decoded(encoding, body, own.memory(), stop)?;
        negotiate(version, &body, &negotiated, own.memory(), stop)
    };
    let body = match account.run(NEGOTIATION, bytes, negotiate).await?? {
        Reply::Lines(reply) => Body::from(reply),
        Reply::Pack { head, plan, side_band, reservation } => {
            // Nothing is left of the request but the pack, which has its own reservation.
            if let Some(budget) = &budget {
                budget.resize(pack_stream::REQUEST)?;
            }
            let blobs = Arc::clone(&state.repositories.blobs);
            let entries = Arc::clone(&state.repositories.entries);
            let sender = PackSender { history, skills, blobs, entries, account, side_band };
            sender.stream(head, plan, reservation)
        }
    };
    Ok(respond("application/x-git-upload-pack-result", body))
}

/// Answer to a request, as it was decided.
enum Reply {
    /// Complete response.
    Lines(Vec<u8>),
    /// Lines that a pack follows, and the memory for it.
    Pack { head: Vec<u8>, plan: PackPlan, side_band: SideBand, reservation: Reservation },
}

/// Parses and answers a request, and decides which objects the client lacks.
fn negotiate(
    version: Version,
    body: &[u8],
    history: &History,
    memory: &MemoryBudget,
    stop: &StopFlag,
) -> Result<Reply, DistributionError> {
    let outcome = match Request::parse(version, body, history)? {
        Request::Nothing => Outcome::Reply(vec![]),
        Request::References(reply) => Outcome::Reply(reply),
        Request::Fetch(fetch) => {
            stop.check()?;
            let commits = history.commits.len();
            let _reservation = memory.try_reserve(commits * NEGOTIATED_COMMIT)?;
            fetch.answer(history)?
        }
    };
    match outcome {
        Outcome::Reply(reply) => Ok(Reply::Lines(reply)),
        Outcome::Pack { head, commits, had, is_thin, side_band } => {
            let scratch = memory.try_reserve(PackPlan::scratch_memory(history, &commits))?;
            let plan = PackPlan::new(history, &commits, &had, is_thin, stop)?;
            drop(scratch);
            let reservation = memory.try_reserve(pack_stream::memory(&plan, history))?;
            Ok(Reply::Pack { head, plan, side_band, reservation })
        }
    }
}

fn version(headers: &HeaderMap) -> Version {
    let header = headers.get("git-protocol").and_then(|value| value.to_str().ok());
    header.map(Version::from_header).unwrap_or_default()
}

/// Encoding of a request.
#[derive(Debug, Clone, Copy)]
enum Encoding {
    Plain,
    Gzip,
}

fn encoding(headers: &HeaderMap) -> Result<Encoding, DistributionError> {
    match headers.get(header::CONTENT_ENCODING).map(HeaderValue::as_bytes) {
        None | Some(b"identity") => Ok(Encoding::Plain),
        Some(b"gzip" | b"x-gzip") => Ok(Encoding::Gzip),
        Some(_) => Err(DistributionError::Encoding),
    }
}

/// Returns the body of a request, which git compresses from 1 KiB on, and the memory for it. The listener has reserved
/// what a plain body and its parsed form need.
fn decoded(
    encoding: Encoding,
    body: Bytes,
    memory: &MemoryBudget,
    stop: &StopFlag,
) -> Result<(Bytes, Reservation), DistributionError> {
    let mut reservation = memory.try_reserve(0)?;
    if matches!(encoding, Encoding::Plain) {
        return Ok((body, reservation));
    }
    let (mut bytes, mut reader) = (Vec::new(), GzDecoder::new(&body[..]));
    loop {
        stop.check()?;
        let read = reader.by_ref().take(STEP as u64).read_to_end(&mut bytes);
        let read = read.map_err(|_| DistributionError::Encoding)?;
        if read == 0 {
            return Ok((bytes.into(), reservation));
        }
        if bytes.len() > MAX_REQUEST {
            return Err(DistributionError::TooLarge);
        }
        reservation.try_grow(read * DECODED_WEIGHT)?;
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
