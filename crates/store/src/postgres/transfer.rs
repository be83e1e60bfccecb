//! Copies of a whole database.

use std::{cell::RefCell, time::Duration};

use skills_postgres::{DatabaseUrl, Lease, PgError, Pool, PoolConfig, Session, ToSql, column};

use super::{PostgresStore, differences::CHUNK_BYTES, rows};
use crate::{
    StoreError,
    transfer::{
        self, CopyDestination, CopyProgress, CopyReport, CopySource, Kind, ReceiveTables, Row,
        Table, TableSink, TableSource, Value, Visit,
    },
};

/// Time limit of a copy.
const COPY_LIMIT: Duration = Duration::from_secs(4 * 60 * 60);
/// Rows that are read at once.
const FETCH: usize = 500;

fn copy_pool(url: &DatabaseUrl) -> Result<Pool, PgError> {
    let config = PoolConfig {
        statement_timeout: COPY_LIMIT,
        idle_timeout: COPY_LIMIT,
        call_timeout: COPY_LIMIT,
        ..PoolConfig::default()
    };
    Pool::new(url, config)
}

/// Read transaction on a database that servers may write to meanwhile.
#[derive(Debug)]
pub struct PostgresSnapshot {
    /// Holds the transaction, so it is never returned to the pool.
    lease: Lease,
}

impl PostgresSnapshot {
    /// Opens a snapshot.
    ///
    /// # Errors
    /// When the database cannot be reached or used.
    pub fn open(url: &DatabaseUrl) -> Result<Self, StoreError> {
        let store = PostgresStore::with_pool(copy_pool(url)?)?;
        let lease = store.pool.lease(COPY_LIMIT)?;
        lease.wait(lease.begin_async())?;
        lease.batch("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")?;
        Ok(Self { lease })
    }

    fn for_each_blob(&self, visit: Visit<'_>) -> Result<(), StoreError> {
        let session: &Session = &self.lease;
        for row in session.query("SELECT digest, crc32 FROM blob", &[])? {
            let digest = rows::digest(&row, 0)?;
            let bytes = super::blob(session, &digest)?.unwrap_or_default();
            let digest = Value::Bytes(digest.as_bytes().to_vec());
            visit(vec![digest, Value::Number(column(&row, 1)?), Value::Bytes(bytes.to_vec())])?;
        }
        Ok(())
    }
}

fn columns(table: &Table) -> String {
    let names: Vec<&str> = table.columns.iter().map(|(name, _)| *name).collect();
    names.join(", ")
}

impl TableSource for PostgresSnapshot {
    fn for_each(&self, table: &Table, visit: Visit<'_>) -> Result<(), StoreError> {
        if table.name == "blob" {
            return self.for_each_blob(visit);
        }
        let session: &Session = &self.lease;
        let name = table.name;
        session.batch(&format!(
            "DECLARE rows NO SCROLL CURSOR FOR SELECT {} FROM {name}",
            columns(table)
        ))?;
        loop {
            let fetch = format!("FETCH {FETCH} FROM rows /* {name} */");
            let rows = session.query(&fetch, &[])?;
            for row in &rows {
                let values = table.columns.iter().enumerate().map(|(index, (_, kind))| {
                    Ok(match kind {
                        Kind::Number => number(column(row, index)?),
                        Kind::Flag => number(column::<Option<bool>>(row, index)?.map(i64::from)),
                        Kind::Text => {
                            column::<Option<String>>(row, index)?.map_or(Value::Null, Value::Text)
                        }
                        Kind::Bytes => {
                            column::<Option<Vec<u8>>>(row, index)?.map_or(Value::Null, Value::Bytes)
                        }
                    })
                });
                visit(values.collect::<Result<Row, PgError>>()?)?;
            }
            if rows.len() < FETCH {
                break;
            }
        }
        Ok(session.batch("CLOSE rows")?)
    }
}

impl CopySource for PostgresSnapshot {
    fn copy_to(
        &self,
        destination: &dyn CopyDestination,
        progress: &mut dyn FnMut(CopyProgress),
    ) -> Result<CopyReport, StoreError> {
        transfer::copy(self, destination, progress)
    }
}

