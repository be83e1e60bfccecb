//! Reading documents and judging them, on all cores.

use std::{
    fs::{self, File},
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use skills_bundles::{BundleError, Survey, Surveyed};
use skills_core::{
    limits::MAX_SKILL_BYTES,
    validate::{self, Finding, Level, Options, Report},
};

use crate::{Failure, work::on_all_cores};

/// A document and what was found.
pub(super) struct Judged {
    pub(super) path: PathBuf,
    pub(super) report: Report,
}

/// Judges everything that was found, each document once; what cannot be read is an error in its place.
pub(super) fn all(found: Survey, options: Options) -> Result<Vec<Judged>, Failure> {
    let mut judged = on_all_cores(&found.documents, |document| judge(document, options))?;
    judged.extend(found.faults.into_iter().map(unreadable));
    judged.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(judged)
}

fn judge(surveyed: &Surveyed, options: Options) -> Judged {
    let report = match read(&surveyed.document) {
        Ok(document) => {
            let directory = surveyed.directory.as_deref();
            let files = Some(surveyed.files.as_slice());
            validate::validate(validate::Bundle { directory, document: &document, files }, options)
        }
        Err(error) => refusal(&error.to_string()),
    };
    Judged { path: surveyed.document.clone(), report }
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

fn unreadable(fault: BundleError) -> Judged {
    match fault {
        BundleError::Unreadable { path, source } => {
            Judged { path, report: refusal(&source.to_string()) }
        }
        other => Judged { path: PathBuf::new(), report: refusal(&other.to_string()) },
    }
}

fn refusal(error: &str) -> Report {
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
