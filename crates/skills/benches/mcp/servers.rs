//! Measured processes: this server, the bare references, and installed peers.

use std::{
    env, fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use skills_testkit::ServerProcess;
use tempfile::TempDir;

use crate::{
    SERVER, bare, content,
    load::{Connection, Endpoint},
    support::Caller,
    wire::{self, Dialect},
};

/// Fewest requests of an endpoint: more than there are connections, so that pending requests have different ids.
const MIN_REQUESTS: usize = 256;
/// Number of writers that fill a data directory.
const WRITERS: usize = 8;

/// A data directory with a number of skills, and the server on it.
pub(crate) struct Ours {
    pub(crate) dir: TempDir,
    server: Option<ServerProcess>,
}

impl Ours {
    pub(crate) fn with_skills(skills: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let server = ServerProcess::start(&SERVER, dir.path());
        let writers = WRITERS.min(skills);
        std::thread::scope(|scope| {
            for writer in 0..writers {
                let mut caller = Caller::connect(&server.url);
                scope.spawn(move || {
                    caller.call_all((writer..skills).step_by(writers).map(|number| {
                        let skill = serde_json::json!({
                            "id": content::id(number), "skill": content::body(number),
                        });
                        ("skills::register", skill.to_string())
                    }));
                });
            }
        });
        Self { dir, server: Some(server) }
    }

    pub(crate) fn server(&self) -> &ServerProcess {
        self.server.as_ref().unwrap()
    }

    pub(crate) fn address(&self) -> String {
        self.server().http.trim_start_matches("http://").trim_end_matches('/').to_owned()
    }

    /// Stops the server and returns the directory for another process.
    pub(crate) fn stop(&mut self) -> &Path {
        if let Some(server) = self.server.take() {
            server.stop();
        }
        self.dir.path()
    }
}

/// Another process, which prints its address on a line. Dropping it kills it.
pub(crate) struct Peer {
    child: Child,
    pub(crate) address: String,
    _dir: Option<TempDir>,
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Peer {
    fn spawn(command: &mut Command, dir: Option<TempDir>) -> Self {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains(':'), "{command:?} did not say where it serves");
        Self { child, address: line.trim().to_owned(), _dir: dir }
    }

    pub(crate) fn bare(role: &str, skills: usize) -> Self {
        Self::spawn(&mut bare_command(role, skills), None)
    }

    /// Starts FastMCP's skills provider on a folder with the same skills.
    pub(crate) fn fastmcp(skills: usize) -> Option<Self> {
        let python = installed("mcp-python-fastmcp-")?.join("bin/python");
        let dir = folder_of(skills);
        let mut command = Command::new(python);
        command.arg(script("fastmcp_server.py")).arg(dir.path());
        Some(Self::spawn(&mut command, Some(dir)))
    }

    /// Starts a server on the TypeScript SDK with the same skills in memory.
    pub(crate) fn typescript(skills: usize) -> Option<Self> {
        let packages = installed("mcp-node")?;
        let dir = folder_of(skills);
        let mut command = Command::new(packages.join("node_modules/node/bin/node"));
        command.arg(script("typescript_server.mjs")).arg(&packages).arg(dir.path());
        Some(Self::spawn(&mut command, Some(dir)))
    }
}

pub(crate) fn bare_command(role: &str, skills: usize) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.env(bare::ROLE, role).env(bare::SKILLS, skills.to_string());
    command
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/peers").join(name)
}

/// Returns the folder in which `interop/run --install mcp` installed a peer.
fn installed(prefix: &str) -> Option<PathBuf> {
    let cache = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../interop/.cache");
    fs::read_dir(cache).ok()?.flatten().map(|entry| entry.path()).find(|path| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix))
            && path.join(".installed").exists()
    })
}

fn folder_of(skills: usize) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for number in 0..skills {
        let folder = dir.path().join(content::id(number));
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("SKILL.md"), content::body(number)).unwrap();
    }
    dir
}

/// Builds `resources/read` requests of these skills and checks the answers once.
pub(crate) async fn reads(
    name: &str,
    address: &str,
    dialect: &Dialect,
    uri: impl Fn(usize) -> String,
    numbers: impl Iterator<Item = usize>,
) -> Endpoint {
    let numbers: Vec<usize> = numbers.collect();
    let requests: Vec<_> = (0..numbers.len().max(MIN_REQUESTS))
        .map(|id| dialect.read(address, id, &uri(numbers[id % numbers.len()])))
        .collect();
    let mut connection = Connection::open(address).await;
    for at in [0, numbers.len() - 1] {
        let answer = connection.exchange(&requests[at]).await;
        let text = wire::text_of(answer.body);
        assert_eq!(text, content::body(numbers[at]), "{name} serves something else");
    }
    Endpoint { name: name.to_owned(), address: address.to_owned(), requests }
}

/// Opens a session and returns its request format.
pub(crate) async fn session(address: &str) -> Dialect {
    let mut connection = Connection::open(address).await;
    let answer = connection.exchange(&wire::initialize(address)).await;
    let id = answer.header("mcp-session-id").unwrap_or_default().to_owned();
    connection.exchange(&wire::initialized(address, &id)).await;
    Dialect::Session(id)
}
