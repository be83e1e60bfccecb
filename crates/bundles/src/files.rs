//! Atomic writes and comparisons of files below a folder.
//!
//! No link below the folder is followed, for reads and writes alike: everything goes through [`Dir`].

use std::{
    fs,
    io::{self, Write as _},
    path::PathBuf,
};

use crate::{
    BundleError,
    dir::{Dir, FileKind},
};

/// Most names tried for a temporary file.
const ATTEMPTS: usize = 100;

/// Comparison of a file with what is at its path.
pub(crate) enum FileComparison {
    Missing,
    Same,
    /// The bytes are equal and the executable bit is not.
    OtherMode,
    /// Path of what is in the way.
    Other(PathBuf),
}

/// Parent folder of a file.
pub(crate) enum Parent<'a> {
    /// Handle of the folder (`None` for the base itself), and the name of the file.
    Folder(Option<Dir>, &'a str),
    Missing,
    /// Path of a file or link in place of a folder.
    Blocked(PathBuf),
}

/// Opens the parent folder of a path.
pub(crate) fn parent<'a>(base: &Dir, path: &'a str) -> Result<Parent<'a>, BundleError> {
    let mut folder: Option<Dir> = None;
    let (above, leaf) =
        path.rsplit_once('/').map_or((None, path), |(above, leaf)| (Some(above), leaf));
    for name in above.iter().flat_map(|above| above.split('/')) {
        let here = folder.as_ref().unwrap_or(base);
        let full = here.path().join(name);
        let unreadable = |source| BundleError::Unreadable { path: full.clone(), source };
        match here.kind(name).map_err(unreadable)? {
            Some(FileKind::Folder) => {
                let next = here.folder(name).map_err(unreadable)?;
                folder = Some(next);
            }
            Some(_) => return Ok(Parent::Blocked(full)),
            None => return Ok(Parent::Missing),
        }
    }
    Ok(Parent::Folder(folder, leaf))
}

/// File to be written below a folder.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewFile<'a> {
    pub(crate) path: &'a str,
    pub(crate) bytes: &'a [u8],
    pub(crate) executable: bool,
}

/// Compares a file with the expected one.
pub(crate) fn compare(base: &Dir, file: NewFile<'_>) -> Result<FileComparison, BundleError> {
    let NewFile { path, bytes, executable } = file;
    let (folder, name) = match parent(base, path)? {
        Parent::Folder(folder, name) => (folder, name),
        Parent::Missing => return Ok(FileComparison::Missing),
        Parent::Blocked(full) => return Ok(FileComparison::Other(full)),
    };
    let folder = folder.as_ref().unwrap_or(base);
    let full = folder.path().join(name);
    let unreadable = |source| BundleError::Unreadable { path: full.clone(), source };
    match folder.kind(name).map_err(unreadable)? {
        None => return Ok(FileComparison::Missing),
        // Files of another size are not read.
        Some(FileKind::File { size, executable: found_mode }) if size == bytes.len() as u64 => {
            let found = folder.read_file(name, size + 1).map_err(unreadable)?;
            if found == bytes {
                let is_same = found_mode == executable;
                return Ok(if is_same { FileComparison::Same } else { FileComparison::OtherMode });
            }
        }
        Some(_) => {}
    }
    Ok(FileComparison::Other(full))
}

/// Writes a temporary file and renames it over the target, even if that is a link.
pub(crate) fn write(base: &Dir, file: NewFile<'_>) -> io::Result<()> {
    let NewFile { path, bytes, executable } = file;
    let (above, name) =
        path.rsplit_once('/').map_or((None, path), |(above, leaf)| (Some(above), leaf));
    let mut folder: Option<Dir> = None;
    for part in above.iter().flat_map(|above| above.split('/')) {
        let next = folder.as_ref().unwrap_or(base).create_folder(part)?;
        folder = Some(next);
    }
    let folder = folder.as_ref().unwrap_or(base);
    let (temporary, mut file) = create_temporary(folder, executable)?;
    let written = file.write_all(bytes).and_then(|()| folder.rename(&temporary, name));
    if written.is_err() {
        // The write error matters more than an error of the cleanup.
        let _ = folder.remove_file(&temporary);
    }
    written
}

fn create_temporary(folder: &Dir, executable: bool) -> io::Result<(String, fs::File)> {
    let mut taken = io::Error::from(io::ErrorKind::AlreadyExists);
    for attempt in 0..ATTEMPTS {
        let name = format!(".skills-{}-{attempt}", std::process::id());
        match folder.create_file(&name, executable) {
            Ok(file) => return Ok((name, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => taken = error,
            Err(error) => return Err(error),
        }
    }
    Err(taken)
}

/// Removes a file and the folders that become empty. A missing file is not an error.
pub(crate) fn remove(base: &Dir, path: &str) -> Result<(), BundleError> {
    let Parent::Folder(folder, name) = parent(base, path)? else { return Ok(()) };
    let here = folder.as_ref().unwrap_or(base);
    match here.remove_file(name) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            return Err(BundleError::Unwritable { path: here.path().join(name), source });
        }
        _ => {}
    }
    let mut above = path.rsplit_once('/').map(|(above, _)| above);
    while let Some(folder) = above {
        let Ok(Parent::Folder(parent, name)) = parent(base, folder) else { break };
        // Not empty.
        if parent.as_ref().unwrap_or(base).remove_folder(name).is_err() {
            break;
        }
        above = folder.rsplit_once('/').map(|(above, _)| above);
    }
    Ok(())
}
