//! `GET /v1/admin/status`: the process, its requests and its connections.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use serde::Serialize;
use skills_core::{SurfaceStats, WorkAccount, WorkKind, request_stats::MINUTES, work::StopFlag};
use skills_http::{Connection, ImportedSource, ServerStatus};
use utoipa::ToSchema;

use super::auth::Administrator;
use crate::{
    Gateway,
    error::GatewayError,
    response::{Success, json_response},
};

/// Reading the state of the server, with the sizes of its files.
const STATUS: WorkKind = WorkKind::io("reading the state of the server");
/// Memory of that: its sessions and sources.
const STATUS_BYTES: usize = 1 << 20;
/// Minutes of an hour.
const HOUR: usize = 60;

/// Requests of a period.
#[derive(Debug, Serialize, ToSchema)]
struct RequestCount {
    /// All requests.
    requests: u64,
    /// Requests that failed.
    errors: u64,
}

impl From<(u64, u64)> for RequestCount {
    fn from((requests, errors): (u64, u64)) -> Self {
        Self { requests, errors }
    }
}

/// Requests of a surface.
#[derive(Debug, Serialize, ToSchema)]
struct SurfaceRequests {
    /// Name of the surface.
    surface: &'static str,
    /// The last hour.
    last_hour: RequestCount,
    /// The last day.
    last_day: RequestCount,
}

impl From<SurfaceStats> for SurfaceRequests {
    fn from(stats: SurfaceStats) -> Self {
        let (last_hour, last_day) = (stats.total(HOUR).into(), stats.total(MINUTES).into());
        Self { surface: stats.surface, last_hour, last_day }
    }
}

/// Open session of a client.
#[derive(Debug, Serialize, ToSchema)]
struct OpenConnection {
    /// Name of the surface.
    surface: &'static str,
    /// Name that the client gave itself.
    client: String,
    /// Begin of the session, in RFC 3339.
    since: String,
    /// True if the client listens for notifications.
    listening: bool,
}

impl From<Connection> for OpenConnection {
    fn from(Connection { surface, client, since, is_listening }: Connection) -> Self {
        Self { surface, client, since: since.to_string(), listening: is_listening }
    }
}

/// Source that the server imports skills from.
#[derive(Debug, Serialize, ToSchema)]
struct SourceStatus {
    /// Name in the configuration.
    name: String,
    /// Location without credentials.
    from: String,
    /// Tier of its skills.
    tier: String,
    /// Time of the last import that succeeded, in RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_success: Option<String>,
    /// Commit of that import.
    #[serde(skip_serializing_if = "Option::is_none")]
    commit: Option<String>,
    /// Number of skills that came from it.
    skills: usize,
    /// Number of skills that were not imported.
    skipped: usize,
    /// Error of the last import.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl From<ImportedSource> for SourceStatus {
    fn from(source: ImportedSource) -> Self {
        let ImportedSource { name, from, tier, last_success, commit, skills, skipped, error } =
            source;
        Self { name, from, tier, last_success, commit, skills, skipped, error }
    }
}

/// State of the server.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct StatusResponse {
    success: Success,
    /// Version of the program.
    version: &'static str,
    /// Start of the process, in RFC 3339.
    started_at: String,
    /// Bytes of the files in the data directory, where they can be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    store_bytes: Option<u64>,
    /// Resident memory of the process in bytes, where the system tells it.
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_bytes: Option<u64>,
    /// Sentences about what does not work.
    problems: Vec<String>,
    /// Requests since the start, at most of the last day.
    requests: Vec<SurfaceRequests>,
    /// Open sessions of MCP.
    connections: Vec<OpenConnection>,
    /// Sources that the server imports skills from.
    sources: Vec<SourceStatus>,
}

/// Read the state of the server
///
/// The process, its requests by surface, and open sessions.
#[utoipa::path(
    get,
    path = "/v1/admin/status",
    tag = "administration",
    responses((status = 200, description = "The state of the server", body = StatusResponse)),
    security(("admin" = [])),
)]
pub(super) async fn read_status(
    State(gateway): State<Gateway>,
    Administrator(_): Administrator,
) -> Result<Response, GatewayError> {
    let server = Arc::clone(gateway.server()?);
    let read = move |_: &StopFlag| {
        (server.status(), server.requests(), server.connections(), server.sources())
    };
    let (status, requests, connections, sources) =
        WorkAccount::current().run(STATUS, STATUS_BYTES, read).await?;
    let ServerStatus { version, started_at, store_bytes, memory_bytes, problems, .. } = status;
    Ok(json_response(StatusResponse {
        success: Success,
        version,
        started_at: started_at.to_string(),
        store_bytes,
        memory_bytes,
        problems: problems.iter().map(|it| it.message.to_owned()).collect(),
        requests: requests.into_iter().map(Into::into).collect(),
        connections: connections.into_iter().map(Into::into).collect(),
        sources: sources.into_iter().map(Into::into).collect(),
    }))
}
