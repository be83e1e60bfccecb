//! Agent Skills where clients look for them, over plain HTTP.
//!
//! - `published`: which skills are published, as what, and their digests
//! - `artifact`: the bytes behind an entry: a document, or an archive of a bundle
//! - `routes`: the addresses; entity tags and what may be kept for how long
//!
//! An index lists just what [`skills_registry::available`] offers. Every digest is that of the bytes which are
//! served, so an index and what it leads to cannot disagree. Origins and tokens are the listener's business.

mod artifact;
mod published;
mod routes;

pub use routes::{Settings, routes};
