//! Files in their places below a folder: looking at what is there, and putting something there whole.
//!
//! No link below the folder is followed, neither for reading nor for writing.

use std::{
    fs::{self, OpenOptions},
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
};

use crate::BundleError;

/// How many names are tried for a file that is not complete yet.
const ATTEMPTS: usize = 100;

/// What is where a file belongs.
pub(crate) enum Present {
    Missing,
    Same,
    /// What is in the way.
    Other(PathBuf),
}

/// Compares what is where a file belongs.
pub(crate) fn present(folder: &Path, path: &str, bytes: &[u8]) -> Result<Present, BundleError> {
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

/// The folders that a path inside a folder leads through, the outermost first.
pub(crate) fn folders_of(path: &str) -> impl DoubleEndedIterator<Item = &str> {
    path.match_indices('/').map(|(at, _)| &path[..at])
}

/// Writes under another name first and then takes the place of what was there, be it a link.
pub(crate) fn write(folder: &Path, path: &str, bytes: &[u8]) -> io::Result<()> {
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
