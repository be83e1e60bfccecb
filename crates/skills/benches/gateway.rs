//! Cost of `GET /v1/skills/{id}` of the real binary, compared with axum alone that sends the same bytes.
//!
//! Both are processes. The tools are requested in turn, without and with a key; the reference has the answers of
//! this server in memory.
//!
//! `cargo bench --bench gateway` prints Markdown. `SKILLS_BIN` names another server binary. A missed target makes the run
//! fail.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark prints, and fails by panicking"
)]

#[path = "mcp/load.rs"]
#[allow(dead_code, reason = "shared with the benchmark of MCP")]
mod load;
#[allow(dead_code, unused_imports, reason = "shared with the other benchmarks")]
mod support;

use std::{
    collections::HashMap,
    env, fs,
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, Command, ExitCode, Stdio},
    sync::Arc,
};

use axum::{Router, body::Bytes, extract, http::header, routing::get, serve::ListenerExt as _};
use load::{Connection, Endpoint, compare};
use serde_json::json;
use skills_core::{Layer, Owner, SkillId};
use skills_manifest::{self as manifest, ParseMode};
use skills_registry::{Registry, RegistryConfig, Tool};
use skills_store::SqliteStore;
use skills_testkit::ServerProcess;
use skills_vault::{Actor, NewKey, Vault, now};
use support::{Report, series_seconds};
use tokio::{net::TcpListener, runtime::Builder};

/// Environment variable with the folder of answers, which makes this process the reference.
const ANSWERS: &str = "BENCH_ANSWERS";
const TOOLS: usize = 1000;
const CONNECTIONS: usize = 8;
/// Targets as fractions of the reference's rate: without and with a key.
const LEAST: [f64; 2] = [0.75, 0.6];

fn id(number: usize) -> String {
    format!("tool-{number:04}")
}

/// Fills a data directory with tools and returns a key.
async fn populate(data: &Path) -> String {
    let store = SqliteStore::open(data).unwrap();
    let registry = Registry::open(Arc::new(store), None, RegistryConfig::default()).unwrap();
    for number in 0..TOOLS {
        let id = id(number);
        let manifest = json!({
            "id": id,
            "meta": {
                "name": format!("Tool {number}"),
                "description": format!("Does what {number} does. Use it when asked for {number}."),
                "tags": ["weather", "forecast"],
                "parameters": {
                    "type": "object",
                    "properties": {"location": {"type": "string", "description": "A city"}},
                    "required": ["location"],
                },
            },
            "config": {"endpoint": "https://api.example/v1/forecast", "method": "GET"},
            "credits_per_call": 1,
        });
        let (skill, text): (SkillId, _) = (id.parse().unwrap(), manifest.to_string());
        let parsed = manifest::parse(&text, ParseMode::Strict, Some(&skill)).unwrap();
        let tool = Tool::from_manifest(&skill, &parsed, text).unwrap();
        registry.register_tool("bench", &Layer::Official, &id, tool).await.unwrap();
    }
    registry.close();
    let owner: Owner = "ann".parse().unwrap();
    let new = NewKey::for_owner(&owner);
    let vault = Vault::open(data, None).unwrap();
    vault.create_key(Actor { name: "bench", at: now() }, &new).unwrap().key.to_string()
}

fn request(address: &str, path: &str, key: Option<&str>) -> Vec<u8> {
    let key = key.map(|key| format!("Authorization: Bearer {key}\r\n")).unwrap_or_default();
    format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n{key}\r\n").into_bytes()
}

fn endpoint(name: &str, address: &str, path: &str, key: Option<&str>) -> Endpoint {
    let requests =
        (0..TOOLS).map(|number| request(address, &format!("{path}/{}", id(number)), key));
    Endpoint { name: name.to_owned(), address: address.to_owned(), requests: requests.collect() }
}

/// The reference as a process of this program.
struct Bare {
    process: Child,
    address: String,
}

impl Bare {
    fn start(answers: &Path) -> Self {
        let mut command = Command::new(env::current_exe().unwrap());
        let mut process = command.env(ANSWERS, answers).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { process, address: line.trim().to_owned() }
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Serves the answers of a folder.
async fn serve_bare(folder: &Path) {
    let read = |number| (id(number), Bytes::from(fs::read(folder.join(id(number))).unwrap()));
    let answers: Arc<HashMap<String, Bytes>> = Arc::new((0..TOOLS).map(read).collect());
    let give = move |extract::Path(id): extract::Path<String>| {
        let body = answers.get(&id).cloned().unwrap();
        async move { ([(header::CONTENT_TYPE, "application/json")], body) }
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("{}", listener.local_addr().unwrap());
    std::io::stdout().flush().unwrap();
    let listener = listener.tap_io(|stream| stream.set_nodelay(true).unwrap());
    axum::serve(listener, Router::new().route("/{id}", get(give))).await.unwrap();
}

fn main() -> ExitCode {
    if let Ok(folder) = env::var(ANSWERS) {
        let runtime = Builder::new_multi_thread().enable_all().build().unwrap();
        runtime.block_on(serve_bare(Path::new(&folder)));
        return ExitCode::SUCCESS;
    }
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(measure())
}

async fn measure() -> ExitCode {
    let home = tempfile::tempdir().unwrap();
    let (data, answers) = (home.path().join("data"), home.path().join("answers"));
    let key = populate(&data).await;
    let binary = env::var("SKILLS_BIN").unwrap_or_else(|_| env!("CARGO_BIN_EXE_skills").to_owned());
    let server = ServerProcess::start(&binary, &data);
    let address = server.http.trim_start_matches("http://").to_owned();
    fs::create_dir(&answers).unwrap();
    let mut connection = Connection::open(&address).await;
    let mut bytes = 0;
    for number in 0..TOOLS {
        let path = format!("/v1/skills/{}", id(number));
        let answer = connection.exchange(&request(&address, &path, None)).await;
        bytes = answer.body.len();
        fs::write(answers.join(id(number)), answer.body).unwrap();
    }
    let bare = Bare::start(&answers);
    let endpoints = [
        endpoint("this server, without a key", &address, "/v1/skills", None),
        endpoint("bare axum GET", &bare.address, "", None),
        endpoint("this server, with a key", &address, "/v1/skills", Some(&key)),
    ];
    let outcomes = compare(&endpoints, CONNECTIONS, series_seconds() * 2.0).await;
    let mut report = Report::new();
    report.machine();
    report.section(
        &format!(
            "`GET /v1/skills/{{id}}`: {TOOLS} tools, {bytes} bytes, {CONNECTIONS} connections"
        ),
        &["server", "answers/s", "latency", "of bare axum"],
    );
    let reference = outcomes[1].rate();
    for (endpoint, outcome) in endpoints.iter().zip(&outcomes) {
        let (rate, latency) = (outcome.rate(), outcome.latency.to_string());
        let ratio = format!("{:.2} x", rate / reference);
        report.row(&[endpoint.name.clone(), format!("{rate:.0}"), latency, ratio]);
    }
    for (own, least) in [0, 2].into_iter().zip(LEAST) {
        let ratio = outcomes[own].beside(&outcomes[1]);
        let name = &endpoints[own].name;
        report.check(
            &format!("{name}: GET /v1/skills/{{id}} at least {least} x bare axum"),
            ratio >= least,
            &format!("{ratio:.2} x"),
        );
    }
    report.finish()
}
