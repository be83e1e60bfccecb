//! Functions of collections on a bus.

use serde::Deserialize;
use skills_registry::CollectionInfo;

pub(crate) const LIST: &str = "collections::list";
pub(crate) const GET: &str = "collections::get";
pub(crate) const PUT: &str = "collections::put";
pub(crate) const REMOVE: &str = "collections::remove";
/// Message for a registry without these functions.
pub(crate) const MISSING: &str = "the registry on this bus has no collections";

/// Output of `collections::list`.
#[derive(Debug, Deserialize)]
pub(crate) struct Listed {
    pub(crate) collections: Vec<CollectionInfo>,
}
