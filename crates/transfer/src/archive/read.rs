//! Reader of archives.

use std::{
    fs::File,
    io::{self, BufRead as _, BufReader, Read},
    path::Path,
};

use flate2::bufread::GzDecoder;
use serde::{Deserialize, de::DeserializeOwned};
use skills_core::Digest;
use tar::Header;

use super::{
    ArchiveEnd, ArchiveHeader, END, FORMAT, HEADER, MAX_PART_BYTES, MAX_RECORD_BYTES,
    part::{PartList, blob_name, header, padding, page_name},
    rows,
};
use crate::{Table, TableSource, TransferError, Visit, blob_row};

/// Archive that rows are read from, part by part. Each part is checked before it is passed on; whether the archive is
/// whole is known after [`finish`](TableSource::finish).
#[derive(Debug)]
pub struct ArchiveReader {
    input: GzDecoder<BufReader<File>>,
    first: ArchiveHeader,
    parts: PartList,
    /// Name and size of the next part, whose header was read.
    next: (String, u64),
}

/// Part of [`ArchiveHeader`] that every format has.
#[derive(Deserialize)]
struct FormatOnly {
    format: u64,
}

impl ArchiveReader {
    /// Opens an archive and reads its first part.
    ///
    /// # Errors
    /// [`TransferError::BadArchive`], [`TransferError::NewerArchive`], and when the file cannot be read.
    pub fn open(path: &Path) -> Result<Self, TransferError> {
        let read_error = |error| TransferError::io("read", path, error);
        // Before it is opened, which would wait for the other end of a pipe.
        if !std::fs::metadata(path).map_err(read_error)?.is_file() {
            return Err(TransferError::BadArchive("it is not a file".to_owned()));
        }
        let file = File::open(path).map_err(read_error)?;
        let first = ArchiveHeader {
            format: FORMAT,
            version: String::new(),
            created_at: String::new(),
            vault: false,
        };
        let input = GzDecoder::new(BufReader::new(file));
        let next = (String::new(), 0);
        let mut reader = Self { input, first, parts: PartList::new(), next };
        reader.next = reader.read_header()?;
        if reader.next.0 != HEADER {
            return Err(bad("it does not begin as a backup does"));
        }
        let bytes = reader.take_part(MAX_RECORD_BYTES)?;
        let FormatOnly { format } = parse(&bytes)?;
        if format > FORMAT {
            return Err(TransferError::NewerArchive { found: format, supported: FORMAT });
        }
        reader.first = parse(&bytes)?;
        reader.parts.push(HEADER, bytes.len() as u64, &Digest::of(&bytes));
        reader.next = reader.read_header()?;
        Ok(reader)
    }

    /// Returns the first part.
    #[must_use]
    pub const fn header(&self) -> &ArchiveHeader {
        &self.first
    }

    /// Reads a header, which must be in the only form that there is.
    fn read_header(&mut self) -> Result<(String, u64), TransferError> {
        let mut found = Header::new_old();
        self.read_exact(found.as_mut_bytes())?;
        let name = found.path_bytes();
        let name = std::str::from_utf8(&name).map_err(|_| bad("a name is not text"))?.to_owned();
        let size = found.size().map_err(|_| bad("a size cannot be parsed"))?;
        let expected = header(&name, size).filter(|_| size <= MAX_PART_BYTES);
        if expected.is_none_or(|expected| expected.as_bytes() != found.as_bytes()) {
            return Err(bad("a header is damaged, or not one of a backup"));
        }
        Ok((name, size))
    }

    /// Reads the bytes of the part whose header was read, and its padding.
    fn take_part(&mut self, max: u64) -> Result<Vec<u8>, TransferError> {
        let size = self.next.1;
        if size > max {
            return Err(bad("a part is too large"));
        }
        let mut bytes = vec![];
        self.input.by_ref().take(size).read_to_end(&mut bytes).map_err(|error| damage(&error))?;
        if bytes.len() as u64 != size {
            return Err(bad("it is truncated"));
        }
        let mut rest = [0; 512];
        let rest = &mut rest[..usize::try_from(padding(size)).unwrap_or_default()];
        self.read_exact(rest)?;
        if rest.iter().any(|byte| *byte != 0) {
            return Err(bad("the space after a part is not empty"));
        }
        Ok(bytes)
    }

    /// Reads a part of a table, and the header that follows. `name` is the name that it must have.
    fn take_table_part(
        &mut self,
        name: impl FnOnce(&Digest) -> String,
    ) -> Result<(Digest, Vec<u8>), TransferError> {
        let bytes = self.take_part(MAX_PART_BYTES)?;
        let digest = Digest::of(&bytes);
        if name(&digest) != self.next.0 {
            let name = &self.next.0;
            return Err(bad(&format!(
                "the part {name:?} is out of place, or its checksum differs"
            )));
        }
        self.parts.push(&self.next.0, bytes.len() as u64, &digest);
        self.next = self.read_header()?;
        Ok((digest, bytes))
    }

    fn read_exact(&mut self, buffer: &mut [u8]) -> Result<(), TransferError> {
        self.input.read_exact(buffer).map_err(|error| damage(&error))
    }
}

impl TableSource for ArchiveReader {
    fn for_each(&mut self, table: &Table, visit: Visit<'_>) -> Result<(), TransferError> {
        let prefix = format!("{}/{}/", table.part.as_str(), table.name);
        let mut number = 0;
        while self.next.0.starts_with(&prefix) {
            if table.is_blobs() {
                let (digest, bytes) = self.take_table_part(|digest| blob_name(table, digest))?;
                visit(blob_row(&digest, bytes))?;
                continue;
            }
            number += 1;
            let (_, page) = self.take_table_part(|digest| page_name(table, number, digest))?;
            let lines = page.split_inclusive(|byte| *byte == b'\n');
            lines.map(|line| rows::decode(table, line)).try_for_each(|row| visit(row?))?;
        }
        Ok(())
    }

    fn has_vault(&self) -> bool {
        self.first.vault
    }

    fn finish(&mut self) -> Result<(), TransferError> {
        if self.next.0 != END {
            let name = &self.next.0;
            return Err(bad(&format!("the part {name:?} is unknown, or out of place")));
        }
        let end: ArchiveEnd = parse(&self.take_part(MAX_RECORD_BYTES)?)?;
        if (end.parts, end.sha256) != (self.parts.count, self.parts.sha256()) {
            return Err(bad("parts are missing, or it is put together from several backups"));
        }
        let mut zeros = [0; 1024];
        self.read_exact(&mut zeros)?;
        let after = self.input.read(&mut [0]).map_err(|error| damage(&error))?;
        let file = self.input.get_mut().fill_buf().map_err(|error| damage(&error))?;
        if zeros != [0; 1024] || after != 0 || !file.is_empty() {
            return Err(bad("something follows its end"));
        }
        Ok(())
    }
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, TransferError> {
    serde_json::from_slice(bytes).map_err(|error| bad(&error.to_string()))
}

fn bad(reason: &str) -> TransferError {
    TransferError::BadArchive(reason.to_owned())
}

/// Converts an error of the decompressor.
fn damage(error: &io::Error) -> TransferError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => bad("it is truncated"),
        _ => bad(&error.to_string()),
    }
}
