//! Reads and validates documents in parallel.

use std::{
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use bytes::Bytes;
use skills_agent_skills::validate::{self, Finding, FindingLevel, Options, ValidationReport};
use skills_bundles::{BundleError, DocumentFile, FoundDocuments, open_named_file};
use skills_core::limits::MAX_SKILL_BYTES;

use crate::{Failure, blocking::par_map};

/// Validation report of one document.
pub(super) struct FileReport {
    pub(super) path: PathBuf,
    pub(super) report: ValidationReport,
}

/// Validates all documents; an unreadable one gets an error of its own.
pub(super) fn validate_all(
    found: FoundDocuments,
    options: Options,
) -> Result<Vec<FileReport>, Failure> {
    let mut reports = par_map(&found.documents, |document| validate_one(document, options))?;
    reports.extend(found.faults.into_iter().map(report_of_fault));
    reports.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(reports)
}

fn validate_one(surveyed: &DocumentFile, options: Options) -> FileReport {
    let document = match &surveyed.bytes {
        Some(bytes) => Ok(bytes.clone()),
        None => read(&surveyed.document).map(Bytes::from),
    };
    let report = match document {
        Ok(document) => {
            let directory = surveyed.directory.as_deref();
            let files = Some(surveyed.files.as_slice());
            validate::validate(
                validate::BundleFiles { directory, document: &document, files },
                options,
            )
        }
        Err(error) => unreadable(&error.to_string()),
    };
    FileReport { path: surveyed.document.clone(), report }
}

/// Reads a document up to the size limit.
pub(super) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_named_file(path)?.take(MAX_SKILL_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn report_of_fault(fault: BundleError) -> FileReport {
    match fault {
        BundleError::Unreadable { path, source } => {
            FileReport { path, report: unreadable(&source.to_string()) }
        }
        other => FileReport { path: PathBuf::new(), report: unreadable(&other.to_string()) },
    }
}

fn unreadable(error: &str) -> ValidationReport {
    let finding = Finding {
        level: FindingLevel::Error,
        code: "unreadable",
        line: 1,
        column: 1,
        message: format!("cannot read the file: {error}"),
        hint: "make it readable, or leave it out".to_owned(),
    };
    ValidationReport { findings: vec![finding] }
}
