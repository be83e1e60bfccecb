//! Bundles on disk: finding them, reading them, and writing them back byte for byte.
//!
//! - `find`: which bundles a path stands for, be it a folder, a file or an archive
//! - `survey`: all root documents at a path, for who only looks at them
//! - `layout`: which of many files belong to which bundle
//! - `candidate`: a bundle that was found, and reading it
//! - `head`: its root document, read once
//! - [`archive`]: archives, which nobody has looked into yet, with limits and errors of their own
//! - `export`: writing a bundle into a folder
//! - [`sync`]: keeping a folder of bundles in step, and taking back only what was written
//! - `place`: files in their places below a folder
//!
//! What a bundle may hold is for `skills_core`; here is only what a disk adds: links, special files, names that
//! are no text. The registry keeps bytes and paths, so permissions, times and empty folders do not travel.

pub mod archive;
mod candidate;
mod error;
mod export;
mod find;
mod head;
mod layout;
mod place;
mod survey;
pub mod sync;

pub use candidate::{Candidate, Contents};
pub use error::BundleError;
pub use export::{Written, export};
pub use find::{Found, find};
pub use survey::{Survey, Surveyed, survey};

/// Folders that are never part of a bundle.
const SKIPPED: [&str; 2] = [".git", "node_modules"];
