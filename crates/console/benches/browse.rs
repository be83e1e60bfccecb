//! Time of the first page over a loopback connection, with ten thousand skills.
//!
//! `cargo bench -p skills-console --bench browse` prints Markdown. A missed target makes the run fail: 20 ms for the
//! median of each page.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark prints, fails by panicking, and uses a part of the test fixtures"
)]

#[path = "../tests/it/browser.rs"]
mod browser;
#[path = "../tests/it/test_console.rs"]
mod test_console;

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use test_console::TestConsole;

const SKILLS: usize = 10_000;
const ROUNDS: usize = 50;
const TARGET: Duration = Duration::from_millis(20);
const PAGES: [&str; 6] = [
    "/ui",
    "/ui?view=table",
    "/ui?page=200",
    "/ui?tag=tag-3&source=/many",
    "/ui?q=report",
    "/ui?q=report&source=/many&page=3",
];

fn main() -> ExitCode {
    let console = TestConsole::open();
    for number in 0..SKILLS {
        let id = format!("skill-{number:05}");
        let document = format!(
            "---\nname: {id}\ndescription: Report {number}. Use it for task {number}.\nmetadata:\n  tags: tag-{} many\n---\n# Skill {number}\n\nA report.\n",
            number % 50
        );
        console.register_from(&format!("/many/{number}"), &id, &document);
    }
    let mut browser = console.browser();
    let mut is_met = true;
    println!(
        "| page of {SKILLS} skills | bytes | median | slowest of {ROUNDS} |\n|---|---:|---:|---:|"
    );
    for path in PAGES {
        let bytes = browser.open(path).len();
        let mut times: Vec<Duration> = (0..ROUNDS)
            .map(|_| {
                let start = Instant::now();
                browser.open(path);
                start.elapsed()
            })
            .collect();
        times.sort_unstable();
        let (median, slowest) = (times[ROUNDS / 2], times[ROUNDS - 1]);
        is_met &= median < TARGET;
        println!("| `{path}` | {bytes} | {median:.2?} | {slowest:.2?} |");
    }
    if is_met {
        return ExitCode::SUCCESS;
    }
    println!("\nA page took {TARGET:?} or more.");
    ExitCode::FAILURE
}
