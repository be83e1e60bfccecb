//! Reading bundles and judging them, on all cores.

use std::{
    fs::{self, File},
    io::{self, Read as _},
    num::NonZero,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use skills_core::{
    limits::MAX_SKILL_BYTES,
    validate::{self, Finding, Level, Options, Report},
};

use super::find::{Bundle, Found, Unreadable};
use crate::Failure;

/// A bundle and what was found.
pub(super) struct Judged {
    pub(super) path: PathBuf,
    pub(super) report: Report,
}

/// Judges everything that was found; what cannot be read is an error in its place.
pub(super) fn all(found: &Found, options: Options) -> Result<Vec<Judged>, Failure> {
    let bundles = found.bundles.as_slice();
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        while let Some(bundle) = bundles.get(next.fetch_add(1, Ordering::Relaxed)) {
            done.push(judge(bundle, options));
        }
        done
    };
    let cores = thread::available_parallelism().map_or(1, NonZero::get).min(bundles.len());
    let parts: Vec<thread::Result<Vec<Judged>>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(thread::ScopedJoinHandle::join).collect()
    });
    let mut judged: Vec<Judged> = found.unreadable.iter().map(unreadable).collect();
    for part in parts {
        judged.extend(part.map_err(|_| Failure::new("internal", "a bundle could not be judged"))?);
    }
    judged.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(judged)
}

fn judge(bundle: &Bundle, options: Options) -> Judged {
    let report = match read(&bundle.document) {
        Ok(document) => {
            let directory = bundle.directory.as_deref();
            let files = Some(bundle.files.as_slice());
            let bundle = validate::Bundle { directory, document: &document, files };
            validate::validate(bundle, options)
        }
        Err(error) => refusal(&error),
    };
    Judged { path: bundle.document.clone(), report }
}

/// As much of a file as it takes to judge it. Opening a pipe would wait for someone to write to it.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_SKILL_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn unreadable(found: &Unreadable) -> Judged {
    Judged { path: found.path.clone(), report: refusal(&found.error) }
}

fn refusal(error: &io::Error) -> Report {
    let finding = Finding {
        level: Level::Error,
        code: "unreadable",
        line: 1,
        column: 1,
        message: format!("it cannot be read: {error}"),
        hint: "make it readable, or leave it out".to_owned(),
    };
    Report { findings: vec![finding] }
}
