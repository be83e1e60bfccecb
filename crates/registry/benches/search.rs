//! Cost of the search index to a registry: registrations, opening and memory, each with and without it.
//!
//! `cargo bench -p skills-registry --bench search` prints Markdown and fails if a target is missed. `BENCH_SKILLS=10000` is a
//! quick run. The registry is on an SQLite file with skills of 4 KB. Opening and registrations are measured in turns,
//! because the speed of a machine varies; a registration is a new version of a skill, acknowledged before the next one.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a benchmark prints, and fails by panicking"
)]

use std::{
    fmt::Write as _,
    path::Path,
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use skills_core::{Caller, Layer};
use skills_registry::{Registry, RegistryConfig, search::SearchRequest};
use skills_store::SqliteStore;

const BODY_BYTES: usize = 4096;
const ROUNDS: usize = 3;
const REGISTRATIONS: usize = 300;
const MAX_REGISTRATION: Duration = Duration::from_millis(1);
const MAX_OPEN: Duration = Duration::from_secs(2);

/// Makes the text of a skill from a vocabulary of 50 000 words by Zipf's law.
fn body(number: usize, version: usize) -> String {
    let mut state = (number * 7919 + version + 1) as u64 ^ 0x9e37_79b9_7f4a_7c15;
    let mut text = format!("# Skill {number}\n\nDoes task {number}.\n\n");
    while text.len() < BODY_BYTES {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let exponent = (state >> 11) as f64 / (1_u64 << 53) as f64;
        let _ = write!(text, "w{:x}o ", 50_000_f64.powf(exponent) as usize);
    }
    text
}

fn id(number: usize) -> String {
    format!("skill-{number:06}")
}

fn quantile(samples: &mut [Duration], quantile: f64) -> Duration {
    samples.sort_unstable();
    samples[(quantile * (samples.len() - 1) as f64).round() as usize]
}

fn open(dir: &Path) -> Arc<Registry> {
    let store = Arc::new(SqliteStore::open(dir).unwrap());
    Registry::open(store, None, RegistryConfig::default()).unwrap()
}

/// Returns the resident memory of the process in bytes.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
    kilobytes.map_or(0, |kilobytes: usize| kilobytes * 1024)
}

/// Measurements with the index or without it.
#[derive(Default)]
struct Samples {
    opened: Vec<Duration>,
    registrations: Vec<Duration>,
}

async fn register(registry: &Registry, count: usize, round: usize, samples: &mut Samples) {
    for number in 0..REGISTRATIONS {
        let number = number * 97 % count;
        let body = body(number, round);
        let started = Instant::now();
        registry.register_skill("bench", &Layer::Official, &id(number), body).await.unwrap();
        samples.registrations.push(started.elapsed());
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let count: usize =
        std::env::var("BENCH_SKILLS").map_or(100_000, |count| count.parse().unwrap());
    let dir = tempfile::tempdir().unwrap();
    let registry = open(dir.path());
    for chunk in (0..count).step_by(1000) {
        let numbers = chunk..count.min(chunk + 1000);
        let writes: Vec<_> = numbers
            .map(|number| {
                registry.register_skill("bench", &Layer::Official, &id(number), body(number, 0))
            })
            .collect();
        for write in writes {
            write.await.unwrap();
        }
    }
    registry.close();
    drop(registry);
    let (mut without, mut with) = (Samples::default(), Samples::default());
    let (mut built, mut found) = (Vec::new(), Vec::new());
    let (mut memory, mut grown) = (0, 0);
    for round in 0..ROUNDS {
        let started = Instant::now();
        let registry = open(dir.path());
        without.opened.push(started.elapsed());
        register(&registry, count, 2 * round + 1, &mut without).await;
        let before = resident();
        registry.close();
        drop(registry);

        let started = Instant::now();
        let registry = open(dir.path());
        let mut progress = registry.search_index().progress();
        with.opened.push(started.elapsed());
        progress.wait_for(|progress| progress.is_complete).await.unwrap();
        built.push(started.elapsed());
        register(&registry, count, 2 * round + 2, &mut with).await;
        memory = registry.search_index().memory();
        grown = resident().saturating_sub(before);
        for number in 0..50 {
            let text = format!("{}\n\nfresh{round}x{number}", body(number, 99));
            registry.register_skill("bench", &Layer::Official, &id(number), text).await.unwrap();
            let started = Instant::now();
            let request = SearchRequest::new(format!("fresh{round}x{number}"));
            let page = registry.search_as(&Caller::Anonymous, request).await.unwrap();
            found.push(started.elapsed());
            assert_eq!(page.results.first().map(|result| result.id.clone()), Some(id(number)));
        }
        registry.close();
        drop(registry);
    }
    println!("### Search index of a registry: {count} skills of 4 KB on an SQLite file\n");
    println!("| measurement | without | with the index | more | target | met |");
    println!("|---|---|---|---|---|---|");
    let mut is_met = true;
    let mut row = |name: &str, without: Duration, with: Duration, target: Option<Duration>| {
        let more = with.saturating_sub(without);
        let met = target.is_none_or(|target| more <= target);
        is_met &= met;
        let target = target.map_or(String::new(), |target| format!("{target:?}"));
        let met = if met { "yes" } else { "**no**" };
        println!("| {name} | {without:.2?} | {with:.2?} | {more:.2?} | {target} | {met} |");
    };
    for (name, at, target) in [("median", 0.5, Some(MAX_REGISTRATION)), ("p99", 0.99, None)] {
        let before = quantile(&mut without.registrations, at);
        let after = quantile(&mut with.registrations, at);
        row(&format!("a registration, {name}"), before, after, target);
    }
    let opened = (quantile(&mut without.opened, 0.5), quantile(&mut with.opened, 0.5));
    row("opening, median", opened.0, opened.1, Some(MAX_OPEN));
    let ratio = memory as f64 / (count * BODY_BYTES) as f64;
    let is_small = ratio <= 1.0;
    println!(
        "| memory of the index / text | | {ratio:.2} (the process grew by {} MB) | | 1.0 | {} |",
        grown / 1_000_000,
        if is_small { "yes" } else { "**no**" }
    );
    println!(
        "| until the index is built in the background, median | | {:.1?} | | | |",
        quantile(&mut built, 0.5)
    );
    println!(
        "| search for a skill that was just registered, median | | {:.2?} | | | |",
        quantile(&mut found, 0.5)
    );
    if is_met && is_small { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
