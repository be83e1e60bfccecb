//! Copies into the tables of PostgreSQL.

use skills_postgres::{PgSession, Pool, column};
use skills_transfer::{
    Kind::{Bytes, Number, Real, Text},
    Part, Row, SqliteForm, Table, TableSink, TransferError, Value,
    postgres::insert_rows,
};

use super::COMPONENT;
use crate::{Vault, transfer::FillVault};

/// Revision of everything that a copy brings, by which running servers notice it.
const REVISION: i64 = 1;

/// Tables that have a revision besides.
const WITH_REVISION: [Table; 2] = [
    Table {
        part: Part::Vault,
        name: "vault_key",
        sqlite: SqliteForm::Table("key"),
        columns: &[
            ("number", Number),
            ("hash", Bytes),
            ("owner", Text),
            ("label", Text),
            ("created_at", Number),
            ("expires_at", Number),
            ("revoked_at", Number),
            ("revision", Number),
        ],
    },
    Table {
        part: Part::Vault,
        name: "vault_profile",
        sqlite: SqliteForm::Table("profile"),
        columns: &[
            ("owner", Text),
            ("tier", Text),
            ("credits", Real),
            ("username", Text),
            ("updated_at", Number),
            ("revision", Number),
        ],
    },
];

impl Vault {
    /// Creates or migrates the tables in the database of a pool.
    ///
    /// # Errors
    /// When the database cannot be reached or used, or has a newer schema.
    pub fn prepare_postgres(pool: &Pool) -> Result<(), TransferError> {
        Ok(pool.migrate(&COMPONENT)?)
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
        let with_revision = WITH_REVISION.iter().find(|other| other.name == table.name);
        if with_revision.is_some() {
            rows.iter_mut().for_each(|row| row.push(Value::Number(REVISION)));
        }
        insert_rows(self.0, with_revision.unwrap_or(table), rows)
    }
}
