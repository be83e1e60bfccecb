//! Rows of a vault in PostgreSQL, in a transaction or for reading.

use std::time::Duration;

use skills_core::{Digest, Owner, Timestamp};
use skills_postgres::{PgError, PgSession, Pool, Row, ToSql, column};

use crate::{Plan, VaultError, backend::Tables};

/// Time after which the database ends a transaction that waits for another store to commit. It covers an attempt of the
/// content store, which waits until the database ends the transaction of another server that hangs. The lock timeout of
/// other writers is longer.
pub(super) const JOINT_IDLE_LIMIT: Duration = Duration::from_secs(8);

/// Parameters of a statement.
pub(super) type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

/// Connection of statements.
#[derive(Clone, Copy)]
pub(super) enum Connection<'a> {
    /// Any of the pool: each statement sees what is committed, and is repeated if its connection was broken.
    Pool(&'a Pool),
    /// The connection of a transaction.
    PgSession(&'a PgSession),
}

/// Tables of a vault.
pub(super) struct PgTables<'a> {
    connection: Connection<'a>,
    /// Revision of this transaction.
    pub(super) revision: i64,
    /// Set when keys or profiles have changed.
    pub(super) has_key_changes: bool,
    /// Keys that have changed.
    pub(super) changed_keys: Vec<Digest>,
    /// Set when secrets or grants have changed.
    pub(super) has_secret_changes: bool,
}

impl<'a> PgTables<'a> {
    pub(super) const fn new(connection: Connection<'a>, revision: i64) -> Self {
        Self {
            connection,
            revision,
            has_key_changes: false,
            changed_keys: vec![],
            has_secret_changes: false,
        }
    }

    fn query(&self, sql: &str, params: Params<'_>) -> Result<Vec<Row>, VaultError> {
        let rows = match self.connection {
            Connection::Pool(pool) => pool.read(|session| session.query(sql, params)),
            Connection::PgSession(session) => session.query(sql, params),
        };
        Ok(rows?)
    }

    pub(super) fn rows<T>(
        &self,
        sql: &str,
        params: Params<'_>,
        convert: impl Fn(&Row) -> Result<T, PgError>,
    ) -> Result<Vec<T>, VaultError> {
        let rows = self.query(sql, params)?;
        Ok(rows.iter().map(convert).collect::<Result<_, _>>()?)
    }

    pub(super) fn first<T>(
        &self,
        sql: &str,
        params: Params<'_>,
        convert: impl Fn(&Row) -> Result<T, PgError>,
    ) -> Result<Option<T>, VaultError> {
        Ok(self.rows(sql, params, convert)?.into_iter().next())
    }

    /// Executes a statement and returns the number of changed rows.
    pub(super) fn execute(&self, sql: &str, params: Params<'_>) -> Result<u64, VaultError> {
        match self.connection {
            Connection::PgSession(session) => Ok(session.execute(sql, params)?),
            Connection::Pool(_) => Err(VaultError::internal("a write outside a transaction")),
        }
    }

    pub(super) fn count(&self, sql: &str, params: Params<'_>) -> Result<usize, VaultError> {
        let count = self.first(sql, params, |row| column::<i64>(row, 0))?;
        Ok(usize::try_from(count.unwrap_or_default()).unwrap_or_default())
    }

    fn batch(&self, sql: &str) -> Result<(), VaultError> {
        match self.connection {
            Connection::PgSession(session) => Ok(session.batch(sql)?),
            Connection::Pool(_) => Err(VaultError::internal("a savepoint outside a transaction")),
        }
    }
}

impl Tables for PgTables<'_> {
    fn begin_savepoint(&mut self) -> Result<(), VaultError> {
        self.batch("SAVEPOINT part")
    }

    fn end_savepoint(&mut self, keep: bool) -> Result<(), VaultError> {
        self.batch(if keep { "RELEASE part" } else { "ROLLBACK TO part; RELEASE part" })
    }

    fn prepare_commit(&mut self) -> Result<(), VaultError> {
        // Constraints that are checked at the commit are checked now.
        let limit = JOINT_IDLE_LIMIT.as_millis();
        self.batch(&format!(
            "SET CONSTRAINTS ALL IMMEDIATE; SET LOCAL idle_in_transaction_session_timeout = {limit}"
        ))
    }
}

/// Converts a number that is never negative.
pub(super) fn unsigned(row: &Row, index: usize) -> Result<u64, PgError> {
    let number: i64 = column(row, index)?;
    u64::try_from(number).map_err(|_| corrupt("number"))
}

/// Converts a number for a parameter.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Converts the limit of a page for a parameter.
pub(super) fn page(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

pub(super) fn time(row: &Row, index: usize) -> Result<Timestamp, PgError> {
    Ok(Timestamp::from_micros(column(row, index)?))
}

pub(super) fn optional_time(row: &Row, index: usize) -> Result<Option<Timestamp>, PgError> {
    Ok(column::<Option<i64>>(row, index)?.map(Timestamp::from_micros))
}

pub(super) fn digest(row: &Row, index: usize) -> Result<Digest, PgError> {
    let bytes: &[u8] = column(row, index)?;
    bytes.try_into().map(Digest::from_bytes).map_err(|_| corrupt("hash"))
}

pub(super) fn owner(row: &Row, index: usize) -> Result<Owner, PgError> {
    column::<&str>(row, index)?.parse().map_err(|_| corrupt("owner"))
}

pub(super) fn plan(row: &Row, index: usize) -> Result<Option<Plan>, PgError> {
    let text: Option<&str> = column(row, index)?;
    text.map(|text| text.parse().map_err(|_| corrupt("tier"))).transpose()
}

fn corrupt(column: &str) -> PgError {
    PgError::Corrupt(format!("a stored {column} of the vault is invalid"))
}
