//! State of the server, for surfaces that show it to people: the process, its requests, its connections.

use std::fmt;

use skills_core::{SurfaceStats, Timestamp};

/// State of a server. The process that composes it implements this.
pub trait ServerInfo: Send + Sync {
    /// Returns the state now. May read files.
    fn status(&self) -> ServerStatus;
    /// Returns the part of the server that does not work at the moment, which every page shows.
    fn problem(&self) -> Option<ServerProblem>;
    /// Returns the requests of the last day, by surface.
    fn requests(&self) -> Vec<SurfaceStats>;
    /// Returns open sessions and connections of surfaces that the registry does not list itself.
    fn connections(&self) -> Vec<Connection>;
    /// Returns the sources that the server imports skills from. May read files.
    fn sources(&self) -> Vec<ImportedSource> {
        vec![]
    }
}

impl fmt::Debug for dyn ServerInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServerInfo")
    }
}

/// State of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerStatus {
    /// Version of the program.
    pub version: &'static str,
    /// Start of the process.
    pub started_at: Timestamp,
    /// Data directory, for display.
    pub data_dir: String,
    /// Bytes of the files in the data directory.
    pub store_bytes: Option<u64>,
    /// Resident memory of the process, in bytes.
    pub memory_bytes: Option<u64>,
    /// Parts of the server that do not work.
    pub problems: Vec<ServerProblem>,
}

/// Part of a server that does not work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerProblem {
    /// Sentence about what does not work.
    pub message: &'static str,
    /// Next step for the person who runs the server.
    pub hint: &'static str,
}

/// Connection or session of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connection {
    /// Surface, such as `mcp`.
    pub surface: &'static str,
    /// Name of the client, as it calls itself.
    pub client: String,
    /// Begin of the session.
    pub since: Timestamp,
    /// True if the client listens for notifications.
    pub is_listening: bool,
}

/// Source that a server imports skills from, and the result of the last import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedSource {
    /// Name in the configuration.
    pub name: String,
    /// Location without credentials.
    pub from: String,
    /// Tier of its skills.
    pub tier: String,
    /// Time of the last import that succeeded, in RFC 3339.
    pub last_success: Option<String>,
    /// Commit of that import.
    pub commit: Option<String>,
    /// Number of skills that came from it.
    pub skills: usize,
    /// Number of skills that were not imported.
    pub skipped: usize,
    /// Error of the last import.
    pub error: Option<String>,
}
