//! Cost of versions over the bus, compared with the same work without them in the same run.
//!
//! Reads of `iii://{id}` and `iii://{id}@3` alternate on one server; listings alternate between a server whose skills have
//! one version and one whose skills have a hundred. Memory is compared after a restart, so that neither server has
//! anything in its caches that the publications left there.
//!
//! `cargo bench --bench versions` prints Markdown. A missed target makes the run fail.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark prints, and fails by panicking"
)]

#[allow(dead_code, unused_imports, reason = "shared with the other benchmarks")]
mod support;

use std::{path::Path, process::ExitCode};

use serde_json::{Value, json};
use skills_testkit::ServerProcess;
use support::{Caller, Report, body, in_turn, resident_mb};

const BINARY: &str = env!("CARGO_BIN_EXE_skills");
const BYTES: usize = 500;
/// Skills and versions of the data set for reads and memory.
const SKILLS: usize = 10_000;
const VERSIONS: usize = 20;
/// Skills and versions of the data sets for listings.
const LISTED: usize = 1000;
const LISTED_VERSIONS: usize = 100;
/// Versions of the skill whose history is paged.
const HISTORY: usize = 10_000;

const MAX_READ_RATIO: f64 = 1.2;
const MAX_LISTING_RATIO: f64 = 1.1;
const MAX_PAGE_MS: f64 = 5.0;
const MAX_MEMORY_RATIO: f64 = 1.5;

fn id(number: usize) -> String {
    format!("skill-{number:05}")
}

/// Starts a server and publishes all versions of all skills.
fn publish(dir: &Path, skills: usize, versions: usize) -> ServerProcess {
    let server = ServerProcess::start(BINARY, dir);
    let mut caller = Caller::connect(&server.url);
    for version in 1..=versions {
        caller.call_all((0..skills).map(|number| {
            let text = format!("{}\nVersion {version}.\n", body(number, BYTES));
            ("skills::register", json!({ "id": id(number), "skill": text }).to_string())
        }));
    }
    server
}

/// Stops a server and starts another on its data.
fn restart(server: ServerProcess, dir: &Path) -> ServerProcess {
    server.stop();
    ServerProcess::start(BINARY, dir)
}

fn main() -> ExitCode {
    let mut report = Report::new();
    report.machine();
    reads_and_memory(&mut report);
    listings(&mut report);
    history(&mut report);
    report.finish()
}

/// Targets: a read by version within 1.2 x of a plain one, and memory within 1.5 x of one version each.
fn reads_and_memory(report: &mut Report) {
    let (one_dir, many_dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let one = restart(publish(one_dir.path(), SKILLS, 1), one_dir.path());
    let many = restart(publish(many_dir.path(), SKILLS, VERSIONS), many_dir.path());
    let list = |server: &ServerProcess| Caller::connect(&server.url).call("skills::list", "{}");
    assert!(list(&one).len() > SKILLS && list(&many).len() > SKILLS);
    let (one_mb, many_mb) = (resident_mb(one.pid()), resident_mb(many.pid()));
    let memory = many_mb / one_mb;
    drop(one);

    let mut caller = Caller::connect(&many.url);
    let read = |caller: &mut Caller, turn: &mut usize, version: &str| {
        *turn += 7;
        let uri = format!(r#"{{"uri":"iii://{}{version}"}}"#, id(*turn % SKILLS));
        drop(caller.call("skills::resources-read", &uri));
    };
    let (mut plain_turn, mut version_turn) = (0, 0);
    let [plain, version] = in_turn(
        &mut caller,
        [
            &mut |caller: &mut Caller| read(caller, &mut plain_turn, ""),
            &mut |caller: &mut Caller| read(caller, &mut version_turn, "@3"),
        ],
    );
    let ratio = version.median() / plain.median();
    report.section(
        &format!("{SKILLS} skills of {VERSIONS} versions"),
        &["measured", "plain, or one version", "with versions", "ratio"],
    );
    report.row(&["read".to_owned(), plain.to_string(), version.to_string(), format!("{ratio:.2}")]);
    report.row(&[
        "resident memory".to_owned(),
        format!("{one_mb:.0} MB"),
        format!("{many_mb:.0} MB"),
        format!("{memory:.2}"),
    ]);
    let target = format!("iii://{{id}}@3 within {MAX_READ_RATIO} x of iii://{{id}}");
    report.check(&target, ratio <= MAX_READ_RATIO, &format!("{ratio:.2} x"));
    let target = format!("memory within {MAX_MEMORY_RATIO} x of one version each");
    report.check(&target, memory <= MAX_MEMORY_RATIO, &format!("{memory:.2} x"));
}

/// Target: a listing costs the same with one and with a hundred versions of each skill.
fn listings(report: &mut Report) {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let one = publish(dirs[0].path(), LISTED, 1);
    let many = publish(dirs[1].path(), LISTED, LISTED_VERSIONS);
    let mut callers = [Caller::connect(&one.url), Caller::connect(&many.url)];
    report.section(
        &format!("Listings of {LISTED} skills"),
        &["call", "1 version", &format!("{LISTED_VERSIONS} versions"), "ratio"],
    );
    for function in ["skills::list", "skills::resources-list", "skills::catalog"] {
        let [few, all] = in_turn(
            &mut callers,
            [
                &mut |callers: &mut [Caller; 2]| drop(callers[0].call(function, "{}")),
                &mut |callers: &mut [Caller; 2]| drop(callers[1].call(function, "{}")),
            ],
        );
        let ratio = all.median() / few.median();
        report.row(&[function.to_owned(), few.to_string(), all.to_string(), format!("{ratio:.2}")]);
        let target = format!("{function} with {LISTED_VERSIONS} versions within 10 %");
        report.check(&target, ratio <= MAX_LISTING_RATIO, &format!("{ratio:.2} x"));
    }
}

/// Target: each page of a long history under 5 ms.
fn history(report: &mut Report) {
    let dir = tempfile::tempdir().unwrap();
    let server = publish(dir.path(), 1, HISTORY);
    let mut caller = Caller::connect(&server.url);
    report.section(
        &format!("History of {HISTORY} versions"),
        &["versions on a page", "pages", "page"],
    );
    for limit in [50, 500] {
        let mut after: Option<String> = None;
        let mut pages = 0;
        let [page] = in_turn(
            &mut caller,
            [&mut |caller: &mut Caller| {
                let request = json!({ "id": id(0), "limit": limit, "after": after });
                let answer = caller.call("skills::history", &request.to_string());
                let answer: Value = serde_json::from_str(&answer).unwrap();
                // The first page again after the last.
                after = answer["next"].as_str().map(str::to_owned);
                pages += 1;
            }],
        );
        report.row(&[limit.to_string(), pages.to_string(), page.to_string()]);
        let slow = page.quantile(0.99) / 1e3;
        let target = format!("a page of {limit} versions under {MAX_PAGE_MS:.0} ms");
        report.check(&target, slow < MAX_PAGE_MS, &format!("{slow:.2} ms (p99)"));
    }
}
