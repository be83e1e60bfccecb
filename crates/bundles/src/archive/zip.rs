//! Zip archives.

use std::{cell::Cell, io, path::PathBuf, rc::Rc};

use zip::ZipArchive;

use super::{
    ArchiveError, MAX_ENTRIES, check_entry_path, link_target,
    meter::{Meter, MeteredReader},
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
/// Memory of a byte of the directory: each four bytes may be an attribute of an entry.
const DIRECTORY_MEMORY: usize = 32;

/// Reader of the directory, which fails after a number of bytes and reserves memory for them, and of entries, whose bytes
/// are counted after they are unpacked.
struct ZipReader<'a, 'w, R> {
    inner: R,
    meter: &'a Meter<'w>,
    /// Bytes that may still be read of the directory; `None` after it.
    left: Rc<Cell<Option<u64>>>,
}

impl<R: io::Read> io::Read for ZipReader<'_, '_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        if let Some(left) = self.left.get() {
            let left = left.checked_sub(count as u64);
            self.left.set(Some(left.unwrap_or_default()));
            left.ok_or_else(|| io::Error::from(io::ErrorKind::FileTooLarge))?;
            self.meter.reserve(count * DIRECTORY_MEMORY)?;
        }
        Ok(count)
    }
}

impl<R: io::Seek> io::Seek for ZipReader<'_, '_, R> {
    fn seek(&mut self, to: io::SeekFrom) -> io::Result<u64> {
        self.inner.seek(to)
    }
}

/// Returns the target of a link, which is the content of its entry.
fn content_target(content: &Source) -> Option<PathBuf> {
    match content {
        Source::InMemory { bytes, .. } => {
            link_target(PathBuf::from(std::str::from_utf8(bytes).ok()?))
        }
        _ => None,
    }
}

pub(super) fn unpack(
    file: impl io::Read + io::Seek,
    meter: &Meter<'_>,
) -> Result<Vec<FileEntry>, ArchiveError> {
    let damaged = |error: zip::result::ZipError| match error {
        zip::result::ZipError::Io(error) => meter.error(&error),
        error => meter.error(&io::Error::other(error)),
    };
    let failed = |error: io::Error| meter.error(&error);
    let left = Rc::new(Cell::new(Some(MAX_DIRECTORY_BYTES)));
    let opened = ZipArchive::new(ZipReader { inner: file, meter, left: Rc::clone(&left) });
    let mut archive = opened.map_err(|error| match left.get() {
        Some(0) => {
            ArchiveError::Damaged("it has no table of contents, or too large a one".to_owned())
        }
        _ => damaged(error),
    })?;
    left.set(None);
    if archive.len() > MAX_ENTRIES {
        return Err(ArchiveError::TooManyEntries);
    }
    if archive.has_duplicate_names() {
        return Err(ArchiveError::Duplicate);
    }
    // Bytes that many entries share unpack to more than any archive of this size needs.
    if archive.has_overlapping_entries().map_err(damaged)? {
        return Err(ArchiveError::Overlap);
    }
    let mut entries = Vec::new();
    for at in 0..archive.len() {
        let entry = archive.by_index(at).map_err(damaged)?;
        let name = entry.name().map_err(damaged)?;
        let Some(path) = check_entry_path(name.as_bytes())? else { continue };
        if entry.is_dir() {
            continue;
        }
        let path = PathBuf::from(path.as_str());
        let (mode, size) = (entry.unix_mode(), entry.size());
        let read = |entry, size| {
            let reader = MeteredReader { inner: entry, meter };
            meter.read_file(reader, size, mode.map(is_executable)).map_err(failed)
        };
        let source = match mode.unwrap_or_default() & KIND {
            0 | REGULAR => read(entry, size)?,
            LINK if path.file_name().is_some_and(is_document_name) => {
                Source::Link(content_target(&read(entry, size)?))
            }
            LINK => Source::Link(None),
            _ => Source::Special,
        };
        meter.reserve_entry(&path).map_err(failed)?;
        entries.push(FileEntry { path, source });
    }
    Ok(entries)
}
