//! Tables and rows in a form that all databases share.

use skills_core::Digest;

use crate::TransferError;

/// Value of a column.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// No value.
    Null,
    /// Integer, or a flag as 0 or 1.
    Number(i64),
    /// Floating-point number.
    Real(f64),
    /// Text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
}

impl Value {
    pub(crate) const fn bytes(&self) -> usize {
        match self {
            Self::Null | Self::Number(_) | Self::Real(_) => 8,
            Self::Text(text) => text.len(),
            Self::Bytes(bytes) => bytes.len(),
        }
    }
}

/// Type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Integer.
    Number,
    /// 0 or 1, where the database has no other type for it.
    Flag,
    /// Floating-point number.
    Real,
    /// Text.
    Text,
    /// Bytes.
    Bytes,
}

/// Part of a registry that a table belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Entries, versions, log, blobs and bus state.
    Store,
    /// Keys, profiles, secrets and their logs.
    Vault,
}

impl Part {
    /// Returns the name in archives.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::Vault => "vault",
        }
    }
}

/// Form of a table in SQLite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SqliteForm {
    /// Table of this name, with the same columns.
    Table(&'static str),
    /// Statements that read and write the same columns.
    Statements {
        /// Query of all rows.
        select: &'static str,
        /// Insertion of a row, with a parameter for each column.
        insert: &'static str,
    },
}

/// Table as it is copied. Its columns are the same in all databases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Table {
    /// Part that it belongs to.
    pub part: Part,
    /// Name in archives and in PostgreSQL.
    pub name: &'static str,
    /// Form in SQLite.
    pub sqlite: SqliteForm,
    /// Names and types of the columns.
    pub columns: &'static [(&'static str, Kind)],
}

impl Table {
    /// Returns whether the rows are the blobs: a digest, a CRC-32, and bytes.
    #[must_use]
    pub fn is_blobs(&self) -> bool {
        matches!(
            (self.part, self.columns),
            (
                Part::Store,
                [("digest", Kind::Bytes), ("crc32", Kind::Number), ("bytes", Kind::Bytes)]
            )
        )
    }

    /// Returns the names of the columns, separated by commas.
    #[must_use]
    pub fn column_names(&self) -> String {
        let names: Vec<&str> = self.columns.iter().map(|(name, _)| *name).collect();
        names.join(", ")
    }
}

/// Row of a table, in the order of its columns.
pub type Row = Vec<Value>;

/// Function that gets each row of a table.
pub type Visit<'a> = &'a mut dyn FnMut(Row) -> Result<(), TransferError>;

/// Snapshot that rows are read from.
pub trait TableSource {
    /// Passes all rows of a table. Tables are read in the order in which they are declared.
    ///
    /// # Errors
    /// When they cannot be read, and the errors of `visit`.
    fn for_each(&mut self, table: &Table, visit: Visit<'_>) -> Result<(), TransferError>;

    /// Returns whether there is a vault. Without one, the tables of the vault have no rows.
    fn has_vault(&self) -> bool {
        true
    }

    /// Checks what can only be checked when everything was read.
    ///
    /// # Errors
    /// When something is missing at the end.
    fn finish(&mut self) -> Result<(), TransferError> {
        Ok(())
    }
}

/// Transaction that rows are written to.
pub trait TableSink {
    /// Inserts rows of a table.
    ///
    /// # Errors
    /// When they cannot be written.
    fn insert(&mut self, table: &Table, rows: Vec<Row>) -> Result<(), TransferError>;
}

/// Returns the row of a blob.
#[must_use]
pub fn blob_row(digest: &Digest, bytes: Vec<u8>) -> Row {
    let crc32 = i64::from(crc32fast::hash(&bytes));
    vec![Value::Bytes(digest.as_bytes().to_vec()), Value::Number(crc32), Value::Bytes(bytes)]
}

/// Returns digest and bytes of a row of blobs.
///
/// # Errors
/// [`TransferError::BlobDiffers`] if the bytes have another digest.
pub fn check_blob(row: &[Value]) -> Result<(Digest, &[u8]), TransferError> {
    let [Value::Bytes(digest), _, Value::Bytes(bytes)] = row else {
        return Err(TransferError::Unreadable("a blob has other columns".to_owned()));
    };
    let digest = <[u8; 32]>::try_from(digest.as_slice()).map(Digest::from_bytes);
    let digest = digest
        .map_err(|_| TransferError::Unreadable("the digest of a blob is not one".to_owned()))?;
    if Digest::of(bytes) != digest {
        return Err(TransferError::BlobDiffers { digest });
    }
    Ok((digest, bytes))
}