fn number(number: Option<i64>) -> Value {
    number.map_or(Value::Null, Value::Number)
}

struct PostgresSink<'a>(&'a Session);

impl PostgresSink<'_> {
    fn insert_blob(&self, row: &Row) -> Result<(), PgError> {
        let [Value::Bytes(digest), Value::Number(crc32), Value::Bytes(bytes)] = row.as_slice()
        else {
            return Err(PgError::Other("a blob has other columns".to_owned()));
        };
        let size = rows::to_i64(bytes.len() as u64);
        let is_large = bytes.len() > CHUNK_BYTES;
        let whole = (!is_large).then_some(bytes);
        let sql = "INSERT INTO blob (digest, crc32, size, bytes) VALUES ($1, $2, $3, $4)";
        self.0.execute(sql, &[digest, crc32, &size, &whole])?;
        if is_large {
            let sql = "INSERT INTO blob_chunk (digest, part, bytes) VALUES ($1, $2, $3)";
            for (part, chunk) in (0_i32..).zip(bytes.chunks(CHUNK_BYTES)) {
                self.0.execute(sql, &[digest, &part, &chunk])?;
            }
        }
        Ok(())
    }
}

impl TableSink for PostgresSink<'_> {
    fn insert(&mut self, table: &Table, rows: Vec<Row>) -> Result<(), StoreError> {
        if table.name == "blob" {
            return Ok(rows.iter().try_for_each(|row| self.insert_blob(row))?);
        }
        let mut lists: Vec<Box<dyn ToSql + Sync>> = vec![];
        let mut types = vec![];
        let rows = RefCell::new(rows);
        for (index, (_, kind)) in table.columns.iter().enumerate() {
            let take = || {
                let mut rows = rows.borrow_mut();
                let take = |row: &mut Row| std::mem::replace(&mut row[index], Value::Null);
                rows.iter_mut().map(take).collect::<Vec<_>>()
            };
            let number = |value| match value {
                Value::Number(number) => Some(number),
                _ => None,
            };
            let (list, name): (Box<dyn ToSql + Sync>, _) = match kind {
                Kind::Number => {
                    (Box::new(take().into_iter().map(number).collect::<Vec<_>>()), "bigint")
                }
                Kind::Flag => {
                    let flag = |value| number(value).map(|number| number != 0);
                    (Box::new(take().into_iter().map(flag).collect::<Vec<_>>()), "boolean")
                }
                Kind::Text => {
                    let text = |value| match value {
                        Value::Text(text) => Some(text),
                        _ => None,
                    };
                    (Box::new(take().into_iter().map(text).collect::<Vec<_>>()), "text")
                }
                Kind::Bytes => {
                    let bytes = |value| match value {
                        Value::Bytes(bytes) => Some(bytes),
                        _ => None,
                    };
                    (Box::new(take().into_iter().map(bytes).collect::<Vec<_>>()), "bytea")
                }
            };
            lists.push(list);
            types.push(format!("${}::{name}[]", index + 1));
        }
        let sql = format!(
            "INSERT INTO {} ({}) SELECT * FROM unnest({})",
            table.name,
            columns(table),
            types.join(", ")
        );
        let lists: Vec<&(dyn ToSql + Sync)> = lists.iter().map(AsRef::as_ref).collect();
        self.0.execute(&sql, &lists)?;
        Ok(())
    }
}

impl CopyDestination for PostgresStore {
    fn receive(&self, copy: ReceiveTables<'_>) -> Result<(), StoreError> {
        transfer::require_empty(self)?;
        copy_pool(self.pool.url())?.transaction(|session| {
            // Servers that run on the database wait, and see everything at once.
            session.query("SELECT revision FROM head FOR UPDATE", &[])?;
            (copy.0)(&mut PostgresSink(session))?;
            session.batch(
                "UPDATE head SET
                     revision = (SELECT coalesce(max(revision), 0) FROM change),
                     at = (SELECT max(at) FROM change),
                     entries = (SELECT coalesce(max(number), 0) FROM entry),
                     positions = (SELECT coalesce(max(position), 0) FROM state)",
            )?;
            Ok(())
        })
    }
}
