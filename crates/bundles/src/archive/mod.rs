//! Archives, which may be malicious.
//!
//! Nothing is written to disk here, and no size that an archive declares is trusted: bytes are counted while
//! unpacking. A path that leads outside makes the whole archive unusable. A link, a special file or an oversized file
//! does so only for the bundle it is in.

mod format;
mod tar;
mod zip;
mod zstd;

use std::{
    fs::File,
    io::{self, Read},
};

use bytes::Bytes;
use flate2::bufread::MultiGzDecoder;
use skills_core::{BundlePath, Code, Coded, RuleError, limits::MAX_BUNDLE_BYTES};

pub use self::format::is_archive_name;
pub(crate) use self::format::{ArchiveFormat, FileFormat, name};
use crate::{ignored::is_ignored_path, layout::FileEntry, source::Source};

/// Most entries of an archive, folders among them.
pub const MAX_ENTRIES: usize = 65_536;
/// Most bytes that an archive may unpack to.
pub const MAX_UNPACKED_BYTES: u64 = 256 << 20;

/// Error of reading an archive.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The archive cannot be read to its end.
    #[error("the archive cannot be read: {0}")]
    Damaged(String),
    /// The archive unpacks to too much.
    #[error("the archive unpacks to more than {MAX_UNPACKED_BYTES} bytes")]
    TooLarge,
    /// The archive has too many entries.
    #[error("the archive has more than {MAX_ENTRIES} entries")]
    TooManyEntries,
    /// A path leads outside or is invalid.
    #[error("the archive holds a {0}")]
    Path(RuleError),
    /// A path is not UTF-8.
    #[error("the archive holds a path that is not UTF-8: {0:?}")]
    Name(String),
    /// Two entries have the same name.
    #[error("the archive holds two entries of one name")]
    Duplicate,
}

impl Coded for ArchiveError {
    fn code(&self) -> Code {
        match self {
            Self::Damaged(_) => Code::BadArchive,
            Self::TooLarge | Self::TooManyEntries => Code::TooLarge,
            Self::Path(_) | Self::Name(_) | Self::Duplicate => Code::InvalidPath,
        }
    }
}

/// Unpacks all files of an archive that could belong to a bundle.
pub(crate) fn unpack(file: File, format: ArchiveFormat) -> Result<Vec<FileEntry>, ArchiveError> {
    let damaged = |error: io::Error| ArchiveError::Damaged(error.to_string());
    if file.metadata().map_err(damaged)?.len() > MAX_UNPACKED_BYTES {
        return Err(ArchiveError::TooLarge);
    }
    let file = io::BufReader::new(file);
    match format {
        ArchiveFormat::Tar => tar::unpack(file),
        ArchiveFormat::TarGz => tar::unpack(MultiGzDecoder::new(file)),
        ArchiveFormat::TarZst => tar::unpack(zstd::ZstdReader::new(file)),
        ArchiveFormat::Zip => zip::unpack(file),
    }
}

/// Checks the path of an entry; `None` for the root itself and for ignored folders.
fn check_entry_path(path: &[u8]) -> Result<Option<BundlePath>, ArchiveError> {
    let path = std::str::from_utf8(path)
        .map_err(|_| ArchiveError::Name(String::from_utf8_lossy(path).into_owned()))?;
    // `tar .` writes such paths.
    let inner = path.strip_prefix("./").unwrap_or(path);
    let inner = inner.strip_suffix('/').unwrap_or(inner);
    if path != "/" && matches!(inner, "" | ".") {
        return Ok(None);
    }
    // Names are checked with their bundle; folders around a bundle may have any name.
    let path = BundlePath::from_stored(inner).map_err(ArchiveError::Path)?;
    Ok((!is_ignored_path(inner)).then_some(path))
}

/// Reads a file to its end. Bytes beyond the bundle limit are counted and dropped.
fn read_file(mut reader: impl Read, executable: Option<bool>) -> io::Result<Source> {
    let mut bytes = Vec::new();
    reader.by_ref().take(MAX_BUNDLE_BYTES as u64).read_to_end(&mut bytes)?;
    Ok(match io::copy(&mut reader, &mut io::sink())? {
        0 => Source::InMemory { bytes: Bytes::from(bytes), executable },
        _ => Source::TooLarge,
    })
}

/// Reader that fails after a number of bytes.
struct LimitedReader<'a, R> {
    inner: R,
    left: &'a mut u64,
}

impl<R: Read> Read for LimitedReader<'_, R> {
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

/// Maps a read error: the size limit, or a damaged archive.
fn map_read_error(error: &io::Error) -> ArchiveError {
    match error.kind() {
        io::ErrorKind::FileTooLarge => ArchiveError::TooLarge,
        _ => ArchiveError::Damaged(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_paths_are_checked() {
        let path = |path: &str| {
            let found = check_entry_path(path.as_bytes()).map_err(|error| error.to_string());
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
        assert!(check_entry_path(b"a\xff").is_err());
    }
}
