//! Copies of a whole database.

use skills_core::Digest;
use skills_postgres::{PgError, PgSession, Pool, column};
use skills_transfer::{
    Row, Table, TableSink, TransferError, Value, Visit, blob_row, check_blob,
    postgres::{SchemaState, insert_rows, read_rows},
};

use super::{PostgresStore, SCHEMA, differences::CHUNK_BYTES, rows};
use crate::transfer::FillStore;

impl PostgresStore {
    /// Creates or migrates the tables in the database of a pool.
    ///
    /// # Errors
    /// When the database cannot be reached or used, or has a newer schema.
    pub fn prepare(pool: &Pool) -> Result<(), TransferError> {
        Self::migrate(pool).map_err(|error| TransferError::other(&error))
    }

    /// Returns the state of the tables, which stay as they are.
    ///
    /// # Errors
    /// When they cannot be read, or have a newer schema.
    pub fn schema_state(session: &PgSession) -> Result<SchemaState, TransferError> {
        Ok(SCHEMA.state(session)?)
    }

    /// Passes all rows of a table, in a read transaction.
    ///
    /// # Errors
    /// When they cannot be read, and the errors of `visit`.
    pub fn read_table(
        session: &PgSession,
        table: &Table,
        visit: Visit<'_>,
    ) -> Result<(), TransferError> {
        if !table.is_blobs() {
            return read_rows(session, table, visit);
        }
        for row in session.query("SELECT digest FROM blob", &[])? {
            let digest = rows::digest(&row, 0)?;
            let bytes = super::blob(session, &digest)?;
            let bytes = bytes.ok_or(TransferError::BlobDiffers { digest })?;
            visit(blob_row(&digest, bytes.to_vec()))?;
        }
        Ok(())
    }

    /// Writes a copy into the tables of a transaction, which must be empty. Servers that run on the database wait, and see
    /// everything at once.
    ///
    /// # Errors
    /// Those of `fill`, and when the tables are not empty or cannot be written.
    pub fn receive(session: &PgSession, fill: FillStore<'_>) -> Result<(), TransferError> {
        let sql = "SELECT revision = 0 AND NOT EXISTS (SELECT FROM state) FROM head FOR UPDATE";
        let is_empty: bool = column(&session.query_one(sql, &[])?, 0)?;
        if !is_empty {
            return Err(TransferError::NotEmpty("the database".to_owned()));
        }
        let mut sink = PostgresSink { session, blobs: vec![] };
        fill(&mut sink)?;
        for digest in sink.blobs {
            // Read back, as what was written may differ from what was meant.
            let bytes = super::blob(session, &digest)?.unwrap_or_default();
            check_blob(&blob_row(&digest, bytes.to_vec()))?;
        }
        session.execute(
            "UPDATE head SET stamp = $1,
                 revision = (SELECT coalesce(max(revision), 0) FROM change),
                 at = (SELECT max(at) FROM change),
                 entries = (SELECT coalesce(max(number), 0) FROM entry),
                 positions = (SELECT coalesce(max(position), 0) FROM state)",
            &[&rows::new_stamp()],
        )?;
        Ok(())
    }
}

struct PostgresSink<'a> {
    session: &'a PgSession,
    blobs: Vec<Digest>,
}

impl PostgresSink<'_> {
    fn insert_blob(&mut self, row: &Row) -> Result<(), TransferError> {
        let (digest, bytes) = check_blob(row)?;
        let Some(Value::Number(crc32)) = row.get(1) else {
            return Err(PgError::Other("a blob has other columns".to_owned()).into());
        };
        self.blobs.push(digest);
        let name = digest.as_bytes().as_slice();
        let size = rows::to_i64(bytes.len() as u64);
        let is_large = bytes.len() > CHUNK_BYTES;
        let whole = (!is_large).then_some(bytes);
        let sql = "INSERT INTO blob (digest, crc32, size, bytes) VALUES ($1, $2, $3, $4)";
        self.session.execute(sql, &[&name, crc32, &size, &whole])?;
        if is_large {
            let sql = "INSERT INTO blob_chunk (digest, part, bytes) VALUES ($1, $2, $3)";
            for (part, chunk) in (0_i32..).zip(bytes.chunks(CHUNK_BYTES)) {
                self.session.execute(sql, &[&name, &part, &chunk])?;
            }
        }
        Ok(())
    }
}

impl TableSink for PostgresSink<'_> {
    fn insert(&mut self, table: &Table, rows: Vec<Row>) -> Result<(), TransferError> {
        if table.is_blobs() {
            return rows.iter().try_for_each(|row| self.insert_blob(row));
        }
        insert_rows(self.session, table.name, table.columns, rows)
    }
}
