//! Latency of searches, memory and build time of an index of 100 000 skills of 4 KB, beside `rg -il` over the same files.
//!
//! `cargo bench -p skills-search` prints Markdown and fails if a target is missed. `BENCH_SKILLS=10000` is a quick run.
//! Words follow Zipf's law over a vocabulary of 50 000, as in prose. Queries have three words of all frequencies. Some
//! documents are replaced and removed, so that statistics must leave out deleted ones. Visibility is decided by a lookup in
//! a hash table, as in a registry; a tenth of the documents is hidden.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark prints, and fails by panicking"
)]

use std::{
    collections::HashSet,
    fmt::Write as _,
    fs,
    path::Path,
    process::{Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use skills_search::{
    Analyzer, DocumentKey, HitKind, Partition, PartitionWriter, Query, SearchDocument, Searcher,
    SynonymTable, Visibility,
};

const DOCUMENT_BYTES: usize = 4096;
const VOCABULARY: usize = 50_000;
const CHUNK: usize = 1024;
const QUERIES: usize = 500;
const MAX_P50: Duration = Duration::from_millis(2);
const MAX_P99: Duration = Duration::from_millis(10);
const MAX_BAD_P99: Duration = Duration::from_millis(50);
/// Searches with each bad query. The slowest but one of them is the 99th percentile.
const BAD_RUNS: usize = 100;
const MAX_ADD: Duration = Duration::from_millis(1);

/// Generator of reproducible numbers (xorshift).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns the number of a word; the first are the most frequent.
    fn word(&mut self) -> usize {
        let exponent = self.fraction();
        ((VOCABULARY as f64).powf(exponent) as usize).min(VOCABULARY) - 1
    }
}

/// Makes pronounceable words.
fn vocabulary() -> Vec<String> {
    const SYLLABLES: [&str; 20] = [
        "ba", "co", "di", "fe", "gu", "ha", "jo", "ki", "le", "mu", "na", "po", "ri", "se", "tu",
        "va", "wo", "xi", "ye", "zu",
    ];
    let word = |number: usize| {
        let mut word = String::new();
        let mut rest = number + 20;
        while rest > 0 {
            word.push_str(SYLLABLES[rest % 20]);
            rest /= 20;
        }
        word
    };
    (0..VOCABULARY).map(word).collect()
}

fn document(number: usize, words: &[String], random: &mut Random) -> SearchDocument {
    let mut text = |bytes: usize| {
        let mut text = String::with_capacity(bytes + 16);
        while text.len() < bytes {
            text.push_str(&words[random.word()]);
            text.push(if random.next().is_multiple_of(12) { '\n' } else { ' ' });
        }
        text
    };
    let mut document = SearchDocument::new(
        HitKind::Skill,
        format!("{}-{number}", text(8).trim().replace(['\n', ' '], "-")).into(),
    );
    document.title = text(24);
    document.description = text(160);
    document.body = text(DOCUMENT_BYTES - 200);
    document
}

fn quantile(samples: &mut [Duration], quantile: f64) -> Duration {
    samples.sort_unstable();
    samples[(quantile * (samples.len() - 1) as f64).round() as usize]
}

/// Measures searches and returns the median and the 99th percentile.
fn searches(
    partition: &Partition,
    hidden: &HashSet<DocumentKey>,
    queries: &[String],
) -> (Duration, Duration) {
    let synonyms = SynonymTable::with_groups([]);
    let partitions = [partition];
    let searcher = Searcher::new(&partitions, &synonyms);
    let run = |query: &String| {
        let started = Instant::now();
        let found = searcher.search(&Query::parse(query), 0, 10, &|_, key| {
            if hidden.contains(key) { Visibility::Hidden } else { Visibility::Shown }
        });
        std::hint::black_box(found);
        started.elapsed()
    };
    for query in queries.iter().take(20) {
        run(query);
    }
    let mut samples: Vec<Duration> = queries.iter().map(run).collect();
    (quantile(&mut samples, 0.5), quantile(&mut samples, 0.99))
}

/// Measures a search over files by a program that reads them.
fn by_files(dir: &Path, queries: &[String]) -> (&'static str, Duration) {
    let has_rg = Command::new("rg").arg("--version").stdout(Stdio::null()).status().is_ok();
    let (name, program, flags): (_, _, &[&str]) = if has_rg {
        ("`rg -il`", "rg", &["-il"])
    } else {
        ("`grep -ril` (for `rg`: `apt-get install ripgrep`)", "grep", &["-ril"])
    };
    let run = |query: &String| {
        let word = query.split(' ').next().unwrap();
        let started = Instant::now();
        let status =
            Command::new(program).args(flags).arg(word).arg(dir).stdout(Stdio::null()).status();
        assert!(status.is_ok());
        started.elapsed()
    };
    let mut samples: Vec<Duration> = queries.iter().take(5).map(run).collect();
    (name, quantile(&mut samples, 0.5))
}

fn main() -> ExitCode {
    let count: usize =
        std::env::var("BENCH_SKILLS").map_or(100_000, |count| count.parse().unwrap());
    let (words, mut random) = (vocabulary(), Random(7));
    let dir = tempfile::tempdir().unwrap();
    let mut writer = PartitionWriter::default();
    let mut analyzer = Analyzer::default();
    let (mut text_bytes, mut build) = (0, Duration::ZERO);
    for chunk in 0..count.div_ceil(CHUNK) {
        let numbers = chunk * CHUNK..count.min((chunk + 1) * CHUNK);
        let documents: Vec<_> =
            numbers.map(|number| document(number, &words, &mut random)).collect();
        for document in &documents {
            text_bytes += document.text_bytes();
            let text = format!("{}\n{}\n{}", document.title, document.description, document.body);
            fs::write(dir.path().join(&*document.key.id), text).unwrap();
        }
        let started = Instant::now();
        writer.add(documents.iter().map(|document| analyzer.analyze(document)).collect());
        writer.merge_all();
        build += started.elapsed();
    }
    let mut adds = Vec::new();
    let known: Vec<DocumentKey> = writer.snapshot().keys().cloned().collect();
    for key in known.iter().step_by(known.len().div_ceil(500)) {
        writer.remove(key);
    }
    for (number, replaced) in known.iter().rev().step_by(known.len().div_ceil(300)).enumerate() {
        let mut document = document(count + number, &words, &mut random);
        document.key = replaced.clone();
        let started = Instant::now();
        writer.add(vec![analyzer.analyze(&document)]);
        adds.push(started.elapsed());
        writer.merge_all();
    }
    let partition = writer.snapshot();
    let memory = partition.memory() as f64 / text_bytes as f64;
    let query = |random: &mut Random| {
        let words: Vec<&str> = (0..3).map(|_| words[random.word()].as_str()).collect();
        words.join(" ")
    };
    let queries: Vec<String> = (0..QUERIES).map(|_| query(&mut random)).collect();
    let hidden: HashSet<DocumentKey> = known.iter().skip(3).step_by(10).cloned().collect();
    let none = HashSet::new();
    let (p50, p99) = searches(&partition, &none, &queries);
    let (caller_p50, caller_p99) = searches(&partition, &hidden, &queries);
    let terms: String = (0..10_000).fold(String::new(), |mut text, number| {
        let _ = write!(text, "{} ", words[number % VOCABULARY]);
        text
    });
    let bad = [
        String::new(),
        "x".repeat(100_000),
        terms,
        ".*+?()[]".repeat(100),
        "\"ba co\" \"di fe\"".to_owned(),
        format!("\"{} {}\"", words[0], words[1]),
        "the of and to".to_owned(),
        "a\0b\0".repeat(1000),
        "nonexistentword another-missing-id".to_owned(),
        format!("kind:skill -{}", words[0]),
        format!("{} -\"{} {}\"", words[3], words[0], words[1]),
        "-a ".repeat(5000),
        (0..10_000).map(|number| format!("missing{number} ")).collect(),
        words.iter().take(2000).map(|word| format!("-{word} ")).collect(),
        "ba".to_owned(),
    ];
    let mut worst = Vec::new();
    for query in &bad {
        let (_, slowest) = searches(&partition, &hidden, &vec![query.clone(); BAD_RUNS]);
        worst.push((
            slowest,
            query
                .chars()
                .filter(|c| !c.is_control())
                .take(24)
                .collect::<String>()
                .trim()
                .to_owned(),
        ));
    }
    worst.sort();
    let (name, files) = by_files(dir.path(), &queries);
    let add = quantile(&mut adds, 0.5);
    println!(
        "### Search: {count} skills of 4 KB\n\n| measurement | seen | target | met |\n|---|---|---|---|"
    );
    let mut is_met = true;
    let mut row = |name: &str, seen: String, target: String, met: bool| {
        is_met &= met;
        println!("| {name} | {seen} | {target} | {} |", if met { "yes" } else { "**no**" });
    };
    row("three words, median", format!("{p50:.1?}"), format!("{MAX_P50:?}"), p50 <= MAX_P50);
    row("three words, p99", format!("{p99:.1?}"), format!("{MAX_P99:?}"), p99 <= MAX_P99);
    row(
        "three words, a tenth hidden, median",
        format!("{caller_p50:.1?}"),
        format!("{MAX_P50:?}"),
        caller_p50 <= MAX_P50,
    );
    row(
        "three words, a tenth hidden, p99",
        format!("{caller_p99:.1?}"),
        format!("{MAX_P99:?}"),
        caller_p99 <= MAX_P99,
    );
    for (slowest, name) in worst.iter().rev() {
        row(
            &format!("bad query `{name}`, p99"),
            format!("{slowest:.1?}"),
            format!("{MAX_BAD_P99:?}"),
            *slowest <= MAX_BAD_P99,
        );
    }
    row("index memory / text", format!("{memory:.2}"), "1.0".to_owned(), memory <= 1.0);
    row("adding a skill, median", format!("{add:.1?}"), format!("{MAX_ADD:?}"), add <= MAX_ADD);
    println!("| building, one thread | {build:.1?} | | |");
    println!("| {name} of one word, median | {files:.1?} | | |");
    if is_met { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
