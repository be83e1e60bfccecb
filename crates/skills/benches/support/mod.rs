//! Callers, references and the report of the benchmarks. The peers do minimal work, so that the server dominates the
//! measurement.

mod peers;
mod report;

use std::{
    fs::{self, File, OpenOptions},
    os::unix::fs::FileExt as _,
    path::Path,
    time::{Duration, Instant},
};

pub(crate) use peers::{Caller, Echo, populate};
pub(crate) use report::{Report, Samples};
use skills_testkit::ServerProcess;

/// Returns the seconds of one series of measurements.
pub(crate) fn series_seconds() -> f64 {
    std::env::var("BENCH_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(1.5)
}

/// Builds a unique Markdown document of about `bytes` bytes.
pub(crate) fn body(number: usize, bytes: usize) -> String {
    let mut text =
        format!("# Skill {number}\n\nWhat skill {number} is for, and when to use it.\n\n");
    while text.len() < bytes {
        text.push_str("A line of guidance, as one finds them in a document.\n");
    }
    text.truncate(bytes);
    text
}

/// Runs the closures in turn until the time is up, so that noise hits all of them alike.
pub(crate) fn in_turn<S, const N: usize>(
    state: &mut S,
    mut each: [&mut dyn FnMut(&mut S); N],
) -> [Samples; N] {
    let mut samples = [(); N].map(|()| Samples::default());
    for run in &mut each {
        run(state);
    }
    let deadline = Instant::now() + Duration::from_secs_f64(series_seconds());
    while Instant::now() < deadline || samples[0].len() < 20 {
        for (run, samples) in each.iter_mut().zip(&mut samples) {
            samples.time(|| run(state));
        }
        // Reverses the order, because the predecessor influences the result.
        for (run, samples) in each.iter_mut().zip(&mut samples).rev() {
            samples.time(|| run(state));
        }
    }
    samples
}

/// Input of `skills::register` as JSON text, prepared so that building it is not measured.
pub(crate) struct Registration {
    rest: String,
}

impl Registration {
    pub(crate) fn of_bytes(bytes: usize) -> Self {
        let quoted = serde_json::to_string(&body(0, bytes)).unwrap();
        Self { rest: quoted.trim_start_matches('"').to_owned() }
    }

    /// Returns the input with a unique body.
    pub(crate) fn numbered(&self, id: &str, number: usize) -> String {
        format!(r##"{{"id":"{id}","skill":"# {number}\n\n{}}}"##, self.rest)
    }
}

/// Reference for durable writes: as many bytes as a body, in place, then `fdatasync`.
pub(crate) struct Sync {
    file: File,
    block: Vec<u8>,
    turn: u64,
}

impl Sync {
    pub(crate) fn in_folder(folder: &Path, bytes: usize) -> Self {
        let file = OpenOptions::new()
            .create(true)
            .truncate(true)
            .write(true)
            .open(folder.join("raw"))
            .unwrap();
        let block = vec![7; bytes.next_multiple_of(4096)];
        for turn in 0..Self::PLACES {
            file.write_all_at(&block, turn * block.len() as u64).unwrap();
        }
        file.sync_all().unwrap();
        Self { file, block, turn: 0 }
    }

    const PLACES: u64 = 16;

    pub(crate) fn once(&mut self) {
        self.turn += 1;
        self.block[0] = self.turn as u8;
        let at = (self.turn % Self::PLACES) * self.block.len() as u64;
        self.file.write_all_at(&self.block, at).unwrap();
        self.file.sync_data().unwrap();
    }
}

/// Returns the resident memory of a process in MB.
pub(crate) fn resident_mb(pid: u32) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    let kib: f64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib * 1024.0 / 1e6
}

/// Measures the time from spawn until a server serves.
pub(crate) fn start_up(binary: &str, data_dir: &Path) -> Duration {
    let started = Instant::now();
    let server = ServerProcess::start(binary, data_dir);
    let taken = started.elapsed();
    server.stop();
    taken
}
