//! Discovery of Agent Skills at well-known URIs, over plain HTTP.
//!
//! - `publication`: index of the published skills and their digests
//! - `artifact`: bytes of a published skill: a document, or an archive of a bundle
//! - `archive_cache`: cache of archives
//! - `scope`: indexes of a tier or of one skill
//! - `routes`: routes and cache headers
//!
//! An index lists what [`skills_registry::available`] offers. Every digest is that of the served bytes, so an index and
//! its artifacts cannot disagree. Origins, tokens and content policies are the listener's task, which may mount all
//! routes as public.

mod archive_cache;
mod artifact;
mod publication;
mod routes;
mod scope;

pub use routes::{Settings, routes};
