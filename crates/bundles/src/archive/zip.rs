//! Zip archives.

use std::{cell::Cell, io, path::PathBuf, rc::Rc};

use zip::ZipArchive;

use super::{ArchiveError, MAX_ENTRIES, MAX_UNPACKED_BYTES, Metered, checked, failed, held};
use crate::{candidate::Source, layout::Entry};

/// The part of a mode that tells what kind of file it is.
const KIND: u32 = 0o170_000;
const REGULAR: u32 = 0o100_000;
const LINK: u32 = 0o120_000;

/// Most that is read of an archive to learn what is in it. Its directory is taken into memory as a whole, before
/// anybody can count its entries.
const MAX_DIRECTORY_BYTES: u64 = 16 << 20;

/// Reads until there was too much.
struct Bounded<R> {
    inner: R,
    left: Rc<Cell<u64>>,
}

impl<R: io::Read> io::Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        let left = self.left.get().checked_sub(count as u64);
        self.left.set(left.unwrap_or_default());
        left.map(|_| count).ok_or_else(|| io::Error::from(io::ErrorKind::FileTooLarge))
    }
}

impl<R: io::Seek> io::Seek for Bounded<R> {
    fn seek(&mut self, to: io::SeekFrom) -> io::Result<u64> {
        self.inner.seek(to)
    }
}

pub(super) fn unpack(file: impl io::Read + io::Seek) -> Result<Vec<Entry>, ArchiveError> {
    let damaged = |error: zip::result::ZipError| ArchiveError::Damaged(error.to_string());
    let left = Rc::new(Cell::new(MAX_DIRECTORY_BYTES));
    let opened = ZipArchive::new(Bounded { inner: file, left: Rc::clone(&left) });
    let mut archive = opened.map_err(|error| match left.get() {
        0 => ArchiveError::Damaged("it has no table of contents, or too large a one".to_owned()),
        _ => damaged(error),
    })?;
    // What comes out of it is counted below.
    left.set(u64::MAX);
    if archive.len() > MAX_ENTRIES {
        return Err(ArchiveError::TooManyEntries);
    }
    if archive.has_duplicate_names() {
        return Err(ArchiveError::Duplicate);
    }
    let mut left = MAX_UNPACKED_BYTES;
    let mut entries = Vec::new();
    for at in 0..archive.len() {
        let entry = archive.by_index(at).map_err(damaged)?;
        let name = entry.name().map_err(damaged)?;
        let Some(path) = checked(name.as_bytes())? else { continue };
        if entry.is_dir() {
            continue;
        }
        let source = match entry.unix_mode().unwrap_or_default() & KIND {
            0 | REGULAR => {
                held(Metered { inner: entry, left: &mut left }).map_err(|error| failed(&error))?
            }
            LINK => Source::Link,
            _ => Source::Special,
        };
        entries.push(Entry { path: PathBuf::from(path.as_str()), source });
    }
    Ok(entries)
}
