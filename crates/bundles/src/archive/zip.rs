//! Zip archives.

use std::{io, path::PathBuf};

use zip::ZipArchive;

use super::{ArchiveError, MAX_ENTRIES, MAX_UNPACKED_BYTES, Metered, checked, failed, held};
use crate::{candidate::Source, layout::Entry};

/// The part of a mode that tells what kind of file it is.
const KIND: u32 = 0o170_000;
const REGULAR: u32 = 0o100_000;
const LINK: u32 = 0o120_000;

pub(super) fn unpack(file: impl io::Read + io::Seek) -> Result<Vec<Entry>, ArchiveError> {
    let damaged = |error: zip::result::ZipError| ArchiveError::Damaged(error.to_string());
    let mut archive = ZipArchive::new(file).map_err(damaged)?;
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
