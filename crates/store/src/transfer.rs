//! Copies of whole stores, row by row: from a consistent snapshot of one into an empty one, with a check of every digest.
//!
//! All databases have the same tables and columns, apart from row numbers and the form of blobs.

use skills_core::Digest;

use crate::{Store, StoreError};

/// Rows that are written at once, unless they have more bytes than [`PAGE_BYTES`].
const PAGE_ROWS: usize = 500;
const PAGE_BYTES: usize = 4 << 20;

/// Value of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Null,
    Number(i64),
    Text(String),
    Bytes(Vec<u8>),
}

impl Value {
    const fn bytes(&self) -> usize {
        match self {
            Self::Null | Self::Number(_) => 8,
            Self::Text(text) => text.len(),
            Self::Bytes(bytes) => bytes.len(),
        }
    }
}

/// Type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Number,
    /// 0 or 1, where the database has no other type for it.
    Flag,
    Text,
    Bytes,
}

/// Table as it is copied.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) name: &'static str,
    pub(crate) columns: &'static [(&'static str, Kind)],
}

use Kind::{Bytes, Flag, Number, Text};

/// Tables in an order in which rows refer to earlier ones only.
pub(crate) const TABLES: &[Table] = &[
    Table {
        name: "entry",
        columns: &[
            ("number", Number),
            ("kind", Text),
            ("tier", Text),
            ("owner", Text),
            ("id", Text),
            ("is_present", Flag),
            ("latest", Number),
            ("served", Number),
            ("kept", Number),
        ],
    },
    Table {
        name: "version",
        columns: &[
            ("entry", Number),
            ("number", Number),
            ("digest", Bytes),
            ("identity", Bytes),
            ("created_at", Number),
            ("actor", Text),
            ("registered_at", Number),
            ("revision", Number),
            ("bytes", Number),
            ("files", Number),
            ("author_version", Text),
            ("message", Text),
            ("yanked", Text),
            ("removal", Text),
            ("content", Text),
        ],
    },
    Table { name: "label", columns: &[("entry", Number), ("name", Text), ("version", Number)] },
    Table {
        name: "change",
        columns: &[
            ("revision", Number),
            ("at", Number),
            ("actor", Text),
            ("kind", Text),
            ("tier", Text),
            ("owner", Text),
            ("id", Text),
            ("action", Text),
            ("version", Number),
            ("is_new", Flag),
            ("label", Text),
            ("previous", Number),
            ("note", Text),
            ("before", Number),
            ("served", Number),
        ],
    },
    Table {
        name: "state",
        columns: &[("scope", Text), ("key", Text), ("position", Number), ("value", Text)],
    },
    Table { name: "blob", columns: &[("digest", Bytes), ("crc32", Number), ("bytes", Bytes)] },
    Table {
        name: "blob_use",
        columns: &[("digest", Bytes), ("entry", Number), ("version", Number)],
    },
];

/// Row of a table, in the order of its columns.
pub(crate) type Row = Vec<Value>;

/// Function that gets each row of a table.
pub(crate) type Visit<'a> = &'a mut dyn FnMut(Row) -> Result<(), StoreError>;

/// Snapshot that rows are read from.
pub(crate) trait TableSource {
    /// Passes all rows of a table.
    fn for_each(&self, table: &Table, visit: Visit<'_>) -> Result<(), StoreError>;
}

/// Transaction that rows are written to.
pub(crate) trait TableSink {
    /// Inserts rows of a table.
    fn insert(&mut self, table: &Table, rows: Vec<Row>) -> Result<(), StoreError>;
}

/// Progress of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyProgress {
    /// Table that is being copied.
    pub table: &'static str,
    /// Rows of it that were copied.
    pub rows: u64,
}

/// Result of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CopyReport {
    /// Rows of all tables.
    pub rows: u64,
    /// Blobs, each read back and compared with its digest.
    pub blobs: u64,
    /// Bytes of the blobs.
    pub bytes: u64,
    /// Revision of the copy.
    pub revision: u64,
}

/// Copies all tables into a transaction. Returns the report and the digests of the blobs.
fn copy_tables(
    source: &dyn TableSource,
    sink: &mut dyn TableSink,
    progress: &mut dyn FnMut(CopyProgress),
) -> Result<(CopyReport, Vec<Digest>), StoreError> {
    let (mut report, mut digests) = (CopyReport::default(), vec![]);
    for table in TABLES {
        let (mut page, mut page_bytes, mut rows) = (vec![], 0, 0);
        source.for_each(table, &mut |row| {
            if let ("blob", [Value::Bytes(digest), _, Value::Bytes(bytes)]) = (table.name, &*row)
                && let Ok(digest) = <[u8; 32]>::try_from(digest.as_slice())
            {
                digests.push(Digest::from_bytes(digest));
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
                progress(CopyProgress { table: table.name, rows });
            }
            Ok(())
        })?;
        if !page.is_empty() {
            sink.insert(table, page)?;
        }
        progress(CopyProgress { table: table.name, rows });
        report.rows += rows;
    }
    report.blobs = digests.len() as u64;
    Ok((report, digests))
}

/// Reads every blob of a copy back and compares it with its digest.
fn verify(store: &dyn CopyDestination, digests: &[Digest]) -> Result<(), StoreError> {
    for digest in digests {
        let found = store.blob(digest)?.map(|bytes| Digest::of(&bytes));
        if found != Some(*digest) {
            return Err(StoreError::NotCopied { digest: *digest });
        }
    }
    Ok(())
}

/// Checks that a store has neither changes nor state.
pub(crate) fn require_empty(store: &dyn Store) -> Result<(), StoreError> {
    if store.revision()? > 0 || !store.state_scopes()?.is_empty() {
        return Err(StoreError::NotEmpty);
    }
    Ok(())
}

/// Snapshot of a store, for a copy.
pub trait CopySource {
    /// Copies everything into a store that is empty, and checks every digest there. The other store is unchanged if
    /// the copy fails, unless a digest does not match.
    ///
    /// # Errors
    /// When a store cannot be read or written, the destination is not empty, or a digest differs.
    fn copy_to(
        &self,
        destination: &dyn CopyDestination,
        progress: &mut dyn FnMut(CopyProgress),
    ) -> Result<CopyReport, StoreError>;
}

/// Store that a copy is written to.
pub trait CopyDestination: Store {
    /// Runs `copy` in one transaction.
    #[doc(hidden)]
    fn receive(&self, copy: ReceiveTables<'_>) -> Result<(), StoreError>;
}

/// Writes of a copy.
pub struct ReceiveTables<'a>(pub(crate) &'a mut SinkFn<'a>);

pub(crate) type SinkFn<'a> = dyn FnMut(&mut dyn TableSink) -> Result<(), StoreError> + 'a;

impl std::fmt::Debug for ReceiveTables<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ReceiveTables")
    }
}

/// Copies a snapshot into a store and checks it there.
pub(crate) fn copy(
    source: &dyn TableSource,
    destination: &dyn CopyDestination,
    progress: &mut dyn FnMut(CopyProgress),
) -> Result<CopyReport, StoreError> {
    let mut copied: (CopyReport, Vec<Digest>) = Default::default();
    destination.receive(ReceiveTables(&mut |sink| {
        copied = copy_tables(source, sink, progress)?;
        Ok(())
    }))?;
    let (report, digests) = copied;
    verify(destination, &digests)?;
    Ok(report)
}
