//! Detection of archives by their content. A name may be wrong, and a tar archive of text could pass for a document.

use std::{
    io::{self, Read, Seek},
    path::Path,
};

/// Bytes that are read to detect a format.
const SNIFFED_BYTES: usize = 8 << 10;
/// Size of a tar header, and the place of its checksum in it.
const TAR_HEADER_BYTES: usize = 512;
const TAR_CHECKSUM: std::ops::Range<usize> = 148..156;
/// Endings of archive names.
const ENDINGS: [&str; 7] = [".tar.gz", ".tgz", ".tar.zst", ".tzst", ".tar", ".zip", ".skill"];

/// Supported archive formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ArchiveFormat {
    Tar,
    TarGz,
    TarZst,
    Zip,
}

/// Format of a file that may hold bundles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileFormat {
    Archive(ArchiveFormat),
    /// Text, and its name is not that of an archive.
    Text,
    Unknown,
}

impl FileFormat {
    /// Detects the format of a file by its first bytes, and rewinds it.
    pub(crate) fn detect(file: &mut (impl Read + Seek), path: &Path) -> io::Result<Self> {
        let mut head = Vec::with_capacity(SNIFFED_BYTES);
        file.by_ref().take(SNIFFED_BYTES as u64).read_to_end(&mut head)?;
        file.rewind()?;
        Ok(match Self::of_bytes(&head) {
            Self::Text if split_ending(path).is_some() => Self::Unknown,
            format => format,
        })
    }

    fn of_bytes(head: &[u8]) -> Self {
        if head.starts_with(b"\x1f\x8b") {
            return Self::Archive(ArchiveFormat::TarGz);
        }
        if head.starts_with(b"\x28\xb5\x2f\xfd") {
            return Self::Archive(ArchiveFormat::TarZst);
        }
        // An empty archive begins with the end of its directory.
        if head.starts_with(b"PK\x03\x04") || head.starts_with(b"PK\x05\x06") {
            return Self::Archive(ArchiveFormat::Zip);
        }
        if is_tar_header(head) {
            return Self::Archive(ArchiveFormat::Tar);
        }
        // Text of another encoding is refused with the place of its first invalid byte when it is read.
        if head.contains(&0) { Self::Unknown } else { Self::Text }
    }
}

/// Returns whether bytes begin with a tar header, which has a checksum in octal digits.
fn is_tar_header(head: &[u8]) -> bool {
    let Some(header) = head.get(..TAR_HEADER_BYTES) else { return false };
    let stored = String::from_utf8_lossy(&header[TAR_CHECKSUM]);
    let stored = u32::from_str_radix(stored.trim_matches([' ', '\0']), 8).ok();
    let sum = header.iter().enumerate().map(|(at, byte)| {
        // The checksum is computed with spaces in its own place.
        u32::from(if TAR_CHECKSUM.contains(&at) { b' ' } else { *byte })
    });
    stored.is_some_and(|stored| stored == sum.sum::<u32>())
}

/// Returns the name of an archive without its ending.
pub(crate) fn name(path: &Path) -> Option<&str> {
    split_ending(path).or_else(|| path.file_stem()?.to_str())
}

fn split_ending(path: &Path) -> Option<&str> {
    let name = path.file_name()?.to_str()?;
    ENDINGS.iter().find_map(|ending| {
        let at = name.len().checked_sub(ending.len())?;
        let matches = name.is_char_boundary(at) && name[at..].eq_ignore_ascii_case(ending);
        matches.then(|| &name[..at])
    })
}

/// Returns whether the name of a file is that of an archive.
#[must_use]
pub fn is_archive_name(path: &Path) -> bool {
    split_ending(path).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_detected_by_content() {
        let mut header = tar::Header::new_gnu();
        header.set_path("a").unwrap();
        header.set_size(0);
        header.set_cksum();
        let mut damaged = header.as_bytes().to_vec();
        damaged[0] = b'b';
        for (bytes, expected) in [
            (b"PK\x03\x04rest" as &[u8], FileFormat::Archive(ArchiveFormat::Zip)),
            (b"\x1f\x8b\x08", FileFormat::Archive(ArchiveFormat::TarGz)),
            (b"\x28\xb5\x2f\xfd\x04", FileFormat::Archive(ArchiveFormat::TarZst)),
            (header.as_bytes(), FileFormat::Archive(ArchiveFormat::Tar)),
            (&damaged, FileFormat::Unknown),
            (b"# Text\n", FileFormat::Text),
            (b"", FileFormat::Text),
            (b"a\xc3", FileFormat::Text),
            (b"7z\xbc\xaf\x27\x1c\0\x04", FileFormat::Unknown),
            (b"a\0b", FileFormat::Unknown),
        ] {
            assert_eq!(FileFormat::of_bytes(bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn the_name_of_an_archive_has_no_ending() {
        for (path, expected) in [
            ("a/pdf.tar.gz", "pdf"),
            ("pdf.TGZ", "pdf"),
            ("pdf.tar.zst", "pdf"),
            ("pdf.tar", "pdf"),
            ("pdf.skill", "pdf"),
            ("\u{e9}.zip", "\u{e9}"),
            ("download", "download"),
        ] {
            assert_eq!(name(Path::new(path)), Some(expected), "{path}");
        }
        assert!(!is_archive_name(Path::new("pdf.md")) && is_archive_name(Path::new("x/a.skill")));
    }
}
