//! Servers on one PostgreSQL, compared with the embedded store and with PostgreSQL itself in the same run.
//!
//! The benchmark starts a PostgreSQL of its own, with its default durability, and says how to get one if there is none.
//! Reads alternate between a server on a file and servers on the database; writes alternate with `pgbench` on the same
//! database; the delay of changes is that between the answer of one server and the notification of another.
//!
//! `cargo bench --bench replicas` prints Markdown. A missed target makes the run fail. `cargo bench --bench replicas -- SECTION…`
//! runs some of the sections `reads`, `writes`, `delays` and `large`. `BENCH_SKILLS` is the size of the large catalog.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark prints, and fails by panicking"
)]

#[path = "../mcp/load.rs"]
#[allow(dead_code, reason = "shared with the benchmark of MCP")]
mod load;
mod postgres;
mod proxy;
#[path = "../support/mod.rs"]
#[allow(dead_code, unused_imports, reason = "shared with the other benchmarks")]
mod support;

use std::{
    path::Path,
    process::ExitCode,
    sync::{
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use load::{Connection, Endpoint, compare};
use postgres::{INSTALL, Postgres};
use proxy::Proxy;
use serde_json::json;
use skills_core::{Layer, Timestamp};
use skills_store::{Batch, EntryContent, Mutation, PostgresStore, PublishOptions, Store as _};
use skills_testkit::{ServerProcess, Worker, program, run};
use support::{Caller, Registration, Report, Samples, populate, resident_mb, series_seconds};

const BINARY: &str = env!("CARGO_BIN_EXE_skills");
/// Skills that are read, and their size.
const READ_SKILLS: usize = 1000;
const BYTES: usize = 2000;
const CONNECTIONS: usize = 16;
/// Concurrent writers for the group commit.
const WRITERS: usize = 64;
/// Measurements of a delay, with and without notifications.
const DELAYS: usize = 300;
const POLLED_DELAYS: usize = 20;
/// Time in which the counters of PostgreSQL are certainly up to date.
const STATISTICS_DELAY: Duration = Duration::from_secs(11);

const LEAST_READS: f64 = 0.95;
const LEAST_WRITES_OF_ONE: f64 = 0.7;
const LEAST_WRITES_OF_MANY: f64 = 1.5;
const MAX_DELAY_MS: f64 = 50.0;
const MAX_POLLED_DELAY_MS: f64 = 1500.0;
const MAX_OPENING: Duration = Duration::from_secs(3);

fn large_catalog() -> usize {
    std::env::var("BENCH_SKILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(100_000)
}

fn serve(dir: &Path, store: Option<&str>) -> ServerProcess {
    let mut command = ServerProcess::command(BINARY, dir);
    if let Some(store) = store {
        command.env("SKILLS_STORE", store);
    }
    ServerProcess::spawn(&mut command)
}

fn main() -> ExitCode {
    let Some(database) = Postgres::start() else {
        eprintln!("replicas needs PostgreSQL 15 or newer. On Debian:\n\n    {INSTALL}\n");
        return ExitCode::FAILURE;
    };
    let mut report = Report::new();
    report.machine();
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let version = database.sql("SHOW server_version");
    println!("PostgreSQL {}, defaults. Load before: {}", version.trim(), load.trim());
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // Skips the option that Cargo adds.
    let chosen: Vec<_> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let runs = |section: &str| chosen.is_empty() || chosen.iter().any(|word| word == section);
    if runs("reads") {
        runtime().block_on(reads(&mut report, &database));
    }
    if runs("writes") {
        writes(&mut report, &database);
    }
    if runs("delays") {
        runtime().block_on(delays(&mut report, &database));
    }
    if runs("large") {
        large_catalogs(&mut report, &database);
    }
    report.finish()
}

/// Returns a request for a document with an entity tag.
fn request(address: &str, number: usize) -> Vec<u8> {
    let path = format!("/.well-known/skills/skill-{number}/SKILL.md");
    format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").into_bytes()
}

fn endpoint(name: &str, server: &ServerProcess) -> Endpoint {
    let address = server.http.trim_start_matches("http://").to_owned();
    let requests = (0..READ_SKILLS).map(|number| request(&address, number)).collect();
    Endpoint { name: name.to_owned(), address, requests }
}

/// Returns the entity tags of all documents of a server.
async fn entity_tags(endpoint: &Endpoint) -> Vec<String> {
    let mut connection = Connection::open(&endpoint.address).await;
    let mut tags = Vec::new();
    for request in &endpoint.requests {
        let answer = connection.exchange(request).await;
        tags.push(answer.header("etag").expect("an entity tag").to_owned());
    }
    tags
}

/// Returns the number of scans of the tables with entries and bodies, when it is certainly up to date.
fn scans(database: &Postgres, schema: &str) -> u64 {
    thread::sleep(STATISTICS_DELAY);
    let sql = format!(
        "SELECT sum(coalesce(seq_scan, 0) + coalesce(idx_scan, 0)) FROM pg_stat_user_tables \
         WHERE schemaname = '{schema}' \
         AND relname IN ('blob', 'blob_chunk', 'blob_use', 'entry', 'version', 'label')"
    );
    database.sql(&sql).trim().parse().unwrap()
}

/// Targets: 0.95 x the reads of the embedded store; no read touches the database once a body is cached; equal
/// entity tags.
async fn reads(report: &mut Report, database: &Postgres) {
    let dirs = [(); 4].map(|()| tempfile::tempdir().unwrap());
    let url = database.url(database.port(), "reads");
    let embedded = serve(dirs[0].path(), None);
    let first = serve(dirs[1].path(), Some(&url));
    populate(&embedded.url, READ_SKILLS, BYTES);
    populate(&first.url, READ_SKILLS, BYTES);
    let others = [&dirs[2], &dirs[3]].map(|dir| serve(dir.path(), Some(&url)));
    let local = endpoint("embedded store", &embedded);
    let servers =
        [endpoint("one server", &first), endpoint("", &others[0]), endpoint("", &others[1])];

    let before = scans(database, "reads");
    let mut tags = Vec::new();
    for server in &servers {
        tags.push(entity_tags(server).await);
    }
    let filled = scans(database, "reads");
    let both = [local, servers.into_iter().next().unwrap()];
    let outcomes = compare(&both, CONNECTIONS, series_seconds() * 4.0).await;
    let shared =
        [endpoint("one server", &first), endpoint("", &others[0]), endpoint("", &others[1])];
    let mut rates = vec![outcomes[1].rate()];
    for count in [2, 3] {
        let share = CONNECTIONS / count;
        let run = |server| compare(std::slice::from_ref(server), share, series_seconds() * 2.0);
        let of_each = futures_util::future::join_all(shared[..count].iter().map(run)).await;
        rates.push(of_each.iter().map(|outcome| outcome[0].rate()).sum());
    }
    let after = scans(database, "reads");

    report.section(
        &format!("Reads: {READ_SKILLS} documents of {BYTES} bytes, {CONNECTIONS} connections"),
        &["servers", "reads/s", "latency"],
    );
    for (endpoint, outcome) in both.iter().zip(&outcomes) {
        let rate = format!("{:.0}", outcome.rate());
        report.row(&[endpoint.name.clone(), rate, outcome.latency.to_string()]);
    }
    for (name, rate) in ["two servers", "three servers"].iter().zip(&rates[1..]) {
        report.row(&[(*name).to_owned(), format!("{rate:.0}"), String::new()]);
    }
    let memory = [&embedded, &first].map(|server| resident_mb(server.pid()));
    report.row(&[
        "memory, embedded store and one server".to_owned(),
        format!("{:.0} MB and {:.0} MB", memory[0], memory[1]),
        String::new(),
    ]);
    let ratio = outcomes[1].beside(&outcomes[0]);
    let target = format!("one server on PostgreSQL at least {LEAST_READS} x embedded");
    report.check(&target, ratio >= LEAST_READS, &format!("{ratio:.2} x"));
    let seen = format!("{} scans for first reads, then {}", filled - before, after - filled);
    report.check("reads of cached bodies scan no table", after == filled, &seen);
    let is_equal = tags.iter().all(|tags_of| *tags_of == tags[0]);
    report.check("entity tags are equal on all servers", is_equal, &format!("{is_equal}"));
}

/// Returns the rate of registrations of a number of callers, each with a connection of its own.
fn registrations(url: &str, callers: usize, seconds: f64) -> f64 {
    static SERIES: AtomicUsize = AtomicUsize::new(0);
    let series = SERIES.fetch_add(1, Ordering::Relaxed);
    let registration = Registration::of_bytes(BYTES);
    let (is_over, count) = (AtomicBool::new(false), AtomicUsize::new(0));
    let connections: Vec<_> = (0..callers).map(|_| Caller::connect(url)).collect();
    let started = Instant::now();
    thread::scope(|scope| {
        for (number, mut caller) in connections.into_iter().enumerate() {
            let (registration, is_over, count) = (&registration, &is_over, &count);
            scope.spawn(move || {
                for turn in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    let id = format!("w{number}-{}", turn % 10);
                    let data = registration.numbered(&id, series * 1_000_000 + turn);
                    caller.call("skills::register", &data);
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        thread::sleep(Duration::from_secs_f64(seconds));
        is_over.store(true, Ordering::Relaxed);
    });
    count.load(Ordering::Relaxed) as f64 / started.elapsed().as_secs_f64()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Returns the rate of registrations of the store alone, without bus and registry, in groups of a size.
fn store_registrations(url: &str, group: usize, seconds: f64) -> f64 {
    let store = PostgresStore::open(&url.parse().unwrap()).unwrap();
    let started = Instant::now();
    let mut count = 0;
    while started.elapsed().as_secs_f64() < seconds {
        let batches = (0..group).map(|number| {
            let body = format!("# Skill {count} {number}\n\n{}", "x".repeat(BYTES - 40));
            let meta = skills_agent_skills::skill_meta(&body).unwrap();
            let blobs = vec![(meta.root().unwrap().digest, body.into())];
            let (id, content) =
                (format!("s{number}-{}", count % 10).into(), EntryContent::Skill(meta));
            let (layer, options) = (Layer::Official, PublishOptions::default());
            Batch::new("bench", vec![Mutation::Put { layer, id, content, blobs, options }])
        });
        let outcome = store.commit(batches.collect(), Timestamp::now()).unwrap();
        assert!(outcome.iter().all(Result::is_ok), "{outcome:?}");
        count += 1;
    }
    (count * group) as f64 / started.elapsed().as_secs_f64()
}

/// Targets: 0.7 x the inserts of `pgbench` with one writer, 1.5 x with 64.
fn writes(report: &mut Report, database: &Postgres) {
    let dirs = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let url = database.url(database.port(), "writes");
    let store_url = database.url(database.port(), "store_alone");
    let server = serve(dirs[0].path(), Some(&url));
    let embedded = serve(dirs[1].path(), None);
    report.section(
        &format!("Durable writes of {BYTES} bytes"),
        &[
            "writers",
            "pgbench, inserts/s",
            "`skills::register`/s",
            "ratio",
            "embedded store",
            "store alone, groups of as many",
        ],
    );
    let seconds = series_seconds().max(2.0);
    for (writers, least) in [(1, LEAST_WRITES_OF_ONE), (WRITERS, LEAST_WRITES_OF_MANY)] {
        let (mut inserts, mut own, mut ratios) = (vec![], vec![], vec![]);
        let (mut local, mut alone) = (vec![], vec![]);
        registrations(&server.url, writers, 0.5);
        for _ in 0..5 {
            inserts.push(database.inserts(writers, BYTES, seconds));
            own.push(registrations(&server.url, writers, seconds));
            ratios.push(own[own.len() - 1] / inserts[inserts.len() - 1]);
            local.push(registrations(&embedded.url, writers, seconds / 2.0));
            alone.push(store_registrations(&store_url, writers, seconds / 2.0));
        }
        let ratio = median(ratios);
        report.row(&[
            writers.to_string(),
            format!("{:.0}", median(inserts)),
            format!("{:.0}", median(own)),
            format!("{ratio:.2}"),
            format!("{:.0}", median(local)),
            format!("{:.0}", median(alone)),
        ]);
        let target = format!("writes of {writers} at least {least} x pgbench");
        report.check(&target, ratio >= least, &format!("{ratio:.2} x"));
    }
}

/// Targets: 50 ms from the answer of one server to the notification of another, 1.5 s without notifications of the
/// database.
async fn delays(report: &mut Report, database: &Postgres) {
    let dirs = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let proxy = Proxy::start(database.port());
    let one = serve(dirs[0].path(), Some(&database.url(database.port(), "delays")));
    let two = serve(dirs[1].path(), Some(&database.url(proxy.port, "delays")));
    let (writer, reader) = (Worker::connect(&one.url).await, Worker::connect(&two.url).await);
    let (sender, announced) = mpsc::channel();
    reader
        .serve("bench::changed", move |_| {
            let _ = sender.send(Instant::now());
            Some(Ok(json!(null)))
        })
        .await;
    reader.subscribe("skills::on-change", "bench::changed", json!({})).await;
    report.section(
        "From the answer of one server to the notification of another",
        &["database", "delay"],
    );
    for (name, count, drops, limit) in [
        ("notifies", DELAYS, false, MAX_DELAY_MS),
        ("does not notify", POLLED_DELAYS, true, MAX_POLLED_DELAY_MS),
    ] {
        proxy.drop_notifications(drops);
        let mut samples = Samples::default();
        for number in 0..count {
            let text = format!("# Changed\n\n{name} {number}");
            writer.ok("skills::register", json!({ "id": "changed", "skill": text })).await;
            let answered = Instant::now();
            let at = loop {
                match announced.try_recv() {
                    Ok(at) => break at,
                    Err(_) => tokio::time::sleep(Duration::from_micros(200)).await,
                }
            };
            samples.push(at.saturating_duration_since(answered));
            let read = json!({ "uri": "iii://changed" });
            let read = reader.ok("skills::resources-read", read).await;
            assert_eq!(read["contents"][0]["text"], json!(text), "what is announced is visible");
        }
        report.row(&[name.to_owned(), samples.to_string()]);
        let slow = samples.quantile(0.99) / 1e3;
        let target = format!("p99 at most {limit:.0} ms if the database {name}");
        report.check(&target, slow <= limit, &format!("{slow:.1} ms"));
    }
}

/// Waits until a server serves a skill.
fn wait_for_skills(server: &ServerProcess, last: &str) {
    let mut caller = Caller::connect(&server.url);
    let ask = format!(r#"{{"uri":"iii://{last}"}}"#);
    let deadline = Instant::now() + Duration::from_secs(300);
    while !caller.try_call("skills::resources-read", &ask) {
        assert!(Instant::now() < deadline, "the other server did not catch up");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Target: a catalog of 100 000 skills opens in 3 s.
fn large_catalogs(report: &mut Report, database: &Postgres) {
    let skills = large_catalog();
    let dirs = [(); 4].map(|()| tempfile::tempdir().unwrap());
    let proxy = Proxy::start(database.port());
    let url = database.url(database.port(), "large");
    let writer = serve(dirs[0].path(), Some(&url));
    let follower = serve(dirs[1].path(), Some(&database.url(proxy.port, "large")));
    proxy.cut();
    let started = Instant::now();
    populate(&writer.url, skills, 500);
    let written = started.elapsed();
    proxy.heal();
    let started = Instant::now();
    wait_for_skills(&follower, &format!("skill-{}", skills - 1));
    let caught_up = started.elapsed();
    let memory = [&writer, &follower].map(|server| resident_mb(server.pid()));
    drop((writer, follower));

    let mut openings = Vec::new();
    let mut opened_mb = 0.0;
    for _ in 0..3 {
        let started = Instant::now();
        let server = serve(dirs[2].path(), Some(&url));
        wait_for_skills(&server, &format!("skill-{}", skills - 1));
        openings.push(started.elapsed());
        opened_mb = resident_mb(server.pid());
    }
    openings.sort_unstable();
    let copy = format!("sqlite:{}", dirs[3].path().join("data").display());
    let started = Instant::now();
    let copied = run(program(BINARY).args(["store", "copy", "--from", &url, "--to", &copy]));
    assert_eq!(copied.code, Some(0), "{}", copied.stderr);
    let copying = started.elapsed();
    let started = Instant::now();
    let local = serve(&dirs[3].path().join("data"), None);
    wait_for_skills(&local, &format!("skill-{}", skills - 1));
    let opened_locally = started.elapsed();
    let local_mb = resident_mb(local.pid());

    report.section(&format!("{skills} skills of 500 bytes"), &["measured", "time", "memory"]);
    let seconds = |time: Duration| format!("{:.2} s", time.as_secs_f64());
    for (name, time, memory) in [
        ("written by one client, a hundred at a time", written, Some(memory[0])),
        ("caught up by a server that was cut off", caught_up, Some(memory[1])),
        ("opened from PostgreSQL", openings[1], Some(opened_mb)),
        ("copied to a file, with verification", copying, None),
        ("opened from the file", opened_locally, Some(local_mb)),
    ] {
        let memory = memory.map(|mb| format!("{mb:.0} MB")).unwrap_or_default();
        report.row(&[name.to_owned(), seconds(time), memory]);
    }
    let target = format!("a catalog of {skills} skills opens in {} s", MAX_OPENING.as_secs());
    report.check(&target, openings[1] < MAX_OPENING, &seconds(openings[1]));
}
