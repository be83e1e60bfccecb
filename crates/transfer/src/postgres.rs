//! Rows of tables in PostgreSQL.

use std::{cell::RefCell, time::Duration};

use skills_postgres::{
    DatabaseUrl, PgError, PgSession, Pool, PoolConfig, Row as PgRow, ToSql, column,
};
pub use skills_postgres::{Lease, SchemaState};

use crate::{Kind, Row, Table, TransferError, Value, Visit};

/// Time limit of a copy.
const COPY_LIMIT: Duration = Duration::from_secs(4 * 60 * 60);
/// Time limit of a pause in a copy into a database. Its transaction keeps the servers on that database from writing.
const FILL_PAUSE: Duration = Duration::from_secs(60);
/// Rows that are read at once.
const FETCH: usize = 500;
/// Bytes of texts and blobs from which on a row is read by itself. 500 others have 4 MiB.
const LARGE_ROW: usize = 8 << 10;

/// Creates a pool whose transactions may take as long as a copy from a database.
///
/// # Errors
/// When certificates cannot be read.
pub fn source_pool(url: &DatabaseUrl) -> Result<Pool, PgError> {
    copy_pool(url, COPY_LIMIT)
}

/// Creates a pool whose transactions may take as long as a copy into a database. One that is stopped or cut off is undone
/// after a minute.
///
/// # Errors
/// When certificates cannot be read.
pub fn target_pool(url: &DatabaseUrl) -> Result<Pool, PgError> {
    copy_pool(url, FILL_PAUSE)
}

fn copy_pool(url: &DatabaseUrl, idle_timeout: Duration) -> Result<Pool, PgError> {
    let config = PoolConfig {
        statement_timeout: COPY_LIMIT,
        idle_timeout,
        call_timeout: COPY_LIMIT,
        ..PoolConfig::default()
    };
    Pool::new(url, config)
}

/// Begins a read transaction that sees what is committed now. It ends with the lease.
///
/// # Errors
/// When the database cannot be reached or used.
pub fn begin_snapshot(pool: &Pool) -> Result<Lease, PgError> {
    let lease = pool.lease(COPY_LIMIT)?;
    lease.wait(lease.begin_async())?;
    lease.batch("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")?;
    // The first query fixes the snapshot.
    lease.query("SELECT 1", &[])?;
    Ok(lease)
}

/// Passes all rows of a table, in a transaction.
///
/// A value may have many megabytes, so large rows are left out of the cursor and read one by one, by their place in the
/// table. That is the same for the whole transaction.
///
/// # Errors
/// When they cannot be read, and the errors of `visit`.
pub fn read_rows(
    session: &PgSession,
    table: &Table,
    visit: Visit<'_>,
) -> Result<(), TransferError> {
    let (name, columns) = (table.name, table.column_names());
    let is_wide = |kind: &Kind| matches!(kind, Kind::Text | Kind::Bytes);
    let lengths = table.columns.iter().filter(|(_, kind)| is_wide(kind));
    let lengths = lengths.map(|(column, _)| format!("coalesce(octet_length({column}), 0)::bigint"));
    let length = lengths.collect::<Vec<_>>().join(" + ");
    let length = if length.is_empty() { "0" } else { &length };
    let values = table.columns.iter().map(|(column, kind)| match kind {
        kind if is_wide(kind) => format!("CASE WHEN large_row IS NULL THEN {column} END"),
        _ => (*column).to_owned(),
    });
    let values = values.collect::<Vec<_>>().join(", ");
    session.batch(&format!(
        "DECLARE rows NO SCROLL CURSOR FOR SELECT {values}, large_row FROM (
             SELECT *, CASE WHEN {length} > {LARGE_ROW} THEN ctid::text END AS large_row FROM {name}
         ) AS {name}"
    ))?;
    // Statements are prepared by their text, so each table needs one of its own.
    let fetch = format!("FETCH {FETCH} FROM rows /* {name} */");
    let read_large = format!("SELECT {columns} FROM {name} WHERE ctid = $1::text::tid");
    loop {
        let rows = session.query(&fetch, &[])?;
        for row in &rows {
            let row = match column::<Option<String>>(row, table.columns.len())? {
                Some(place) => read_row(&session.query_one(&read_large, &[&place])?, table)?,
                None => read_row(row, table)?,
            };
            visit(row)?;
        }
        if rows.len() < FETCH {
            break;
        }
    }
    Ok(session.batch("CLOSE rows")?)
}

fn read_row(row: &PgRow, table: &Table) -> Result<Row, PgError> {
    let values = table.columns.iter().enumerate().map(|(index, (_, kind))| {
        Ok(match kind {
            Kind::Number => number(column(row, index)?),
            Kind::Flag => number(column::<Option<bool>>(row, index)?.map(i64::from)),
            Kind::Real => column::<Option<f64>>(row, index)?.map_or(Value::Null, Value::Real),
            Kind::Text => column::<Option<String>>(row, index)?.map_or(Value::Null, Value::Text),
            Kind::Bytes => column::<Option<Vec<u8>>>(row, index)?.map_or(Value::Null, Value::Bytes),
        })
    });
    values.collect()
}

fn number(number: Option<i64>) -> Value {
    number.map_or(Value::Null, Value::Number)
}

/// Inserts rows of a table, also values of columns that the database generates.
///
/// # Errors
/// When they cannot be written.
pub fn insert_rows(
    session: &PgSession,
    table: &str,
    columns: &[(&str, Kind)],
    rows: Vec<Row>,
) -> Result<(), TransferError> {
    let mut lists: Vec<Box<dyn ToSql + Sync>> = vec![];
    let mut types = vec![];
    let rows = RefCell::new(rows);
    for (index, (_, kind)) in columns.iter().enumerate() {
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
            Kind::Real => {
                let real = |value| match value {
                    Value::Real(number) => Some(number),
                    _ => None,
                };
                (Box::new(take().into_iter().map(real).collect::<Vec<_>>()), "double precision")
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
    let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    let (names, types) = (names.join(", "), types.join(", "));
    let sql = format!(
        "INSERT INTO {table} ({names}) OVERRIDING SYSTEM VALUE SELECT * FROM unnest({types})"
    );
    let lists: Vec<&(dyn ToSql + Sync)> = lists.iter().map(AsRef::as_ref).collect();
    session.execute(&sql, &lists)?;
    Ok(())
}
