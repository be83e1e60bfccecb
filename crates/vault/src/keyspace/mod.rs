//! The vault as lines of the logical key space: keys, profiles, secrets and counts. Skills and tools are kept
//! elsewhere, and so are their lines.
//!
//! Not all there is can be said in that form: labels, revoked keys, grants and the log of changes are in the
//! file alone, which is what a backup copies.

mod export;
mod import;

pub use export::Export;
pub use import::Outcome;

#[cfg(test)]
mod tests;
