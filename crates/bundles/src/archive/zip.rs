//! Zip archives.

use std::{cell::Cell, io, path::PathBuf, rc::Rc};

use zip::ZipArchive;

use super::{
    ArchiveError, LimitedReader, MAX_ENTRIES, MAX_UNPACKED_BYTES, check_entry_path, map_read_error,
    read_file,
};
use crate::{
    dir::is_executable,
    layout::{FileEntry, is_document_name},
    source::Source,
};

/// Bits of a Unix mode that hold the file type.
const KIND: u32 = 0o170_000;
const REGULAR: u32 = 0o100_000;
const LINK: u32 = 0o120_000;

/// Most bytes that are read to list an archive. Its directory is loaded into memory as a whole, before its entries
/// can be counted.
const MAX_DIRECTORY_BYTES: u64 = 16 << 20;

/// Reader that fails after a number of bytes, and can seek.
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

/// Returns the target of a link, which is the content of its entry.
fn link_target(content: &Source) -> Option<PathBuf> {
    match content {
        Source::InMemory { bytes, .. } => std::str::from_utf8(bytes).ok().map(PathBuf::from),
        _ => None,
    }
}

pub(super) fn unpack(file: impl io::Read + io::Seek) -> Result<Vec<FileEntry>, ArchiveError> {
    let damaged = |error: zip::result::ZipError| ArchiveError::Damaged(error.to_string());
    let left = Rc::new(Cell::new(MAX_DIRECTORY_BYTES));
    let opened = ZipArchive::new(Bounded { inner: file, left: Rc::clone(&left) });
    let mut archive = opened.map_err(|error| match left.get() {
        0 => ArchiveError::Damaged("it has no table of contents, or too large a one".to_owned()),
        _ => damaged(error),
    })?;
    // Unpacked bytes are counted below.
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
        let Some(path) = check_entry_path(name.as_bytes())? else { continue };
        if entry.is_dir() {
            continue;
        }
        let path = PathBuf::from(path.as_str());
        let mode = entry.unix_mode();
        let mut read = |entry| {
            let reader = LimitedReader { inner: entry, left: &mut left };
            read_file(reader, mode.map(is_executable)).map_err(|error| map_read_error(&error))
        };
        let source = match mode.unwrap_or_default() & KIND {
            0 | REGULAR => read(entry)?,
            LINK if path.file_name().is_some_and(is_document_name) => {
                Source::Link(link_target(&read(entry)?))
            }
            LINK => Source::Link(None),
            _ => Source::Special,
        };
        entries.push(FileEntry { path, source });
    }
    Ok(entries)
}
