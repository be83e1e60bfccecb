//! Archives, which may be malicious.
//!
//! Nothing is written to disk here, and no size that an archive declares is trusted: bytes are counted while
//! unpacking, and their memory is reserved before it is used (`meter`). A path that leads outside makes the whole archive
//! unusable. A link, a special file or an oversized file does so only for the bundle it is in.

mod format;
mod meter;
mod tar;
mod zip;
mod zstd;

use std::{
    io::{self, Read, Seek, SeekFrom},
    path::PathBuf,
};

use flate2::bufread::MultiGzDecoder;
use skills_core::{
    BundlePath, Code, Coded, RuleError, RunningWork, WorkError,
    limits::{MAX_BUNDLE_BYTES, MAX_PATH_BYTES},
};

pub use self::format::is_archive_name;
pub(crate) use self::format::{ArchiveFormat, FileFormat, name};
use self::meter::{Meter, StoppableReader};
use crate::{ignored::is_ignored_path, layout::FileEntry};

/// Most entries of an archive, folders among them.
pub const MAX_ENTRIES: usize = 65_536;
/// Most bytes that an archive may unpack to.
pub const MAX_UNPACKED_BYTES: u64 = 256 << 20;

/// Most bytes that an archive of one bundle may unpack to: the bundle, and as much beside it.
pub const MAX_BUNDLE_ARCHIVE_BYTES: u64 = 2 * MAX_BUNDLE_BYTES as u64;

/// Memory of decoders and buffers.
const DECODER_BYTES: usize = 512 << 10;

/// Error of reading an archive.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The archive cannot be read to its end.
    #[error("the archive cannot be read: {0}")]
    Damaged(String),
    /// The archive unpacks to too much.
    #[error("the archive unpacks to more than {max} bytes")]
    TooLarge {
        /// Limit in bytes.
        max: u64,
    },
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
    /// Two entries share bytes of the archive.
    #[error("the archive holds entries that overlap")]
    Overlap,
    /// There is no memory or time left for it.
    #[error(transparent)]
    Work(#[from] WorkError),
}

impl Coded for ArchiveError {
    fn code(&self) -> Code {
        match self {
            Self::Damaged(_) | Self::Overlap => Code::BadArchive,
            Self::TooLarge { .. } | Self::TooManyEntries => Code::TooLarge,
            Self::Path(_) | Self::Name(_) | Self::Duplicate => Code::InvalidPath,
            Self::Work(WorkError::OverBudget(_) | WorkError::Busy) => Code::Overloaded,
            Self::Work(WorkError::Panicked(_)) => Code::Internal,
        }
    }
}

/// Unpacks all files of an archive that could belong to a bundle. Their memory stays reserved for the work.
pub(crate) fn unpack(
    mut file: impl Read + Seek,
    format: ArchiveFormat,
    max_bytes: u64,
    work: &mut RunningWork,
) -> Result<Vec<FileEntry>, ArchiveError> {
    work.try_grow(DECODER_BYTES)?;
    let damaged = |error: io::Error| ArchiveError::Damaged(error.to_string());
    if file.seek(SeekFrom::End(0)).map_err(damaged)? > max_bytes {
        return Err(ArchiveError::TooLarge { max: max_bytes });
    }
    file.rewind().map_err(damaged)?;
    let meter = Meter::new(max_bytes, work);
    let file = io::BufReader::new(StoppableReader { inner: file, meter: &meter });
    match format {
        ArchiveFormat::Tar => tar::unpack(file, &meter),
        ArchiveFormat::TarGz => tar::unpack(MultiGzDecoder::new(file), &meter),
        ArchiveFormat::TarZst => tar::unpack(zstd::ZstdReader::new(file, &meter), &meter),
        ArchiveFormat::Zip => zip::unpack(file, &meter),
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

/// Returns the target of a link if it could be the path of a file of the archive.
fn link_target(target: PathBuf) -> Option<PathBuf> {
    Some(target).filter(|target| target.as_os_str().len() <= MAX_PATH_BYTES)
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
