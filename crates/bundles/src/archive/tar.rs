//! Compressed tape archives.

use std::{io, path::PathBuf};

use flate2::bufread::MultiGzDecoder;
use tar::{Archive, EntryType};

use super::{ArchiveError, MAX_ENTRIES, MAX_UNPACKED_BYTES, Metered, checked, failed, held};
use crate::{candidate::Source, layout::Entry};

pub(super) fn unpack(file: impl io::BufRead) -> Result<Vec<Entry>, ArchiveError> {
    let mut left = MAX_UNPACKED_BYTES;
    // Heads, names and padding count too: whatever comes out of the decoder.
    let mut archive = Archive::new(Metered { inner: MultiGzDecoder::new(file), left: &mut left });
    let mut entries = Vec::new();
    let mut count = 0;
    for entry in archive.entries().map_err(|error| failed(&error))? {
        let entry = entry.map_err(|error| failed(&error))?;
        count += 1;
        if count > MAX_ENTRIES {
            return Err(ArchiveError::TooManyEntries);
        }
        let kind = entry.header().entry_type();
        // What `git archive` says of the commit.
        if kind == EntryType::XGlobalHeader {
            continue;
        }
        let Some(path) = checked(&entry.path_bytes())? else { continue };
        let source = match kind {
            EntryType::Directory => continue,
            EntryType::Regular | EntryType::Continuous => {
                held(entry).map_err(|error| failed(&error))?
            }
            EntryType::Symlink | EntryType::Link => Source::Link,
            _ => Source::Special,
        };
        entries.push(Entry { path: PathBuf::from(path.as_str()), source });
    }
    Ok(entries)
}
