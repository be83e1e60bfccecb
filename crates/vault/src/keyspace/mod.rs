//! Import and export of the vault as lines of the logical key space: keys, profiles, secrets and rate counters. Lines of
//! skills and tools belong to the registry.
//!
//! Labels, revoked keys, grants and the audit log have no form in the key space; a backup copies the file.

mod export;
mod import;

pub use export::KeyspaceExport;
pub use import::KeyspaceImport;

#[cfg(test)]
mod tests;
