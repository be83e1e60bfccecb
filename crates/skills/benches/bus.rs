//! Cost of the contract over the bus, compared with references of the same run.
//!
//! Every call is measured alternately with an echo call over the same bus whose result is the same JSON text:
//! caller, hub, echo worker, hub, caller. Durable writes are measured alternately with a raw `fdatasync` of as many
//! bytes in the same folder. The targets are ratios, because machines are noisy; a missed target makes the run fail.
//!
//! `cargo bench` prints Markdown; `BENCH_SECONDS` sets the time of one series (default 1.5).

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark prints, and fails by panicking"
)]

#[allow(dead_code, reason = "shared with the other benchmarks")]
mod support;

use std::{path::Path, process::ExitCode, time::Duration};

use skills_testkit::ServerProcess;
use support::{
    Caller, Echo, Registration, Report, Samples, Sync, in_turn, populate, resident_mb,
    series_seconds, start_up,
};

const SERVER: &str = env!("CARGO_BIN_EXE_skills");

const KB: usize = 1000;
/// Numbers of skills and sizes of their bodies.
const DATASETS: [(usize, usize); 4] =
    [(10, 2 * KB), (1000, 2 * KB), (10_000, 2 * KB), (1000, 200 * KB)];

const LISTINGS: [(&str, &str, &str); 3] = [
    ("skills::list", "skills::list", "{}"),
    ("skills::resources-list", "skills::resources-list", "{}"),
    ("iii://skills", "skills::resources-read", r#"{"uri":"iii://skills"}"#),
];

fn main() -> ExitCode {
    let mut report = Report::new();
    report.machine();
    reads(&mut report);
    listings_after_a_write(&mut report);
    bodies_do_not_matter(&mut report);
    writes(&mut report);
    many_writers(&mut report);
    memory(&mut report);
    starting(&mut report);
    report.finish()
}

fn serve(dir: &Path, skills: usize, bytes: usize) -> ServerProcess {
    let server = ServerProcess::start(SERVER, dir);
    populate(&server.url, skills, bytes);
    server
}

/// Target: every read call within 1.5 x of its echo.
fn reads(report: &mut Report) {
    report.section("Reads", &["call", "skills", "body", "result", "call", "echo", "ratio"]);
    for (skills, bytes) in DATASETS {
        let dir = tempfile::tempdir().unwrap();
        let server = serve(dir.path(), skills, bytes);
        let echo = Echo::start(&server.url);
        let mut caller = Caller::connect(&server.url);
        let mut measure = |name: &str, function: &str, payload: &dyn Fn(usize) -> String| {
            let result = caller.call(function, &payload(0));
            let size = result.len();
            echo.returns(result);
            let mut turn = 0;
            let [call, echoed] = in_turn(
                &mut caller,
                [
                    &mut |caller: &mut Caller| {
                        turn += 7;
                        drop(caller.call(function, &payload(turn % skills)));
                    },
                    &mut |caller: &mut Caller| drop(caller.call("bench::echo", "{}")),
                ],
            );
            let ratio = call.median() / echoed.median();
            report.row(&[
                name.to_owned(),
                skills.to_string(),
                format!("{} kB", bytes / KB),
                format!("{:.1} kB", size as f64 / 1e3),
                call.to_string(),
                echoed.to_string(),
                format!("{ratio:.2}"),
            ]);
            report.check(
                &format!("{name} at {skills} x {} kB within 1.5 x of its echo", bytes / KB),
                ratio <= 1.5,
                &format!("{ratio:.2} x"),
            );
        };
        for (name, function, payload) in LISTINGS {
            measure(name, function, &|_| payload.to_owned());
        }
        measure("iii://{id}", "skills::resources-read", &|number| {
            format!(r#"{{"uri":"iii://skill-{number}"}}"#)
        });
    }
}

/// Target of listings after a write, when no rendered listing can be reused.
fn listings_after_a_write(report: &mut Report) {
    report.section(
        "Listings right after a write, 2 kB bodies",
        &["call", "skills", "result", "call", "echo", "ratio"],
    );
    for skills in [10, 1000, 10_000] {
        let dir = tempfile::tempdir().unwrap();
        let server = serve(dir.path(), skills, 2 * KB);
        let echo = Echo::start(&server.url);
        let mut caller = Caller::connect(&server.url);
        let registration = Registration::of_bytes(2 * KB);
        for (name, function, payload) in LISTINGS {
            let result = caller.call(function, payload);
            let size = result.len();
            echo.returns(result);
            let (mut call, mut echoed) = (Samples::default(), Samples::default());
            for round in 0..100 {
                caller.call("skills::register", &registration.numbered("skill-1", round));
                call.time(|| drop(caller.call(function, payload)));
                echoed.time(|| drop(caller.call("bench::echo", "{}")));
            }
            let ratio = call.median() / echoed.median();
            report.row(&[
                name.to_owned(),
                skills.to_string(),
                format!("{:.1} kB", size as f64 / 1e3),
                call.to_string(),
                echoed.to_string(),
                format!("{ratio:.2}"),
            ]);
            report.check(
                &format!("{name} of {skills} right after a write within 1.5 x of its echo"),
                ratio <= 1.5,
                &format!("{ratio:.2} x"),
            );
        }
    }
}

/// Target: list and index cost no more with bodies of 200 KB than of 2 KB.
fn bodies_do_not_matter(report: &mut Report) {
    report.section("Listings of 1000 skills", &["call", "2 kB bodies", "200 kB bodies", "ratio"]);
    let dirs = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let small = serve(dirs[0].path(), 1000, 2 * KB);
    let large = serve(dirs[1].path(), 1000, 200 * KB);
    let mut callers = [Caller::connect(&small.url), Caller::connect(&large.url)];
    for (name, function, payload) in LISTINGS {
        let [small, large] = in_turn(
            &mut callers,
            [
                &mut |callers: &mut [Caller; 2]| drop(callers[0].call(function, payload)),
                &mut |callers: &mut [Caller; 2]| drop(callers[1].call(function, payload)),
            ],
        );
        let ratio = large.median() / small.median();
        report.row(&[name.to_owned(), small.to_string(), large.to_string(), format!("{ratio:.2}")]);
        report.check(
            &format!("{name} at 200 kB bodies within 10 % of 2 kB"),
            ratio <= 1.1,
            &format!("{ratio:.2} x"),
        );
    }
}

/// Target of a durable registration: 2.5 x fdatasync + echo + 150 us.
fn writes(report: &mut Report) {
    report.section(
        "One writer, `skills::register`",
        &["skills", "body", "register", "fdatasync", "echo", "bound"],
    );
    for (skills, bytes) in DATASETS {
        let dir = tempfile::tempdir().unwrap();
        let server = serve(dir.path(), skills, bytes);
        let echo = Echo::start(&server.url);
        let mut state = (Caller::connect(&server.url), Sync::in_folder(dir.path(), bytes));
        let registration = Registration::of_bytes(bytes);
        let mut round = 0;
        let mut register = |caller: &mut Caller| {
            round += 1;
            let id = format!("skill-{}", round % skills);
            caller.call("skills::register", &registration.numbered(&id, round))
        };
        echo.returns(register(&mut state.0));
        let [registered, synced, echoed] = in_turn(
            &mut state,
            [
                &mut |(caller, _): &mut (Caller, Sync)| drop(register(caller)),
                &mut |(_, sync): &mut (Caller, Sync)| sync.once(),
                &mut |(caller, _): &mut (Caller, Sync)| drop(caller.call("bench::echo", "{}")),
            ],
        );
        let bound = 2.5 * synced.median() + echoed.median() + 150.0;
        report.row(&[
            skills.to_string(),
            format!("{} kB", bytes / KB),
            registered.to_string(),
            synced.to_string(),
            echoed.to_string(),
            format!("{bound:.0} us"),
        ]);
        report.check(
            &format!("register at {skills} x {} kB within its bound", bytes / KB),
            registered.median() <= bound,
            &format!("{:.0} us of {bound:.0} us", registered.median()),
        );
    }
}

/// Target: 64 concurrent writers reach at least three times the rate of one.
fn many_writers(report: &mut Report) {
    report.section("Group commit, 2 kB bodies", &["writers", "registrations/s"]);
    let dir = tempfile::tempdir().unwrap();
    let server = serve(dir.path(), 10, 2 * KB);
    let seconds = series_seconds() * 2.0;
    let rate = |writers: usize| {
        let deadline = std::time::Instant::now() + Duration::from_secs_f64(seconds);
        let threads: Vec<_> = (0..writers)
            .map(|writer| {
                let mut caller = Caller::connect(&server.url);
                std::thread::spawn(move || {
                    let registration = Registration::of_bytes(2 * KB);
                    let id = format!("w{writer}");
                    let mut done = 0_usize;
                    while std::time::Instant::now() < deadline {
                        let number = writer * 1_000_000 + done;
                        caller.call("skills::register", &registration.numbered(&id, number));
                        done += 1;
                    }
                    done
                })
            })
            .collect();
        let done: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        done as f64 / seconds
    };
    let (one, many) = (rate(1), rate(64));
    report.row(&["1".to_owned(), format!("{one:.0}")]);
    report.row(&["64".to_owned(), format!("{many:.0}")]);
    report.check(
        "64 writers reach three times one writer's rate",
        many >= 3.0 * one,
        &format!("{:.1} x", many / one),
    );
}

/// Measures resident memory with 10 000 skills of 20 KB after reading each.
fn memory(report: &mut Report) {
    report.section("Resident memory, 10 000 skills of 20 kB", &["when", "resident"]);
    let dir = tempfile::tempdir().unwrap();
    let server = serve(dir.path(), 10_000, 20 * KB);
    let written = resident_mb(server.pid());
    drop(server);
    let server = ServerProcess::start(SERVER, dir.path());
    let started = resident_mb(server.pid());
    let mut caller = Caller::connect(&server.url);
    for (_, function, payload) in LISTINGS {
        caller.call(function, payload);
    }
    for number in 0..10_000 {
        caller.call("skills::resources-read", &format!(r#"{{"uri":"iii://skill-{number}"}}"#));
    }
    let read = resident_mb(server.pid());
    for (when, resident) in [
        ("after registering all", written),
        ("after a restart", started),
        ("after listing and reading all", read),
    ] {
        report.row(&[when.to_owned(), format!("{resident:.0} MB")]);
        report.check(
            &format!("resident memory {when} under 120 MB"),
            resident < 120.0,
            &format!("{resident:.0} MB"),
        );
    }
}

/// Target: start-up with 10 000 skills at most 300 ms longer than with none.
fn starting(report: &mut Report) {
    report.section("Start-up, spawn to serving", &["skills", "median"]);
    let empty = tempfile::tempdir().unwrap();
    let full = tempfile::tempdir().unwrap();
    serve(full.path(), 10_000, 2 * KB).stop();
    let (mut none, mut many) = (Samples::default(), Samples::default());
    for _ in 0..10 {
        none.push(start_up(SERVER, empty.path()));
        many.push(start_up(SERVER, full.path()));
    }
    report.row(&["0".to_owned(), none.to_string()]);
    report.row(&["10 000".to_owned(), many.to_string()]);
    let longer = (many.median() - none.median()) / 1e3;
    report.check(
        "start-up with 10 000 skills at most 300 ms longer",
        longer <= 300.0,
        &format!("{longer:.0} ms"),
    );
}
