//! Archives: somebody else made them, perhaps to do harm.
//!
//! Nothing is ever written to disk from here, and no size that an archive declares is believed: bytes are counted
//! as they come out. Paths that lead outside make the whole archive unusable; a link, a special file or a file
//! that no bundle could hold does so only for the bundle it is in.

mod tar;
mod zip;

use std::{
    fs,
    io::{self, Read},
    path::Path,
};

use bytes::Bytes;
use skills_core::{BundlePath, RuleError, limits::MAX_BUNDLE_BYTES};

use crate::{candidate::Source, find::is_skipped, layout::Entry};

/// Most entries of an archive, folders among them.
pub const MAX_ENTRIES: usize = 65_536;
/// Most bytes that may come out of an archive, whatever they are.
pub const MAX_UNPACKED_BYTES: u64 = 256 << 20;

/// What macOS adds to its archives beside the files.
const RESOURCE_FORKS: &str = "__MACOSX";

/// Why an archive cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// It cannot be read to its end.
    #[error("the archive cannot be read: {0}")]
    Damaged(String),
    /// More comes out of it than allowed.
    #[error("the archive unpacks to more than {MAX_UNPACKED_BYTES} bytes")]
    TooLarge,
    /// It has more entries than allowed.
    #[error("the archive has more than {MAX_ENTRIES} entries")]
    TooManyEntries,
    /// A path that could lead outside, or that no system could take.
    #[error("the archive holds a {0}")]
    Path(RuleError),
    /// A path that is no text.
    #[error("the archive holds a path that is not UTF-8: {0:?}")]
    Name(String),
    /// Two entries have one name, so that one would hide the other.
    #[error("the archive holds two entries of one name")]
    Duplicate,
}

impl ArchiveError {
    /// A stable code for machines.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Damaged(_) => "bad_archive",
            Self::TooLarge | Self::TooManyEntries => "too_large",
            Self::Path(_) | Self::Name(_) | Self::Duplicate => "invalid_path",
        }
    }
}

/// The archives that are understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    TarGz,
    Zip,
}

impl Format {
    /// The format of an archive and its name without the ending; `None` for any other file.
    pub(crate) fn of(path: &Path) -> Option<(Self, &str)> {
        let name = path.file_name()?.to_str()?;
        let endings = [(".tar.gz", Self::TarGz), (".tgz", Self::TarGz), (".zip", Self::Zip)];
        endings.into_iter().find_map(|(ending, format)| {
            let at = name.len().checked_sub(ending.len())?;
            let matches = name.is_char_boundary(at) && name[at..].eq_ignore_ascii_case(ending);
            matches.then(|| (format, &name[..at]))
        })
    }
}

/// Everything in an archive that could belong to a bundle.
pub(crate) fn unpack(path: &Path, format: Format) -> Result<Vec<Entry>, ArchiveError> {
    let damaged = |error: io::Error| ArchiveError::Damaged(error.to_string());
    let file = fs::File::open(path).map_err(damaged)?;
    if file.metadata().map_err(damaged)?.len() > MAX_UNPACKED_BYTES {
        return Err(ArchiveError::TooLarge);
    }
    let file = io::BufReader::new(file);
    match format {
        Format::TarGz => tar::unpack(file),
        Format::Zip => zip::unpack(file),
    }
}

/// The path of an entry, checked; `None` for the root itself and for what never belongs to a bundle.
fn checked(path: &[u8]) -> Result<Option<BundlePath>, ArchiveError> {
    let path = std::str::from_utf8(path)
        .map_err(|_| ArchiveError::Name(String::from_utf8_lossy(path).into_owned()))?;
    // As `tar .` writes it.
    let inner = path.strip_prefix("./").unwrap_or(path);
    let inner = inner.strip_suffix('/').unwrap_or(inner);
    if path != "/" && matches!(inner, "" | ".") {
        return Ok(None);
    }
    let checked: BundlePath = inner.parse().map_err(ArchiveError::Path)?;
    let is_foreign = |part: &str| is_skipped(part.as_ref()) || part == RESOURCE_FORKS;
    Ok((!inner.split('/').any(is_foreign)).then_some(checked))
}

/// Reads a file to its end. What no bundle could hold is counted and not kept.
fn held(mut reader: impl Read) -> io::Result<Source> {
    let mut bytes = Vec::new();
    reader.by_ref().take(MAX_BUNDLE_BYTES as u64).read_to_end(&mut bytes)?;
    Ok(match io::copy(&mut reader, &mut io::sink())? {
        0 => Source::Held(Bytes::from(bytes)),
        _ => Source::TooLarge,
    })
}

/// Passes bytes on until there were too many.
struct Metered<'a, R> {
    inner: R,
    left: &'a mut u64,
}

impl<R: Read> Read for Metered<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        match self.left.checked_sub(count as u64) {
            Some(left) => {
                *self.left = left;
                Ok(count)
            }
            None => {
                *self.left = 0;
                Err(io::Error::from(io::ErrorKind::FileTooLarge))
            }
        }
    }
}

/// What reading failed with: the meter, or the archive.
fn failed(error: &io::Error) -> ArchiveError {
    match error.kind() {
        io::ErrorKind::FileTooLarge => ArchiveError::TooLarge,
        _ => ArchiveError::Damaged(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archives_are_known_by_their_names() {
        for (path, known) in [
            ("a/pdf.tar.gz", Some((Format::TarGz, "pdf"))),
            ("pdf.TGZ", Some((Format::TarGz, "pdf"))),
            ("é.zip", Some((Format::Zip, "é"))),
            ("pdf.gz", None),
            ("é", None),
            ("pdf.md", None),
        ] {
            assert_eq!(Format::of(Path::new(path)), known, "{path}");
        }
    }

    #[test]
    fn paths_are_checked_before_anything_is_done_with_them() {
        let path = |path: &str| {
            let found = checked(path.as_bytes()).map_err(|error| error.to_string());
            found.map(|found| found.map(|path| path.to_string()))
        };
        assert_eq!(path("./a/b"), Ok(Some("a/b".to_owned())));
        assert_eq!(path("a/"), Ok(Some("a".to_owned())));
        for skipped in [".", "./", "a/.git/config", "node_modules/x", "__MACOSX/a"] {
            assert_eq!(path(skipped), Ok(None), "{skipped}");
        }
        for evil in
            ["../a", "a/../../b", "/etc/passwd", "/", "a\\b", "C:\\x", "a\0b", "a//b", "./../a"]
        {
            assert!(path(evil).is_err(), "{evil:?}");
        }
        assert!(checked(b"a\xff").is_err());
    }
}
