//! Copies into the tables of PostgreSQL.

use skills_postgres::{PgSession, Pool, column};
use skills_transfer::{
    Kind, Row, Table, TableSink, TransferError, Value,
    postgres::{SchemaState, insert_rows},
};

use super::COMPONENT;
use crate::{Vault, transfer::FillVault};

/// Revision of everything that a copy brings, by which running servers notice it.
const REVISION: i64 = 1;

/// Tables that have a revision in PostgreSQL, by which servers find changes.
const WITH_REVISION: [&str; 2] = ["vault_key", "vault_profile"];

impl Vault {
    /// Creates or migrates the tables in the database of a pool.
    ///
    /// # Errors
    /// When the database cannot be reached or used, or has a newer schema.
    pub fn prepare_postgres(pool: &Pool) -> Result<(), TransferError> {
        Ok(pool.migrate(&COMPONENT)?)
    }

    /// Returns the state of the tables, which stay as they are.
    ///
    /// # Errors
    /// When they cannot be read, or have a newer schema.
    pub fn postgres_schema_state(session: &PgSession) -> Result<SchemaState, TransferError> {
        Ok(COMPONENT.state(session)?)
    }

    /// Writes a copy into the tables of a transaction, which must be empty.
    ///
    /// # Errors
    /// Those of `fill`, and when the tables are not empty or cannot be written.
    pub fn receive_postgres(session: &PgSession, fill: FillVault<'_>) -> Result<(), TransferError> {
        let sql = "SELECT NOT EXISTS (SELECT FROM vault_key)
                      AND NOT EXISTS (SELECT FROM vault_profile)
                      AND NOT EXISTS (SELECT FROM vault_secret)
                      AND NOT EXISTS (SELECT FROM vault_grant)
                      AND NOT EXISTS (SELECT FROM vault_search_miss)
                      AND NOT EXISTS (SELECT FROM vault_audit)
                   FROM vault_state FOR UPDATE";
        let is_empty: bool = column(&session.query_one(sql, &[])?, 0)?;
        if !is_empty {
            return Err(TransferError::NotEmpty("the vault in the database".to_owned()));
        }
        fill(&mut PostgresSink(session))?;
        session.execute("UPDATE vault_state SET revision = $1", &[&REVISION])?;
        // Numbers of new rows follow those of the copy.
        session.batch(
            "SELECT setval(pg_get_serial_sequence('vault_key', 'number'), max(number))
             FROM vault_key HAVING max(number) > 0;
             SELECT setval(pg_get_serial_sequence('vault_audit', 'number'), max(number))
             FROM vault_audit HAVING max(number) > 0",
        )?;
        Ok(())
    }
}

struct PostgresSink<'a>(&'a PgSession);

impl TableSink for PostgresSink<'_> {
    fn insert(&mut self, table: &Table, mut rows: Vec<Row>) -> Result<(), TransferError> {
        let mut columns = table.columns.to_vec();
        if WITH_REVISION.contains(&table.name) {
            columns.push(("revision", Kind::Number));
            rows.iter_mut().for_each(|row| row.push(Value::Number(REVISION)));
        }
        insert_rows(self.0, table.name, &columns, rows)
    }
}
