//! Clones and fetches of the git remote with the real git, beside `git http-backend` that serves a mirror of the same
//! repository in the same run.
//!
//! Each clone is a process of git without a checkout, which would be the same work in both figures and hide differences. A
//! cold clone is the first after the start of the server, which has to build the commits from the change log; `git
//! http-backend` has them on disk.
//!
//! `cargo bench --bench git` prints Markdown. A missed target makes the run fail.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark prints, and fails by panicking"
)]

mod http_backend;
#[allow(dead_code, unused_imports, reason = "shared with the other benchmarks")]
#[path = "../support/mod.rs"]
mod support;

use std::{
    fs,
    path::Path,
    process::{Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use serde_json::json;
use skills_testkit::{ProcessMemory, ServerProcess, program};
use support::{Caller, Report, Samples};

const BINARY: &str = env!("CARGO_BIN_EXE_skills");
/// Skills of the data set for times, and of the one for memory.
const SKILLS: usize = 1000;
const MANY_SKILLS: usize = 10_000;
/// Versions of each skill in the data set for long histories: 10 000 changes.
const VERSIONS: usize = 10;
const FILE_BYTES: usize = 2000;
const CLONES: usize = 5;
const COLD_CLONES: usize = 3;
const FETCHES: usize = 15;
const AT_ONCE: usize = 16;

const MAX_CLONE_RATIO: f64 = 1.5;
const MAX_FETCH_RATIO: f64 = 1.0;
const MAX_MEMORY_MB: f64 = 64.0;
const MAX_HISTORY: Duration = Duration::from_secs(10);
const MAX_HISTORY_MB: f64 = 100.0;

fn main() -> ExitCode {
    let backend = match http_backend::program() {
        Ok(backend) => backend,
        Err(hint) => {
            eprintln!("{hint}");
            return ExitCode::FAILURE;
        }
    };
    let mut report = Report::new();
    report.machine();
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let version = Command::new("git").arg("--version").output().unwrap();
    println!("{}; load {}.", String::from_utf8_lossy(&version.stdout).trim(), load.trim());
    let folder = tempfile::tempdir().unwrap();
    let mirrors = folder.path().join("mirrors");
    fs::create_dir(&mirrors).unwrap();
    let reference = http_backend::serve(backend, &mirrors);
    clones(&mut report, folder.path(), &reference);
    memory(&mut report, folder.path(), &reference);
    long_history(&mut report, folder.path(), &reference);
    report.finish()
}

/// Writes a folder of skills of two files each.
fn write_skills(dir: &Path, count: usize) {
    for number in 0..count {
        let name = format!("skill-{number:05}");
        let folder = dir.join(&name);
        fs::create_dir_all(folder.join("references")).unwrap();
        fs::write(folder.join("SKILL.md"), document(&name, 1)).unwrap();
        fs::write(folder.join("references/guide.md"), text(&name, 2)).unwrap();
    }
}

fn document(name: &str, version: usize) -> String {
    let head = format!(
        "---\nname: {name}\ndescription: Does what {name} does. Use when asked for {name}.\n---\n"
    );
    format!("{head}# {name}\n\n{}", text(name, version))
}

fn text(name: &str, version: usize) -> String {
    let line = format!("Line of {name} in version {version} with a few words in it.\n");
    line.repeat(FILE_BYTES / line.len())
}

/// Imports a folder of skills into a new server, and restarts it.
fn serve_skills(data: &Path, skills: &Path) -> ServerProcess {
    let server = ServerProcess::start(BINARY, data);
    let mut add = program(BINARY);
    add.arg("add").arg(skills).args(["--url", &server.url]);
    let output = add.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    restart(server, data)
}

fn restart(server: ServerProcess, data: &Path) -> ServerProcess {
    server.stop();
    ServerProcess::start(BINARY, data)
}

fn git(folder: &Path, arguments: &[&str]) -> Command {
    let mut git = Command::new("git");
    git.current_dir(folder).args(["-c", "gc.auto=0", "-c", "maintenance.auto=false"]);
    git.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    git.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
    git.env("GIT_TERMINAL_PROMPT", "0");
    git
}

fn run(folder: &Path, arguments: &[&str]) {
    assert!(git(folder, arguments).status().unwrap().success(), "git {arguments:?}");
}

/// Makes a mirror for the reference, packed as git packs what it serves.
fn mirror(folder: &Path, name: &str, url: &str) {
    let path = format!("mirrors/{name}.git");
    run(folder, &["clone", "--quiet", "--mirror", url, &path]);
    run(&folder.join(path), &["repack", "-adq"]);
}

/// Clones into a new folder, which is removed afterwards, and returns the time.
fn clone(folder: &Path, url: &str) -> Duration {
    let started = Instant::now();
    run(folder, &["clone", "--quiet", "--bare", url, "clone"]);
    let taken = started.elapsed();
    fs::remove_dir_all(folder.join("clone")).unwrap();
    taken
}

/// Targets: a clone within 1.5 x of the reference, also the first one; a fetch of nothing within 1.0 x.
fn clones(report: &mut Report, folder: &Path, reference: &str) {
    let (skills, data) = (folder.join("skills"), folder.join("data"));
    write_skills(&skills, SKILLS);
    let mut server = serve_skills(&data, &skills);
    let own = |server: &ServerProcess| format!("{}/git/all.git", server.http);
    mirror(folder, "all", &own(&server));
    let mirror = format!("{reference}/all.git");
    let (mut cold, mut warm, mut theirs) =
        (Samples::default(), Samples::default(), Samples::default());
    for _ in 0..COLD_CLONES {
        server = restart(server, &data);
        cold.push(clone(folder, &own(&server)));
        theirs.push(clone(folder, &mirror));
    }
    for _ in 0..CLONES {
        warm.push(clone(folder, &own(&server)));
        theirs.push(clone(folder, &mirror));
    }
    run(folder, &["clone", "--quiet", "--mirror", &own(&server), "own"]);
    run(folder, &["clone", "--quiet", "--mirror", &mirror, "theirs"]);
    let (mut fetch, mut their_fetch) = (Samples::default(), Samples::default());
    for _ in 0..FETCHES {
        fetch.time(|| run(&folder.join("own"), &["fetch", "--quiet"]));
        their_fetch.time(|| run(&folder.join("theirs"), &["fetch", "--quiet"]));
    }
    report.section(
        &format!("{SKILLS} skills"),
        &["measured", "this server", "git http-backend", "ratio"],
    );
    for (name, own, theirs, most) in [
        ("first clone after the start", &cold, &theirs, MAX_CLONE_RATIO),
        ("clone", &warm, &theirs, MAX_CLONE_RATIO),
        ("fetch, nothing new", &fetch, &their_fetch, MAX_FETCH_RATIO),
    ] {
        let ratio = own.median() / theirs.median();
        report.row(&[name.to_owned(), own.to_string(), theirs.to_string(), format!("{ratio:.2}")]);
        let target = format!("{name} within {most} x of git http-backend");
        report.check(&target, ratio <= most, &format!("{ratio:.2} x"));
    }
}

/// Target: under 64 MB above idle with 10 000 skills, also with 16 clones at once.
fn memory(report: &mut Report, folder: &Path, reference: &str) {
    let (skills, data) = (folder.join("many-skills"), folder.join("many-data"));
    write_skills(&skills, MANY_SKILLS);
    let server = serve_skills(&data, &skills);
    let url = format!("{}/git/all.git", server.http);
    report.section(
        &format!("{MANY_SKILLS} skills"),
        &["measured", "memory above idle", "time", "git http-backend"],
    );
    let idle = ProcessMemory::measure(server.pid());
    let first = clone(folder, &url);
    let peak = |idle: &ProcessMemory| idle.peak() as f64 / 1e6;
    let one = peak(&idle);
    mirror(folder, "many", &url);
    let mirror = format!("{reference}/many.git");
    let their_first = clone(folder, &mirror);
    let seconds = |time: Duration| format!("{:.2} s", time.as_secs_f64());
    let row = |name: &str, memory: f64, own, theirs| {
        let memory = format!("{memory:.0} MB");
        report.row(&[name.to_owned(), memory, seconds(own), seconds(theirs)]);
    };
    row("first clone", one, first, their_first);
    let own = at_once(folder, &url);
    let all = peak(&idle);
    row(&format!("{AT_ONCE} clones at once"), all, own, at_once(folder, &mirror));
    for (name, memory) in [("a clone", one), ("16 clones at once", all)] {
        let target = format!("memory of {name} under {MAX_MEMORY_MB} MB");
        report.check(&target, memory < MAX_MEMORY_MB, &format!("{memory:.0} MB"));
    }
}

/// Returns the time of clones that run at once.
fn at_once(folder: &Path, url: &str) -> Duration {
    let started = Instant::now();
    let children: Vec<_> = (0..AT_ONCE)
        .map(|number| {
            git(folder, &["clone", "--quiet", "--bare", url, &format!("clone-{number}")])
                .spawn()
                .unwrap()
        })
        .collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let taken = started.elapsed();
    for number in 0..AT_ONCE {
        fs::remove_dir_all(folder.join(format!("clone-{number}"))).unwrap();
    }
    taken
}

/// Target: 10 000 changes, each a commit of its own, clone in under 10 s and 100 MB.
fn long_history(report: &mut Report, folder: &Path, reference: &str) {
    let data = folder.join("long-data");
    let server = ServerProcess::start(BINARY, &data);
    let mut caller = Caller::connect(&server.url);
    for version in 1..=VERSIONS {
        for number in 0..SKILLS {
            let name = format!("skill-{number:05}");
            let skill = document(&name, version);
            caller.call("skills::register", &json!({ "id": name, "skill": skill }).to_string());
        }
    }
    let server = restart(server, &data);
    let url = format!("{}/git/all.git", server.http);
    let idle = ProcessMemory::measure(server.pid());
    let started = Instant::now();
    run(folder, &["clone", "--quiet", "--bare", &url, "long"]);
    let cold = started.elapsed();
    let memory = idle.peak() as f64 / 1e6;
    let packs = folder.join("long/objects/pack");
    let size = |entry: fs::DirEntry| entry.metadata().unwrap().len();
    let packs = fs::read_dir(packs).unwrap().flatten();
    let packs = packs.filter(|entry| entry.path().extension().is_some_and(|it| it == "pack"));
    let bytes = packs.map(size).sum::<u64>() as f64 / 1e6;
    let warm = clone(folder, &url);
    mirror(folder, "long", &url);
    let theirs = clone(folder, &format!("{reference}/long.git"));
    report.section(
        &format!("{} changes over {SKILLS} skills", SKILLS * VERSIONS),
        &["measured", "time", "pack", "memory above idle"],
    );
    let row = |name: &str, time: Duration, bytes: Option<f64>, memory: Option<f64>| {
        let shown = |value: Option<f64>| value.map_or(String::new(), |mb| format!("{mb:.1} MB"));
        let time = format!("{:.2} s", time.as_secs_f64());
        report.row(&[name.to_owned(), time, shown(bytes), shown(memory)]);
    };
    row("first clone after the start", cold, Some(bytes), Some(memory));
    row("clone", warm, None, None);
    row("clone of git http-backend", theirs, None, None);
    let target = format!("the first clone in under {} s", MAX_HISTORY.as_secs());
    report.check(&target, cold < MAX_HISTORY, &format!("{:.2} s", cold.as_secs_f64()));
    let target = format!("its pack under {MAX_HISTORY_MB} MB");
    report.check(&target, bytes < MAX_HISTORY_MB, &format!("{bytes:.1} MB"));
}
