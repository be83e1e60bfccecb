//! Cost of importing and validating a large folder of skills with the real binary.
//!
//! The folder has 10 000 bundles of 5 files each. It is imported into a server's empty registry over its bus and
//! into an empty data directory, imported again unchanged, and validated. Each command is a process, so its start-up
//! is included. Each target applies to the slower of both ways.
//!
//! `cargo bench --bench bundles` prints Markdown. A missed target makes the run fail.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark prints, and fails by panicking"
)]

#[allow(dead_code, unused_imports, reason = "shared with the other benchmarks")]
mod support;

use std::{
    fs,
    path::Path,
    process::{Command, ExitCode, Output},
    time::{Duration, Instant},
};

use skills_testkit::{ServerProcess, program};
use support::Report;

const BINARY: &str = env!("CARGO_BIN_EXE_skills");
const BUNDLES: usize = 10_000;
const FILES: usize = 5;
const FILE_BYTES: usize = 2000;

const IMPORT: Duration = Duration::from_secs(10);
const AGAIN: Duration = Duration::from_secs(2);
const VALIDATE: Duration = Duration::from_secs(3);

/// Writes a folder of bundles of typical size.
fn generate(dir: &Path) {
    for number in 0..BUNDLES {
        let name = format!("skill-{number:05}");
        let folder = dir.join(&name);
        fs::create_dir_all(folder.join("references")).unwrap();
        let line = format!("Line of {name} with a few words in it.\n");
        let text = line.repeat(FILE_BYTES / line.len());
        let head = format!(
            "---\nname: {name}\ndescription: Does what {number} does. Use when asked for {number}.\nlicense: MIT\n---\n"
        );
        fs::write(folder.join("SKILL.md"), format!("{head}# {name}\n\n{text}")).unwrap();
        for file in 1..FILES {
            let path = folder.join(format!("references/{file}.md"));
            fs::write(path, format!("# {file}\n\n{text}")).unwrap();
        }
    }
}

fn timed(command: &mut Command) -> (Duration, Output) {
    let started = Instant::now();
    let output = command.output().unwrap();
    (started.elapsed(), output)
}

/// Imports the folder twice into an empty target.
fn imports(target: &[&str], dir: &Path) -> [Duration; 2] {
    [format!("added {BUNDLES}, "), format!("unchanged {BUNDLES}, ")].map(|expected| {
        let (taken, output) = timed(program(BINARY).args(target).arg("add").arg(dir));
        let said = String::from_utf8_lossy(&output.stdout);
        let last = said.lines().last().unwrap_or_default();
        assert!(last.contains(&expected), "{last}: {}", String::from_utf8_lossy(&output.stderr));
        taken
    })
}

/// Measures `skills validate`; `None` if the binary does not have the command.
fn validation(dir: &Path) -> Option<Duration> {
    let (taken, output) = timed(program(BINARY).arg("validate").arg(dir));
    let said = String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        Some(0) => Some(taken),
        Some(2) => None,
        code => panic!("validate ended with {code:?}: {said}"),
    }
}

fn seconds(taken: Duration) -> String {
    format!("{:.2} s", taken.as_secs_f64())
}

fn main() -> ExitCode {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("folder");
    generate(&dir);
    let mut report = Report::new();
    report.machine();
    report.section(
        &format!("Bundles: {BUNDLES} of {FILES} files"),
        &["command", "over a bus", "into a data directory"],
    );
    let server = ServerProcess::start(BINARY, &home.path().join("served"));
    let bus = imports(&["--url", &server.url], &dir);
    drop(server);
    let data = home.path().join("data");
    let local = imports(&["--data-dir", data.to_str().unwrap()], &dir);
    let rows = [("import", IMPORT), ("import again, unchanged", AGAIN)];
    for ((name, target), (bus, local)) in rows.into_iter().zip(bus.into_iter().zip(local)) {
        report.row(&[name.to_owned(), seconds(bus), seconds(local)]);
        let slower = bus.max(local);
        let name = format!("{name} < {}", seconds(target));
        report.check(&name, slower < target, &seconds(slower));
    }
    match validation(&dir) {
        Some(taken) => {
            report.row(&["validate".to_owned(), seconds(taken), seconds(taken)]);
            let name = format!("validate < {}", seconds(VALIDATE));
            report.check(&name, taken < VALIDATE, &seconds(taken));
        }
        None => report.row(&["validate".to_owned(), "not measured".into(), "not measured".into()]),
    }
    report.finish()
}
