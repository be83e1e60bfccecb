//! Writer of archives.

use std::io::{self, Write};

use flate2::{Compression, write::GzEncoder};
use skills_core::Digest;

use super::{
    ArchiveEnd, ArchiveHeader, END, HEADER, MAX_PART_BYTES,
    part::{PartList, blob_name, header, padding, page_name},
    rows,
};
use crate::{Row, Table, TableSink, TransferError, check_blob};

/// Archive that rows are written to. It is whole when [`finish`](Self::finish) returns.
#[derive(Debug)]
pub struct ArchiveWriter<W: Write> {
    out: GzEncoder<W>,
    parts: PartList,
    /// Table that was written last, and the number of its pages.
    pages: Option<(&'static str, u64)>,
}

impl<W: Write> ArchiveWriter<W> {
    /// Begins an archive.
    ///
    /// # Errors
    /// When the output cannot be written.
    pub fn new(out: W, first: &ArchiveHeader) -> Result<Self, TransferError> {
        let out = GzEncoder::new(out, Compression::fast());
        let mut writer = Self { out, parts: PartList::new(), pages: None };
        let json = serde_json::to_vec(first).map_err(io::Error::from).map_err(write_error)?;
        writer.part(HEADER, &json, &Digest::of(&json))?;
        Ok(writer)
    }

    fn part(&mut self, name: &str, bytes: &[u8], digest: &Digest) -> Result<(), TransferError> {
        let size = bytes.len() as u64;
        let header = header(name, size).filter(|_| size <= MAX_PART_BYTES);
        let header = header
            .ok_or_else(|| TransferError::Unreadable(format!("{name} does not fit an archive")))?;
        let padding = padding(size);
        self.out
            .write_all(header.as_bytes())
            .and_then(|()| self.out.write_all(bytes))
            .and_then(|()| io::copy(&mut io::Read::take(io::repeat(0), padding), &mut self.out))
            .map_err(write_error)?;
        self.parts.push(name, size, digest);
        Ok(())
    }

    /// Ends the archive. Returns the output and the digest of the list of parts.
    ///
    /// # Errors
    /// When the output cannot be written.
    pub fn finish(mut self) -> Result<(W, String), TransferError> {
        let sha256 = self.parts.sha256();
        let end = ArchiveEnd { parts: self.parts.count, sha256: sha256.clone() };
        let json = serde_json::to_vec(&end).map_err(io::Error::from).map_err(write_error)?;
        self.part(END, &json, &Digest::of(&json))?;
        self.out.write_all(&[0; 1024]).map_err(write_error)?;
        Ok((self.out.finish().map_err(write_error)?, sha256))
    }

    fn page_number(&mut self, table: &Table) -> u64 {
        let number = match self.pages {
            Some((name, number)) if name == table.name => number + 1,
            _ => 1,
        };
        self.pages = Some((table.name, number));
        number
    }
}

impl<W: Write> TableSink for ArchiveWriter<W> {
    fn insert(&mut self, table: &Table, rows: Vec<Row>) -> Result<(), TransferError> {
        if table.is_blobs() {
            for row in rows {
                let (digest, bytes) = check_blob(&row)?;
                self.part(&blob_name(table, &digest), bytes, &digest)?;
            }
            return Ok(());
        }
        let mut page = String::new();
        for row in &rows {
            page.push_str(&rows::encode(row)?);
        }
        let digest = Digest::of(page.as_bytes());
        let name = page_name(table, self.page_number(table), &digest);
        self.part(&name, page.as_bytes(), &digest)
    }
}

fn write_error(source: io::Error) -> TransferError {
    TransferError::Io { action: "write", path: "the archive".to_owned(), source }
}
