//! Cost of MCP on this server, compared with references and peers of the same run and the same skills.
//!
//! The references serve the same skills from memory, by axum alone (one GET) and by rmcp alone; the peers are
//! FastMCP's skills provider and a server on the TypeScript SDK. Each is a process; the load generator is one thread
//! of this process. Compared endpoints take turns, slice by slice.
//!
//! `cargo bench --bench mcp` prints Markdown; a missed target makes the run fail. Words after `--` choose sections:
//! others, sizes, pages, stdio, spawn, listen. `interop/run --install mcp` installs the peers; without them their
//! rows and targets are marked as not measured. `BENCH_SECONDS` sets the time of one series (default 1.5),
//! `BENCH_SKILLS` the largest catalog (default 100 000), `BENCH_LISTENERS` the number of listening clients (default
//! 1000), `SKILLS_BIN` another server binary.

#![allow(clippy::disallowed_methods, reason = "the rule is for work that requests cause")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark prints, and fails by panicking"
)]

mod bare;
mod content;
mod listen;
#[allow(dead_code, reason = "shared with the other benchmarks")]
mod load;
mod servers;
mod stdio;
#[allow(dead_code, unused_imports, reason = "shared with the other benchmarks")]
#[path = "../support/mod.rs"]
mod support;
mod wire;

use std::{cell::Cell, process::ExitCode, sync::LazyLock};

use load::{Endpoint, compare};
use servers::{Ours, Peer, reads, session};
use stdio::Pipes;
use support::{Report, Samples, in_turn, series_seconds};
use tokio::runtime::Builder;
use wire::Dialect;

/// Server binary: the one built with this, unless `SKILLS_BIN` names another.
static SERVER: LazyLock<String> = LazyLock::new(|| {
    std::env::var("SKILLS_BIN").unwrap_or_else(|_| env!("CARGO_BIN_EXE_skills").to_owned())
});

const CONNECTIONS: usize = 32;
const PAGE: usize = 100;
/// Largest catalog that peers serve.
const PEERS_UP_TO: usize = 1000;

