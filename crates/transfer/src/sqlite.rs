//! Rows of tables in a SQLite file.

use std::path::Path;

use rusqlite::{Connection, params_from_iter, types::Value as SqlValue};
use skills_sqlite::{Access, DatabaseError, check_version, connect};

use crate::{Row, SqliteForm, Table, TableSink, TableSource, TransferError, Value, Visit};

/// Read transaction on a file, which a server may have open and write to meanwhile.
#[derive(Debug)]
pub struct SqliteSnapshot {
    path: std::path::PathBuf,
    connection: Connection,
}

impl SqliteSnapshot {
    /// Opens a snapshot of a file with a schema version.
    ///
    /// # Errors
    /// When there is no such file, or one of another version.
    pub fn open(path: &Path, schema_version: i64) -> Result<Self, TransferError> {
        std::fs::metadata(path).map_err(|error| DatabaseError::io("read", path, error))?;
        let connection = connect(path, Access::Read)?;
        let open = || {
            connection.execute_batch("BEGIN")?;
            // The first read fixes the snapshot.
            let version = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
            Ok(version)
        };
        let version: i64 =
            open().map_err(|error: rusqlite::Error| DatabaseError::new(path, &error))?;
        check_version(path, version, schema_version)?;
        if version < schema_version {
            let detail = "it is of an earlier version; start a server on it once".to_owned();
            return Err(DatabaseError::Corrupt { path: path.to_owned(), detail }.into());
        }
        Ok(Self { path: path.to_owned(), connection })
    }
}

impl TableSource for SqliteSnapshot {
    fn for_each(&mut self, table: &Table, visit: Visit<'_>) -> Result<(), TransferError> {
        let sql = |error: rusqlite::Error| DatabaseError::new(&self.path, &error);
        let select = match table.sqlite {
            SqliteForm::Table(name) => format!("SELECT {} FROM {name}", table.column_names()),
            SqliteForm::Statements { select, .. } => select.to_owned(),
        };
        let mut statement = self.connection.prepare(&select).map_err(sql)?;
        let mut rows = statement.query([]).map_err(sql)?;
        while let Some(row) = rows.next().map_err(sql)? {
            let values = (0..table.columns.len()).map(|index| {
                Ok(match row.get::<_, SqlValue>(index)? {
                    SqlValue::Null => Value::Null,
                    SqlValue::Integer(number) => Value::Number(number),
                    SqlValue::Real(number) => Value::Real(number),
                    SqlValue::Text(text) => Value::Text(text),
                    SqlValue::Blob(bytes) => Value::Bytes(bytes),
                })
            });
            visit(values.collect::<rusqlite::Result<Row>>().map_err(sql)?)?;
        }
        Ok(())
    }
}

/// Transaction on a file.
#[derive(Debug)]
pub struct SqliteSink<'a> {
    /// File of the connection, for errors.
    pub path: &'a Path,
    /// Connection in a transaction.
    pub connection: &'a Connection,
}

impl TableSink for SqliteSink<'_> {
    fn insert(&mut self, table: &Table, rows: Vec<Row>) -> Result<(), TransferError> {
        let statement = match table.sqlite {
            SqliteForm::Table(name) => {
                let marks = vec!["?"; table.columns.len()].join(", ");
                format!("INSERT INTO {name} ({}) VALUES ({marks})", table.column_names())
            }
            SqliteForm::Statements { insert, .. } => insert.to_owned(),
        };
        let insert = || {
            let mut statement = self.connection.prepare_cached(&statement)?;
            for row in rows {
                let values = row.into_iter().map(|value| match value {
                    Value::Null => SqlValue::Null,
                    Value::Number(number) => SqlValue::Integer(number),
                    Value::Real(number) => SqlValue::Real(number),
                    Value::Text(text) => SqlValue::Text(text),
                    Value::Bytes(bytes) => SqlValue::Blob(bytes),
                });
                statement.execute(params_from_iter(values))?;
            }
            Ok(())
        };
        insert().map_err(|error| DatabaseError::new(self.path, &error).into())
    }
}
