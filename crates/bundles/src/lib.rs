//! Bundles on disk: finding, reading and writing them byte for byte.
//!
//! - `find_bundles`: bundles at a path, which is a folder, a file or an archive
//! - `git`: bundles in a repository
//! - `find_documents`: all root documents at a path, for validation
//! - `ignored`: folders that are never part of a bundle
//! - `layout`: grouping of files into bundles; `source`: the bytes of a file
//! - `candidate`: a bundle that was found, and reading it; `assigned_id`: its id; `contents`: its bytes
//! - `root_document`: its root document, parsed once
//! - [`archive`]: untrusted archives, with limits and errors of their own
//! - `export`: writing a bundle into a folder
//! - [`sync`]: one-way sync of skills into a folder
//! - [`lock`]: the lockfile of a project
//! - `files`: atomic writes below a folder
//! - `dir`: handle of an open directory, below which no link is followed
//!
//! The rules for the content of a bundle are in `skills_core` and `skills_agent_skills`; this crate adds what a disk
//! adds: links, special files, names that are not UTF-8. Only bytes, paths and executable bits are kept, no
//! other permissions, times or empty folders.

pub mod archive;
mod assigned_id;
mod candidate;
mod contents;
mod dir;
mod error;
mod export;
mod files;
mod find_bundles;
mod find_documents;
mod git;
mod ignored;
mod layout;
pub mod lock;
mod root_document;
mod source;
pub mod sync;

pub use archive::is_archive_name;
pub use assigned_id::AssignedId;
pub use candidate::{BundleCandidate, FileStamp};
pub use contents::BundleContents;
pub use dir::open_named_file;
pub use error::BundleError;
pub use export::{ExportSummary, export};
pub use find_bundles::{FoundBundles, find_bundles, find_in_archive};
pub use find_documents::{DocumentFile, FoundDocuments, find_documents};
pub use git::{FetchDisplay, FetchLimits, GitRemote, GitSource, PinnedRemote, find_in_repository};
pub use ignored::is_ignored_path;

use std::path::Path;

use skills_core::BundlePath;

/// Checks a path before it is written below a folder. Content that an earlier version stored may break current rules.
fn check_path(folder: &Path, path: &BundlePath) -> Result<(), BundleError> {
    let checked = path.as_str().parse::<BundlePath>();
    checked.map(drop).map_err(|source| BundleError::Rule { path: folder.to_owned(), source })
}
