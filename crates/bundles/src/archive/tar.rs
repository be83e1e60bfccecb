//! Tape archives.

use std::{io, path::PathBuf};

use tar::{Archive, EntryType};

use super::{
    ArchiveError, MAX_ENTRIES, check_entry_path, link_target,
    meter::{Meter, MeteredReader},
};
use crate::{
    dir::is_executable,
    layout::{FileEntry, is_document_name},
    source::Source,
};

/// Most bytes of what describes one entry: its header, its long names and its extended attributes. The parser loads them
/// into memory as a whole.
const MAX_HEADER_BYTES: u64 = 1 << 20;
/// Memory of that: a buffer that grows has up to twice the bytes.
const HEADER_MEMORY: usize = 2 << 20;

pub(super) fn unpack(
    reader: impl io::Read,
    meter: &Meter<'_>,
) -> Result<Vec<FileEntry>, ArchiveError> {
    let failed = |error: io::Error| meter.error(&error);
    meter.reserve(HEADER_MEMORY).map_err(failed)?;
    // Headers and padding count too.
    let mut archive = Archive::new(MeteredReader { inner: reader, meter });
    let mut stream = archive.entries().map_err(failed)?;
    let mut entries = Vec::new();
    let mut count = 0;
    // Bytes of an entry that are skipped on the way to the next one.
    let mut unread = 0_u64;
    loop {
        let max = MAX_HEADER_BYTES.saturating_add(unread);
        let Some(entry) = meter.read_header(max, || stream.next()) else { break };
        let entry = entry.map_err(failed)?;
        count += 1;
        if count > MAX_ENTRIES {
            return Err(ArchiveError::TooManyEntries);
        }
        let kind = entry.header().entry_type();
        // The holes of a sparse file are not in the archive.
        let stored = entry.header().entry_size().unwrap_or_default();
        unread = if kind == EntryType::GNUSparse { stored } else { entry.size() };
        // Commit id that `git archive` adds.
        if kind == EntryType::XGlobalHeader {
            continue;
        }
        let Some(path) = check_entry_path(&entry.path_bytes())? else { continue };
        let path = PathBuf::from(path.as_str());
        let source = match kind {
            EntryType::Directory => continue,
            EntryType::Regular | EntryType::Continuous => {
                let executable = entry.header().mode().ok().map(is_executable);
                let size = std::mem::take(&mut unread);
                meter.read_file(entry, size, executable).map_err(failed)?
            }
            EntryType::Symlink if path.file_name().is_some_and(is_document_name) => {
                let target = entry.link_name().ok().flatten();
                Source::Link(target.and_then(|target| link_target(target.into_owned())))
            }
            EntryType::Symlink | EntryType::Link => Source::Link(None),
            _ => Source::Special,
        };
        meter.reserve_entry(&path).map_err(failed)?;
        entries.push(FileEntry { path, source });
    }
    // The checksum of a compressed archive follows its last byte.
    io::copy(&mut archive.into_inner(), &mut io::sink()).map_err(failed)?;
    meter.release(HEADER_MEMORY);
    Ok(entries)
}
