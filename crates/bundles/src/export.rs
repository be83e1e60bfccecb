//! Writing a bundle into a folder.

use std::path::Path;

use bytes::Bytes;
use skills_core::{Bundle, skill::ROOT_PATH};

use crate::{
    BundleError,
    place::{Present, present, write},
};

/// How many files an export dealt with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Written {
    /// Written.
    pub written: usize,
    /// There already, with the same bytes.
    pub unchanged: usize,
}

/// Writes a bundle into a folder, which becomes the bundle's folder. What is there and not part of the bundle stays.
/// A file is complete or not there; no link is followed below the folder.
///
/// # Errors
/// Before anything is written when something else is in the way and `force` is not set.
pub fn export(bundle: Bundle<Bytes>, folder: &Path, force: bool) -> Result<Written, BundleError> {
    let (_, root, others) = bundle.into_parts();
    let others = others.iter().map(|(path, bytes)| (path.as_str(), bytes.as_ref()));
    let files: Vec<(&str, &[u8])> = others.chain([(ROOT_PATH, root.as_bytes())]).collect();
    let mut missing = Vec::new();
    for &(path, bytes) in &files {
        match present(folder, path, bytes)? {
            Present::Same => {}
            Present::Missing => missing.push((path, bytes)),
            Present::Other(_) if force => missing.push((path, bytes)),
            Present::Other(path) => return Err(BundleError::Exists { path }),
        }
    }
    for &(path, bytes) in &missing {
        let full = folder.join(path);
        write(folder, path, bytes)
            .map_err(|source| BundleError::Unwritable { path: full, source })?;
    }
    Ok(Written { written: missing.len(), unchanged: files.len() - missing.len() })
}
