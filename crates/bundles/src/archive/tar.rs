//! Tape archives.

use std::{io, path::PathBuf};

use tar::{Archive, EntryType};

use super::{
    ArchiveError, LimitedReader, MAX_ENTRIES, MAX_UNPACKED_BYTES, check_entry_path, map_read_error,
    read_file,
};
use crate::{
    dir::is_executable,
    layout::{FileEntry, is_document_name},
    source::Source,
};

pub(super) fn unpack(reader: impl io::Read) -> Result<Vec<FileEntry>, ArchiveError> {
    let mut left = MAX_UNPACKED_BYTES;
    // Headers and padding count too.
    let mut archive = Archive::new(LimitedReader { inner: reader, left: &mut left });
    let mut entries = Vec::new();
    let mut count = 0;
    for entry in archive.entries().map_err(|error| map_read_error(&error))? {
        let entry = entry.map_err(|error| map_read_error(&error))?;
        count += 1;
        if count > MAX_ENTRIES {
            return Err(ArchiveError::TooManyEntries);
        }
        let kind = entry.header().entry_type();
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
                read_file(entry, executable).map_err(|error| map_read_error(&error))?
            }
            EntryType::Symlink if path.file_name().is_some_and(is_document_name) => {
                Source::Link(entry.link_name().ok().flatten().map(|target| target.into_owned()))
            }
            EntryType::Symlink | EntryType::Link => Source::Link(None),
            _ => Source::Special,
        };
        entries.push(FileEntry { path, source });
    }
    // The checksum of a compressed archive follows its last byte.
    io::copy(&mut archive.into_inner(), &mut io::sink()).map_err(|error| map_read_error(&error))?;
    Ok(entries)
}