fn setting(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn main() -> ExitCode {
    if let Some(code) = bare::run_if_selected() {
        return code;
    }
    let most = setting("BENCH_SKILLS", 100_000);
    let mut report = Report::new();
    report.machine();
    println!(
        "\nBodies of {} bytes; {CONNECTIONS} connections unless stated otherwise.",
        content::BYTES
    );
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    // Skips the option that Cargo adds.
    let chosen: Vec<_> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let runs = |section: &str| chosen.is_empty() || chosen.iter().any(|word| word == section);
    let largest = LazyLock::new(|| Ours::with_skills(most));
    if runs("others") {
        runtime.block_on(compare_with_others(&mut report, &largest, most));
    }
    if runs("sizes") {
        runtime.block_on(sizes(&mut report, &largest, most));
    }
    if runs("pages") {
        runtime.block_on(pages(&mut report, &largest, most));
    }
    drop(largest);
    if runs("stdio") {
        over_stdio(&mut report);
    }
    if runs("spawn") {
        spawning(&mut report, most.min(10_000));
    }
    if runs("listen") {
        runtime.block_on(listening(&mut report));
    }
    report.finish()
}

/// Measures `resources/read` at every size, compared with references and peers.
async fn compare_with_others(report: &mut Report, largest: &Ours, most: usize) {
    report.section(
        "`resources/read` over HTTP",
        &["skills", "server", "reads/s", "latency", "this server is"],
    );
    for skills in [1, 1000, most] {
        let own = (skills < most).then(|| Ours::with_skills(skills));
        let ours = own.as_ref().unwrap_or(largest);
        let (axum, rmcp) = (Peer::bare("axum", skills), Peer::bare("rmcp", skills));
        let stateless = Dialect::Stateless;
        let (address, in_session) = (ours.address(), session(&ours.address()).await);
        let mut endpoints = vec![
            reads("this server", &address, &stateless, content::uri, 0..skills).await,
            reads("this server, in a session", &address, &in_session, content::uri, 0..skills)
                .await,
            reads("bare rmcp", &rmcp.address, &stateless, content::uri, 0..skills).await,
            bare_gets(&axum.address, skills),
        ];
        let (mut fastmcp, mut typescript) = (None, None);
        if skills <= PEERS_UP_TO {
            fastmcp = Peer::fastmcp(skills);
            typescript = Peer::typescript(skills);
            if let Some(peer) = &fastmcp {
                let uri = |number| format!("skill://{}/SKILL.md", content::id(number));
                endpoints.push(reads("FastMCP", &peer.address, &stateless, uri, 0..skills).await);
            }
            if let Some(peer) = &typescript {
                let dialect = session(&peer.address).await;
                let name = "TypeScript SDK";
                endpoints.push(reads(name, &peer.address, &dialect, content::uri, 0..skills).await);
            }
        }
        let outcomes = compare(&endpoints, CONNECTIONS, series_seconds()).await;
        let ours = outcomes[0].rate();
        for (endpoint, outcome) in endpoints.iter().zip(&outcomes) {
            report.row(&[
                skills.to_string(),
                endpoint.name.clone(),
                format!("{:.0}", outcome.rate()),
                outcome.latency.to_string(),
                format!("{:.2} x", ours / outcome.rate()),
            ]);
        }
        for (at, least) in [(2, 1.3), (3, 0.55)] {
            for own in 0..2 {
                let ratio = outcomes[own].beside(&outcomes[at]);
                let (own, other) = (&endpoints[own].name, &endpoints[at].name);
                report.check(
                    &format!("{own}: reads of {skills} skills at least {least} x {other}"),
                    ratio >= least,
                    &format!("{ratio:.2} x"),
                );
            }
        }
        if skills <= PEERS_UP_TO {
            let least = if skills == 1 { 50.0 } else { 1000.0 };
            let target = format!("reads of {skills} skills at least {least} x FastMCP");
            if fastmcp.is_some() {
                let ratio = ours / outcomes[4].rate();
                report.check(&target, ratio >= least, &format!("{ratio:.0} x"));
            } else {
                report.not_measured(&target, NOT_INSTALLED);
            }
            for (name, peer) in [("FastMCP", &fastmcp), ("TypeScript SDK", &typescript)] {
                if peer.is_none() {
                    let cells = [&skills.to_string(), name, NOT_INSTALLED, "", ""];
                    report.row(&cells.map(str::to_owned));
                }
            }
        }
    }
}

const NOT_INSTALLED: &str = "not measured: `interop/run --install mcp` installs it";

fn bare_gets(address: &str, skills: usize) -> Endpoint {
    let requests =
        (0..skills).map(|number| wire::get(address, &format!("/{}", content::id(number))));
    Endpoint {
        name: "bare axum GET".to_owned(),
        address: address.to_owned(),
        requests: requests.collect(),
    }
}

/// Measures the influence of the catalog size: 100 skills compared with the largest catalog, the same 100 and all in
/// turn.
async fn sizes(report: &mut Report, largest: &Ours, most: usize) {
    report.section(
        "`resources/read` and the size of the catalog",
        &["skills", "read", "reads/s", "latency", "of the first"],
    );
    let small = Ours::with_skills(100);
    let dialect = Dialect::Stateless;
    let [few, many] = [small.address(), largest.address()];
    let endpoints = [
        reads("all", &few, &dialect, content::uri, 0..100).await,
        reads("the same 100", &many, &dialect, content::uri, (0..most).step_by(most / 100)).await,
        reads("all in turn", &many, &dialect, content::uri, 0..most).await,
    ];
    let outcomes = compare(&endpoints, CONNECTIONS, series_seconds() * 2.0).await;
    for ((endpoint, outcome), skills) in endpoints.iter().zip(&outcomes).zip([100, most, most]) {
        let ratio = outcome.rate() / outcomes[0].rate();
        report.row(&[
            skills.to_string(),
            endpoint.name.clone(),
            format!("{:.0}", outcome.rate()),
            outcome.latency.to_string(),
            format!("{ratio:.2} x"),
        ]);
        if skills == most {
            report.check(
                &format!("reads of {most} skills, {}, within 10 % of 100 skills", endpoint.name),
                ratio >= 0.9,
                &format!("{ratio:.2} x"),
            );
        }
    }
}

/// Measures one page of 100 from the largest catalog, with one client and with many.
async fn pages(report: &mut Report, largest: &Ours, most: usize) {
    report.section("`resources/list`, one page", &["skills", "connections", "pages/s", "latency"]);
    let address = largest.address();
    let first = Dialect::Stateless.request(&address, 1, "resources/list", "", "");
    let mut connection = load::Connection::open(&address).await;
    let page: serde_json::Value =
        serde_json::from_slice(connection.exchange(&first).await.body).unwrap();
    assert_eq!(page["result"]["resources"].as_array().unwrap().len(), PAGE.min(most), "one page");
    // The first page and the next one: a cursor must not be slower.
    let mut requests = vec![first];
    if let Some(cursor) = page["result"]["nextCursor"].as_str() {
        let params = format!(r#""cursor":"{cursor}""#);
        requests.push(Dialect::Stateless.request(&address, 1, "resources/list", "", &params));
    }
    let endpoint = Endpoint { name: "this server".to_owned(), address, requests };
    for connections in [1, CONNECTIONS] {
        let outcome =
            &compare(std::slice::from_ref(&endpoint), connections, series_seconds()).await[0];
        report.row(&[
            most.to_string(),
            connections.to_string(),
            format!("{:.0}", outcome.rate()),
            outcome.latency.to_string(),
        ]);
        if connections == 1 {
            let tail = outcome.latency.quantile(0.99) / 1e3;
            report.check(
                &format!("one list page of {PAGE} of {most} under 5 ms at the 99th percentile"),
                tail < 5.0,
                &format!("{tail:.2} ms"),
            );
        }
    }
}

/// Measures sequential reads over stdio.
fn over_stdio(report: &mut Report) {
    const SKILLS: usize = 1000;
    report.section(
        &format!("`resources/read` over stdio, {SKILLS} skills"),
        &["server", "read", "of bare rmcp"],
    );
    let (serving, resting) = (Ours::with_skills(SKILLS), ours_on_directory(SKILLS));
    let mut state = [
        Pipes::on_directory(resting.dir.path()).initialized(),
        Pipes::on_bus(&serving.server().url).initialized(),
        Pipes::bare(SKILLS).initialized(),
    ];
    let requests: Vec<_> =
        (0..SKILLS).map(|number| wire::read_in_session(&content::uri(number))).collect();
    for pipes in &mut state {
        assert_eq!(wire::text_of(pipes.request(&requests[7])), content::body(7));
    }
    let turn = Cell::new(0);
    let read = |pipes: &mut Pipes| {
        turn.set(turn.get() + 7);
        pipes.request(&requests[turn.get() % SKILLS]);
    };
    let samples = in_turn(
        &mut state,
        [
            &mut |state: &mut [Pipes; 3]| read(&mut state[0]),
            &mut |state: &mut [Pipes; 3]| read(&mut state[1]),
            &mut |state: &mut [Pipes; 3]| read(&mut state[2]),
        ],
    );
    let bare = samples[2].median();
    let names = ["`skills mcp --data-dir`", "`skills mcp --url`", "bare rmcp"];
    for (name, samples) in names.iter().zip(&samples) {
        let ratio = samples.median() / bare;
        report.row(&[(*name).to_owned(), samples.to_string(), format!("{ratio:.2} x")]);
    }
    let ratio = samples[0].median() / bare;
    report.check(
        "a read over stdio within 1.5 x bare rmcp",
        ratio <= 1.5,
        &format!("{ratio:.2} x"),
    );
}

fn ours_on_directory(skills: usize) -> Ours {
    let mut ours = Ours::with_skills(skills);
    ours.stop();
    ours
}

/// Measures from spawn to the answer to `initialize`.
fn spawning(report: &mut Report, skills: usize) {
    report.section(
        &format!("Spawn to the first answer over stdio, {skills} skills"),
        &["server", "taken"],
    );
    let ours = ours_on_directory(skills);
    let dir = ours.dir.path();
    let (mut own, mut bare) = (Samples::default(), Samples::default());
    for _ in 0..20 {
        own.time(|| drop(Pipes::on_directory(dir)));
        bare.time(|| drop(Pipes::bare(1)));
    }
    report.row(&["`skills mcp --data-dir`".to_owned(), own.to_string()]);
    report.row(&["bare rmcp with one skill".to_owned(), bare.to_string()]);
    let longer = (own.median() - bare.median()) / 1e3;
    report.check(
        &format!("the first answer with {skills} skills at most 30 ms later than bare rmcp's"),
        longer <= 30.0,
        &format!("{longer:.1} ms"),
    );
}

/// Measures from a worker's registration to the last notification of many clients.
async fn listening(report: &mut Report) {
    let clients = setting("BENCH_LISTENERS", 1000);
    report.section("A change and those who listen", &["listening", "the last one notified"]);
    let ours = Ours::with_skills(100);
    let samples = listen::last_notified(&ours, clients).await;
    report.row(&[clients.to_string(), samples.to_string()]);
    let slowest = samples.quantile(1.0) / 1e3;
    report.check(
        &format!("{clients} listening clients all notified within 100 ms"),
        slowest <= 100.0,
        &format!("{slowest:.1} ms at worst"),
    );
}
