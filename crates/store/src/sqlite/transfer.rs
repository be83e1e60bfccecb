//! Copies of a whole database file.

use std::path::Path;

use rusqlite::{Connection, OpenFlags, params_from_iter, types::Value as SqlValue};
use skills_sqlite::{DatabaseError, check_version, harden};

use super::{
    SqliteStore,
    open::{SCHEMA_VERSION, log_end},
    store_error,
};
use crate::{
    StoreError,
    transfer::{
        self, CopyDestination, CopyProgress, CopyReport, CopySource, ReceiveTables, Row, Table,
        TableSink, TableSource, Value, Visit,
    },
};

/// Read transaction on the file of a data directory, which a server may have open.
#[derive(Debug)]
pub struct SqliteSnapshot {
    path: std::path::PathBuf,
    connection: Connection,
}

impl SqliteSnapshot {
    /// Opens a snapshot of the store of a directory.
    ///
    /// # Errors
    /// When there is no store, or one of another version.
    pub fn open(dir: &Path) -> Result<Self, StoreError> {
        let path = dir.join("skills.db");
        let open = || {
            let connection = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
            harden(&connection)?;
            connection.execute_batch("BEGIN")?;
            let version: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
            Ok((connection, version))
        };
        let (connection, version) = open().map_err(|error| store_error(&path, &error))?;
        check_version(&path, version, SCHEMA_VERSION)?;
        if version < SCHEMA_VERSION {
            let detail = "it is of an earlier version; start a server on it once".to_owned();
            return Err(DatabaseError::Corrupt { path, detail }.into());
        }
        Ok(Self { path, connection })
    }
}

/// Returns the query of all rows of a table.
fn select(table: &Table) -> String {
    match table.name {
        "blob_use" => "SELECT b.digest, v.entry, v.number FROM blob_use u
                       JOIN blob b ON b.number = u.blob JOIN version v ON v.seq = u.version"
            .to_owned(),
        name => format!("SELECT {} FROM {name}", columns(table)),
    }
}

fn columns(table: &Table) -> String {
    let names: Vec<&str> = table.columns.iter().map(|(name, _)| *name).collect();
    names.join(", ")
}

impl TableSource for SqliteSnapshot {
    fn for_each(&self, table: &Table, visit: Visit<'_>) -> Result<(), StoreError> {
        let sql = |error: rusqlite::Error| store_error(&self.path, &error);
        let mut statement = self.connection.prepare(&select(table)).map_err(sql)?;
        let mut rows = statement.query([]).map_err(sql)?;
        while let Some(row) = rows.next().map_err(sql)? {
            let values = (0..table.columns.len()).map(|index| {
                Ok(match row.get::<_, SqlValue>(index)? {
                    SqlValue::Null | SqlValue::Real(_) => Value::Null,
                    SqlValue::Integer(number) => Value::Number(number),
                    SqlValue::Text(text) => Value::Text(text),
                    SqlValue::Blob(bytes) => Value::Bytes(bytes),
                })
            });
            visit(values.collect::<rusqlite::Result<Row>>().map_err(sql)?)?;
        }
        Ok(())
    }
}

impl CopySource for SqliteSnapshot {
    fn copy_to(
        &self,
        destination: &dyn CopyDestination,
        progress: &mut dyn FnMut(CopyProgress),
    ) -> Result<CopyReport, StoreError> {
        transfer::copy(self, destination, progress)
    }
}

struct SqliteSink<'a> {
    path: &'a Path,
    connection: &'a Connection,
}

impl TableSink for SqliteSink<'_> {
    fn insert(&mut self, table: &Table, rows: Vec<Row>) -> Result<(), StoreError> {
        let marks = vec!["?"; table.columns.len()].join(", ");
        let statement = match table.name {
            "blob_use" => "INSERT INTO blob_use (blob, version) SELECT b.number, v.seq
                           FROM blob b, version v WHERE b.digest = ? AND v.entry = ? AND v.number = ?"
                .to_owned(),
            name => format!("INSERT INTO {name} ({}) VALUES ({marks})", columns(table)),
        };
        let insert = || {
            let mut statement = self.connection.prepare_cached(&statement)?;
            for row in rows {
                let values = row.into_iter().map(|value| match value {
                    Value::Null => SqlValue::Null,
                    Value::Number(number) => SqlValue::Integer(number),
                    Value::Text(text) => SqlValue::Text(text),
                    Value::Bytes(bytes) => SqlValue::Blob(bytes),
                });
                statement.execute(params_from_iter(values))?;
            }
            Ok(())
        };
        insert().map_err(|error| store_error(self.path, &error))
    }
}

impl CopyDestination for SqliteStore {
    fn receive(&self, copy: ReceiveTables<'_>) -> Result<(), StoreError> {
        transfer::require_empty(self)?;
        let mut writer = self.writer.lock();
        let sql = |error: rusqlite::Error| self.error(&error);
        let transaction = writer.connection.transaction().map_err(sql)?;
        (copy.0)(&mut SqliteSink { path: &self.path, connection: &transaction })?;
        transaction.commit().map_err(sql)?;
        writer.end = log_end(&writer.connection).map_err(sql)?;
        Ok(())
    }
}
