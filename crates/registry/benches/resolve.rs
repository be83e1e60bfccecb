//! Cost of resolving a name in process: skills in three tiers, in catalogs of growing size, compared with a lookup
//! in the standard library's hash map of the same names.
//!
//! The names are hits in each tier, exact and by prefix, and misses, which search every tier. `cargo bench -p
//! skills-registry --bench resolve` prints Markdown. A missed target makes the run fail: a million lookups a second
//! in the largest catalog.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a benchmark prints, and fails by panicking"
)]

use std::{
    collections::HashMap,
    hint::black_box,
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use skills_core::{Caller, Digest, EntryKey, EntryKind, Layer, Timestamp, User, resolve::Prefix};
use skills_registry::Catalog;
use skills_store::{EntryContent, StoredEntry};

const SIZES: [usize; 3] = [1_000, 10_000, 100_000];
const TARGET: f64 = 1_000_000.0;
const ROUNDS: usize = 5;
const AT_LEAST: Duration = Duration::from_millis(300);

/// Builds a catalog: every tenth skill belongs to ann, the others alternate between official and market; every third
/// has the prefix.
fn catalog(size: usize) -> Catalog {
    let ann = Layer::Private("ann".parse().unwrap());
    let content = Arc::new(EntryContent::Skill(
        skills_agent_skills::skill_meta("# Skill\n\nDoes it.").unwrap(),
    ));
    let entry = |number: usize| {
        let layer = match (number % 10, number % 2) {
            (0, _) => ann.clone(),
            (_, 0) => Layer::Official,
            _ => Layer::Market,
        };
        let prefix = if number.is_multiple_of(3) { "uniskill_" } else { "" };
        let id = format!("{prefix}skill-{number:06}").into();
        StoredEntry {
            key: EntryKey { kind: EntryKind::Skill, layer, id },
            revision: number as u64 + 1,
            registered_at: Timestamp::from_micros(1),
            content: Arc::clone(&content),
            heads: None,
        }
    };
    let entries = (0..size).map(entry).collect();
    Catalog::from_entries(entries, size as u64, Prefix::default())
}

/// Returns names in a cache-unfriendly order, three hits per miss.
fn names(size: usize) -> Vec<String> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state >> 33).unwrap()
    };
    (0..65_536)
        .map(|_| match random() % 4 {
            0 => format!("missing-{:06}", random() % size),
            1 => {
                let number = random() % size;
                let prefix = if number.is_multiple_of(3) { "uniskill_" } else { "" };
                format!("{prefix}skill-{number:06}")
            }
            _ => format!("skill-{:06}", random() % size),
        })
        .collect()
}

/// Returns the lookups per second of the best round.
fn rate(names: &[String], mut look: impl FnMut(&str) -> bool) -> f64 {
    let round = |look: &mut dyn FnMut(&str) -> bool| {
        let (started, mut count) = (Instant::now(), 0);
        while started.elapsed() < AT_LEAST {
            for name in names {
                black_box(look(black_box(name)));
            }
            count += names.len();
        }
        count as f64 / started.elapsed().as_secs_f64()
    };
    (0..ROUNDS).map(|_| round(&mut look)).fold(0.0, f64::max)
}

fn main() -> ExitCode {
    let ann = Caller::User(User { owner: "ann".parse().unwrap(), key: Digest::of(b"us-ann") });
    println!(
        "| skills in three tiers | resolved a second | `HashMap` lookups a second | view made in |"
    );
    println!("|---|---|---|---|");
    let mut last = 0.0;
    for size in SIZES {
        let catalog = Arc::new(catalog(size));
        let names = names(size);
        let view = catalog.view_for(&ann);
        let found = names.iter().filter(|name| view.skill(name).is_some()).count();
        assert!(found * 2 > names.len() && found < names.len(), "a mix of hits and misses");
        let plain: HashMap<String, usize> =
            view.layered_after(None).map(|row| row.id.to_string()).zip(0..).collect();
        let resolved = rate(&names, |name| view.skill(name).is_some());
        let looked_up = rate(&names, |name| plain.contains_key(name));
        let fresh = catalog.with(&[]);
        let fresh = Arc::new(fresh);
        let started = Instant::now();
        black_box(fresh.view_for(&ann));
        let made = started.elapsed();
        println!("| {size} | {:.2} M | {:.2} M | {made:?} |", resolved / 1e6, looked_up / 1e6);
        last = resolved;
    }
    println!("\nTarget: {:.0} M a second in the largest.", TARGET / 1e6);
    if last < TARGET { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
