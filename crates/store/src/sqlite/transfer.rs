//! Copies of a whole database file.

use std::path::Path;

use skills_core::Digest;
use skills_sqlite::DatabaseError;
use skills_transfer::{
    Row, Table, TableSink, TransferError, blob_row, check_blob,
    sqlite::{SqliteSink, SqliteSnapshot},
};

use super::{
    SqliteStore,
    open::{SCHEMA_VERSION, log_end},
};
use crate::{
    Store as _,
    transfer::{FillStore, require_empty},
};

impl SqliteStore {
    /// Opens a snapshot of the store of a directory, which a server may write to meanwhile.
    ///
    /// # Errors
    /// When there is no store, or one of another version.
    pub fn snapshot(dir: &Path) -> Result<SqliteSnapshot, TransferError> {
        SqliteSnapshot::open(&dir.join("skills.db"), SCHEMA_VERSION)
    }

    /// Writes a copy into this store, which must be empty, in one transaction.
    ///
    /// # Errors
    /// Those of `fill`, and when the store is not empty or cannot be written; it is then unchanged. And if a blob
    /// cannot be read back.
    pub fn receive(&self, fill: FillStore<'_>) -> Result<(), TransferError> {
        require_empty(self, &self.path.display().to_string())?;
        let mut writer = self.writer.lock();
        let sql = |error: rusqlite::Error| DatabaseError::new(&self.path, &error);
        let transaction = writer.connection.transaction().map_err(sql)?;
        let sink = SqliteSink { path: &self.path, connection: &transaction };
        let mut sink = NotedBlobs { sink, blobs: vec![] };
        fill(&mut sink)?;
        let blobs = sink.blobs;
        transaction.commit().map_err(sql)?;
        writer.end = log_end(&writer.connection).map_err(sql)?;
        drop(writer);
        for digest in blobs {
            // Read back, as what was written may differ from what was meant.
            let bytes = self.blob(&digest).map_err(|error| TransferError::other(&error))?;
            check_blob(&blob_row(&digest, bytes.unwrap_or_default().to_vec()))?;
        }
        Ok(())
    }
}

/// Sink that notes the digests of the blobs.
struct NotedBlobs<'a> {
    sink: SqliteSink<'a>,
    blobs: Vec<Digest>,
}

impl TableSink for NotedBlobs<'_> {
    fn insert(&mut self, table: &Table, rows: Vec<Row>) -> Result<(), TransferError> {
        if table.is_blobs() {
            for row in &rows {
                self.blobs.push(check_blob(row)?.0);
            }
        }
        self.sink.insert(table, rows)
    }
}
