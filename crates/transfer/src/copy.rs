//! Copies from any source to any sink.

use crate::{Table, TableSink, TableSource, TransferError, Value, check_blob};

/// Rows that are written at once, unless they have more bytes than [`PAGE_BYTES`].
const PAGE_ROWS: usize = 500;
const PAGE_BYTES: usize = 4 << 20;

/// Progress of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyProgress {
    /// Table that is being copied.
    pub table: &'static str,
    /// Rows of it that were copied.
    pub rows: u64,
}

/// Function that is told of progress after each page. Its error ends the copy.
pub type OnProgress<'a> = &'a mut dyn FnMut(CopyProgress) -> Result<(), TransferError>;

/// Result of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CopyReport {
    /// Rows of all tables.
    pub rows: u64,
    /// Blobs, each compared with its digest.
    pub blobs: u64,
    /// Bytes of the blobs.
    pub bytes: u64,
    /// Newest revision of the log.
    pub revision: u64,
}

/// Copies tables, and checks that each blob has its digest. Adds to the report.
///
/// # Errors
/// Those of source, sink and `progress`, and [`TransferError::BlobDiffers`].
pub fn copy_tables(
    tables: &[Table],
    source: &mut dyn TableSource,
    sink: &mut dyn TableSink,
    report: &mut CopyReport,
    progress: OnProgress<'_>,
) -> Result<(), TransferError> {
    for table in tables {
        let (mut page, mut page_bytes, mut rows) = (vec![], 0, 0);
        source.for_each(table, &mut |row| {
            if row.len() != table.columns.len() {
                let name = table.name;
                return Err(TransferError::Unreadable(format!(
                    "a row of {name} has other columns"
                )));
            }
            if table.is_blobs() {
                let (_, bytes) = check_blob(&row)?;
                report.blobs += 1;
                report.bytes += bytes.len() as u64;
            }
            if let ("change", Some(Value::Number(revision))) = (table.name, row.first()) {
                report.revision = report.revision.max(u64::try_from(*revision).unwrap_or(0));
            }
            page_bytes += row.iter().map(Value::bytes).sum::<usize>();
            rows += 1;
            page.push(row);
            if page.len() >= PAGE_ROWS || page_bytes >= PAGE_BYTES {
                sink.insert(table, std::mem::take(&mut page))?;
                page_bytes = 0;
                progress(CopyProgress { table: table.name, rows })?;
            }
            Ok(())
        })?;
        if !page.is_empty() {
            sink.insert(table, page)?;
        }
        progress(CopyProgress { table: table.name, rows })?;
        report.rows += rows;
    }
    Ok(())
}
