//! Cost of the Model Drive Protocol on this server, compared with a bare axum server of the same run and the same
//! bytes.
//!
//! `cargo bench --bench mdp` prints Markdown; a missed target makes the run fail. Words after `--` choose sections:
//! reads, idle. `BENCH_SECONDS` sets the time of one series (default 1.5), `SKILLS_BIN` another server binary. The
//! client and the bare server are processes of this program selected by a variable; the load generator is one thread
//! of this process.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark prints, and fails by panicking"
)]

mod echo;
#[path = "../mcp/load.rs"]
#[allow(dead_code, reason = "shared with the benchmark of MCP")]
mod load;
#[allow(dead_code, unused_imports, reason = "shared with the other benchmarks")]
#[path = "../support/mod.rs"]
mod support;

use std::{
    env,
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, Command, ExitCode, Stdio},
    sync::LazyLock,
};

use axum::{Router, routing::get, serve::ListenerExt as _};
use echo::Echo;
use load::{Connection, Endpoint, compare};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use skills_testkit::ServerProcess;
use support::{Caller, Report, body, resident_mb, series_seconds};
use tokio::{net::TcpListener, runtime::Builder};

/// Server binary: the one built with this, unless `SKILLS_BIN` names another.
static SERVER: LazyLock<String> = LazyLock::new(|| {
    env::var("SKILLS_BIN").unwrap_or_else(|_| env!("CARGO_BIN_EXE_skills").to_owned())
});

const ROLE: &str = "BENCH_ROLE";
const CONNECTIONS: usize = 16;
const BYTES: usize = 120;
const MANY: usize = 10_000;
const IDLE: usize = 1000;

fn main() -> ExitCode {
    if let Ok(role) = env::var(ROLE) {
        run_as(&role);
        return ExitCode::SUCCESS;
    }
    let mut report = Report::new();
    report.machine();
    println!("\nBodies of {BYTES} bytes, {CONNECTIONS} connections.");
    // Skips the option that Cargo adds.
    let chosen: Vec<_> = env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let runs = |section: &str| chosen.is_empty() || chosen.iter().any(|word| word == section);
    if runs("reads") {
        Builder::new_current_thread().enable_all().build().unwrap().block_on(reads(&mut report));
    }
    if runs("idle") {
        idle(&mut report);
    }
    report.finish()
}

/// Runs a role of this program: `axum`, or `echo ADDRESS ID PATHS`.
fn run_as(role: &str) {
    let words: Vec<_> = role.split(' ').collect();
    match words.as_slice() {
        ["axum"] => Builder::new_multi_thread().enable_all().build().unwrap().block_on(axum()),
        ["echo", address, id, paths] => {
            let echo = Echo::registered(address, id, paths.parse().unwrap());
            say("ready");
            echo.serve(&body(0, BYTES));
        }
        _ => panic!("{ROLE}={role}"),
    }
}

fn say(line: &str) {
    println!("{line}");
    std::io::stdout().flush().unwrap();
}

/// Serves the same bytes from memory.
async fn axum() {
    let bytes = axum::body::Bytes::from(body(0, BYTES));
    let router = Router::new().route("/skills/{client}/{*path}", get(async move || bytes.clone()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    say(&listener.local_addr().unwrap().to_string());
    let listener = listener.tap_io(|stream| stream.set_nodelay(true).unwrap());
    axum::serve(listener, router).await.unwrap();
}

/// Process of this program and its first line of output.
struct Peer {
    child: Child,
    said: String,
}

impl Peer {
    fn start(role: &str) -> Self {
        let mut command = Command::new(env::current_exe().unwrap());
        command.env(ROLE, role).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut said = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
        Self { child, said: said.trim().to_owned() }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn address(server: &ServerProcess) -> String {
    server.http.trim_start_matches("http://").to_owned()
}

fn endpoint(name: &str, address: &str, targets: &[String]) -> Endpoint {
    let request =
        |target: &String| format!("GET {target} HTTP/1.1\r\nhost: {address}\r\n\r\n").into_bytes();
    let requests = targets.iter().map(request).collect();
    Endpoint { name: name.to_owned(), address: address.to_owned(), requests }
}

/// Measures reading a skill: of a live client with one path and with many, stored, and from a bare server.
async fn reads(report: &mut Report) {
    let dir = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(&SERVER, dir.path());
    let ours = address(&server);
    let stored = serde_json::json!({"id": "stored", "skill": body(0, BYTES)});
    Caller::connect(&server.url).call_all([("skills::register", stored.to_string())].into_iter());
    let _one = Peer::start(&format!("echo {ours} one 1"));
    let _many = Peer::start(&format!("echo {ours} many {MANY}"));
    let bare = Peer::start("axum");
    let all: Vec<_> = (0..MANY).map(|number| format!("/skills/many/p/{number}")).collect();
    let endpoints = [
        endpoint("live, 1 path", &ours, &["/skills/one/p/0".to_owned()]),
        endpoint("live, 10 000 paths", &ours, &all),
        endpoint("stored", &ours, &["/skills/registry/stored".to_owned()]),
        endpoint("bare axum", &bare.said, &["/skills/one/p/0".to_owned()]),
    ];
    for endpoint in &endpoints {
        let mut connection = Connection::open(&endpoint.address).await;
        let answer = connection.exchange(&endpoint.requests[0]).await;
        assert_eq!(answer.body, body(0, BYTES).as_bytes(), "{}", endpoint.name);
    }
    let outcomes = compare(&endpoints, CONNECTIONS, 6.0 * series_seconds()).await;
    report.section("GET of a skill", &["skill", "reads/s", "latency", "of bare axum"]);
    let reference = outcomes[3].rate();
    for (endpoint, outcome) in endpoints.iter().zip(&outcomes) {
        report.row(&[
            endpoint.name.clone(),
            format!("{:.0}", outcome.rate()),
            outcome.latency.to_string(),
            format!("{:.2} x", outcome.rate() / reference),
        ]);
    }
    let [one, stored] = [0, 2].map(|at| outcomes[at].rate());
    let ratio = one / reference;
    report.check(
        "a live skill: 20 000 reads/s, or 0.25 x bare axum",
        one >= 20_000.0 || ratio >= 0.25,
        &format!("{one:.0}/s, {ratio:.2} x"),
    );
    let change = outcomes[1].beside(&outcomes[0]) - 1.0;
    report.check(
        "10 000 paths cost no more than 10 % of one",
        change >= -0.1,
        &format!("{:+.1} %", change * 100.0),
    );
    let ratio = stored / reference;
    report.check("a stored skill: 0.6 x bare axum", ratio >= 0.6, &format!("{ratio:.2} x"));
}

/// Measures idle connected clients.
fn idle(report: &mut Report) {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(&SERVER, dir.path());
    let address = address(&server);
    let before = resident_mb(server.pid());
    let clients: Vec<_> =
        (0..IDLE).map(|number| Echo::registered(&address, &format!("c{number}"), 3)).collect();
    let after = resident_mb(server.pid());
    report.section("Idle clients", &["clients", "resident", "each"]);
    report.row(&["0".to_owned(), format!("{before:.1} MB"), String::new()]);
    let each = (after - before) * 1000.0 / clients.len() as f64;
    report.row(&[IDLE.to_string(), format!("{after:.1} MB"), format!("{each:.1} KB")]);
    report.check("1000 idle clients under 60 MB", after < 60.0, &format!("{after:.1} MB"));
}
