//! Samples and the Markdown report.

use std::{
    fmt, fs,
    process::ExitCode,
    time::{Duration, Instant},
};

/// Samples of one measurement.
#[derive(Default)]
pub(crate) struct Samples(Vec<Duration>);

impl Samples {
    pub(crate) fn push(&mut self, sample: Duration) {
        self.0.push(sample);
    }

    /// Measures one run.
    pub(crate) fn time(&mut self, run: impl FnOnce()) {
        let started = Instant::now();
        run();
        self.push(started.elapsed());
    }

    pub(crate) fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the value in microseconds.
    pub(crate) fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// Returns the value in microseconds.
    pub(crate) fn quantile(&self, quantile: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let at = (quantile * (sorted.len() - 1) as f64).round() as usize;
        sorted[at].as_secs_f64() * 1e6
    }
}

impl fmt::Display for Samples {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [median, tail] = [0.5, 0.99].map(|quantile| match self.quantile(quantile) {
            us if us < 10_000.0 => format!("{us:.0} us"),
            us => format!("{:.1} ms", us / 1e3),
        });
        write!(f, "{median} (p99 {tail})")
    }
}

/// Collects targets and prints tables.
pub(crate) struct Report {
    /// Target, whether it is met (if measured), and the observed value.
    checks: Vec<(String, Option<bool>, String)>,
}

impl Report {
    pub(crate) fn new() -> Self {
        Self { checks: Vec::new() }
    }

    pub(crate) fn machine(&self) {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let value = |text: &str, key: &str| {
            let line = text.lines().find(|line| line.starts_with(key)).unwrap_or_default();
            line.split_once(':').map_or("?", |(_, value)| value.trim()).to_owned()
        };
        println!(
            "Machine: {}, {} cores, {} memory, Linux {}; {} s a series.",
            value(&read("/proc/cpuinfo"), "model name"),
            std::thread::available_parallelism().map_or(0, usize::from),
            value(&read("/proc/meminfo"), "MemTotal"),
            read("/proc/sys/kernel/osrelease").trim(),
            super::series_seconds(),
        );
    }

    pub(crate) fn section(&self, title: &str, header: &[&str]) {
        println!("\n### {title}\n\n| {} |\n|{}", header.join(" | "), "---|".repeat(header.len()));
    }

    pub(crate) fn row(&self, cells: &[String]) {
        println!("| {} |", cells.join(" | "));
    }

    pub(crate) fn check(&mut self, target: &str, met: bool, seen: &str) {
        self.checks.push((target.to_owned(), Some(met), seen.to_owned()));
    }

    /// Records a target that this machine cannot measure.
    pub(crate) fn not_measured(&mut self, target: &str, why: &str) {
        self.checks.push((target.to_owned(), None, why.to_owned()));
    }

    pub(crate) fn finish(self) -> ExitCode {
        self.section("Targets", &["target", "seen", "met"]);
        for (target, met, seen) in &self.checks {
            self.row(&[
                target.clone(),
                seen.clone(),
                match met {
                    Some(true) => "yes",
                    Some(false) => "**no**",
                    None => "?",
                }
                .to_owned(),
            ]);
        }
        let count = |wanted| self.checks.iter().filter(|(_, met, _)| *met == wanted).count();
        let (met, missed, unknown) = (count(Some(true)), count(Some(false)), count(None));
        println!("\n{met} of {} targets met.", self.checks.len());
        if unknown > 0 {
            println!("{unknown} not measured.");
        }
        if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}
