//! Writing a bundle into a folder.

use std::{
    fs::{self, OpenOptions},
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
};

use bytes::Bytes;
use skills_core::{Bundle, skill::ROOT_PATH};

use crate::BundleError;

/// How many names are tried for a file that is not complete yet.
const ATTEMPTS: usize = 100;

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

enum Present {
    Missing,
    Same,
    /// What is in the way.
    Other(PathBuf),
}

/// What is where a file belongs.
fn present(folder: &Path, path: &str, bytes: &[u8]) -> Result<Present, BundleError> {
    for above in folders_of(path) {
        let above = folder.join(above);
        match fs::symlink_metadata(&above) {
            Ok(metadata) if metadata.is_dir() => {}
            Ok(_) => return Ok(Present::Other(above)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Present::Missing),
            Err(source) => return Err(BundleError::Unreadable { path: above, source }),
        }
    }
    let full = folder.join(path);
    let is_same = match fs::symlink_metadata(&full) {
        // Only as much is read as could be the same.
        Ok(metadata) if metadata.is_file() && metadata.len() == bytes.len() as u64 => {
            let mut found = Vec::with_capacity(bytes.len());
            fs::File::open(&full)
                .and_then(|file| file.take(bytes.len() as u64 + 1).read_to_end(&mut found))
                .map(|_| found == bytes)
        }
        Ok(_) => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Present::Missing),
        Err(error) => Err(error),
    };
    match is_same {
        Ok(true) => Ok(Present::Same),
        Ok(false) => Ok(Present::Other(full)),
        Err(source) => Err(BundleError::Unreadable { path: full, source }),
    }
}

fn folders_of(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(|(at, _)| &path[..at])
}

/// Writes under another name first and then takes the place of what was there, be it a link.
fn write(folder: &Path, path: &str, bytes: &[u8]) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    for above in folders_of(path) {
        let above = folder.join(above);
        match fs::symlink_metadata(&above) {
            Ok(metadata) if metadata.is_dir() => continue,
            Ok(_) => fs::remove_file(&above)?,
            Err(_) => {}
        }
        fs::create_dir(&above)?;
    }
    let full = folder.join(path);
    let (temporary, mut file) = create_beside(&full)?;
    let written = file.write_all(bytes).and_then(|()| fs::rename(&temporary, &full));
    if written.is_err() {
        // The reason is told; what is left of the attempt is not worth another.
        let _ = fs::remove_file(&temporary);
    }
    written
}

fn create_beside(full: &Path) -> io::Result<(PathBuf, fs::File)> {
    let mut taken = io::Error::from(io::ErrorKind::AlreadyExists);
    for attempt in 0..ATTEMPTS {
        let name = format!(".skills-{}-{attempt}", std::process::id());
        let temporary = full.with_file_name(name);
        match OpenOptions::new().write(true).create_new(true).open(&temporary) {
            Ok(file) => return Ok((temporary, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => taken = error,
            Err(error) => return Err(error),
        }
    }
    Err(taken)
}
