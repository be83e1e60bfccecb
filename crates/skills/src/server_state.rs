//! State of this process, which the gateway and the console show.

use std::{fs, path::PathBuf};

use skills_core::{RequestStats, SurfaceStats, Timestamp};
use skills_http::{Connection, ImportedSource, Readiness, ServerInfo, ServerProblem, ServerStatus};
use skills_mcp::http::{OpenSession, OpenSessions};

use crate::{
    data_dir,
    sources::{SourceState, SourceStates},
};

const INDEXING: ServerProblem = ServerProblem {
    message: "the search index is being built, so searches do not find everything yet",
    hint: "wait until it is complete",
};

const SOURCE_FAILED: ServerProblem = ServerProblem {
    message: "a source could not be imported; its skills stay as they were",
    hint: "`skills source status` and the page Live name it with the reason",
};

/// State of this process.
pub(crate) struct ServerState {
    started_at: Timestamp,
    data_dir: PathBuf,
    stats: RequestStats,
    mcp_sessions: OpenSessions,
    readiness: Readiness,
    /// Names of the configured sources.
    sources: Vec<String>,
    source_states: SourceStates,
}

impl ServerState {
    pub(crate) fn new(
        data_dir: PathBuf,
        stats: RequestStats,
        mcp_sessions: OpenSessions,
        readiness: Readiness,
        sources: Vec<String>,
        source_states: SourceStates,
    ) -> Self {
        let started_at = Timestamp::now();
        Self { started_at, data_dir, stats, mcp_sessions, readiness, sources, source_states }
    }

    fn problems(&self) -> Vec<ServerProblem> {
        let indexing = self.readiness.is_indexing().then_some(INDEXING);
        let has_failed = self.sources().iter().any(|source| source.error.is_some());
        let failed = has_failed.then_some(SOURCE_FAILED);
        self.problem().into_iter().chain(indexing).chain(failed).collect()
    }

    /// Returns the bytes of the files in the data directory.
    fn store_bytes(&self) -> Option<u64> {
        let files = fs::read_dir(&self.data_dir).ok()?.filter_map(Result::ok);
        let size = |file: fs::DirEntry| file.metadata().ok().filter(|it| it.is_file());
        Some(files.filter_map(size).map(|metadata| metadata.len()).sum())
    }
}

impl ServerInfo for ServerState {
    fn status(&self) -> ServerStatus {
        ServerStatus {
            version: env!("CARGO_PKG_VERSION"),
            started_at: self.started_at,
            data_dir: data_dir::display(&self.data_dir),
            store_bytes: self.store_bytes(),
            memory_bytes: resident_bytes(),
            problems: self.problems(),
        }
    }

    fn problem(&self) -> Option<ServerProblem> {
        self.readiness.problem()
    }

    fn requests(&self) -> Vec<SurfaceStats> {
        self.stats.snapshot()
    }

    fn connections(&self) -> Vec<Connection> {
        let connection = |session: OpenSession| Connection {
            surface: "mcp",
            client: session.client.unwrap_or_else(|| "unnamed client".to_owned()),
            since: session.since,
            is_listening: session.is_listening,
        };
        self.mcp_sessions.list().into_iter().map(connection).collect()
    }

    fn sources(&self) -> Vec<ImportedSource> {
        let source = |state: SourceState| ImportedSource {
            skills: state.skills.len(),
            skipped: state.skipped.len(),
            name: state.name,
            from: state.from,
            tier: state.tier,
            last_success: state.last_success,
            commit: state.commit,
            error: state.error,
        };
        let states = self.source_states.latest().into_iter();
        states.filter(|state| self.sources.contains(&state.name)).map(source).collect()
    }
}

/// Returns the resident memory of this process, where the system tells it.
fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}
