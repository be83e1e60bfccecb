//! Tables of the vault, for copies of whole registries. Secrets are copied as they are stored: encrypted.
//!
//! Rate counters are left out: they are of one minute.

use std::path::Path;

use rusqlite::TransactionBehavior;
use skills_sqlite::DatabaseError;
use skills_transfer::{
    Kind::{Bytes, Number, Real, Text},
    Part, SqliteForm, Table, TableSink, TransferError,
    sqlite::{SqliteSink, SqliteSnapshot},
};

use crate::{
    Vault,
    sqlite::{FILE_NAME, SCHEMA_VERSION, SqliteBackend},
};

/// Tables, by their names in PostgreSQL.
pub const TABLES: &[Table] = &[
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
        ],
    },
    Table {
        part: Part::Vault,
        name: "vault_secret",
        sqlite: SqliteForm::Table("secret"),
        columns: &[
            ("owner", Text),
            ("skill", Text),
            ("name", Text),
            ("envelope", Text),
            ("set_at", Number),
        ],
    },
    Table {
        part: Part::Vault,
        name: "vault_grant",
        sqlite: SqliteForm::Table("secret_grant"),
        columns: &[
            ("owner", Text),
            ("skill", Text),
            ("name", Text),
            ("granted_at", Number),
            ("origin", Text),
        ],
    },
    Table {
        part: Part::Vault,
        name: "vault_search_miss",
        sqlite: SqliteForm::Table("search_miss"),
        columns: &[
            ("day", Number),
            ("query", Text),
            ("caller", Bytes),
            ("count", Number),
            ("last_at", Number),
        ],
    },
    Table {
        part: Part::Vault,
        name: "vault_audit",
        sqlite: SqliteForm::Table("audit"),
        columns: &[
            ("number", Number),
            ("at", Number),
            ("actor", Text),
            ("action", Text),
            ("subject", Text),
        ],
    },
];

/// Writes of a copy.
pub type FillVault<'a> = &'a mut dyn FnMut(&mut dyn TableSink) -> Result<(), TransferError>;

impl Vault {
    /// Opens a snapshot of the vault of a data directory, which other processes may write to meanwhile. Returns `None`
    /// if there is no vault.
    ///
    /// # Errors
    /// When it cannot be read, or is of another version.
    pub fn snapshot(dir: &Path) -> Result<Option<SqliteSnapshot>, TransferError> {
        if !SqliteBackend::exists_in(dir) {
            return Ok(None);
        }
        Ok(Some(SqliteSnapshot::open(&dir.join(FILE_NAME), SCHEMA_VERSION)?))
    }

    /// Creates a vault in a data directory that has none, and writes a copy into it in one transaction.
    ///
    /// # Errors
    /// Those of `fill`, and when there is a vault or the file cannot be written.
    pub fn receive(dir: &Path, fill: FillVault<'_>) -> Result<(), TransferError> {
        let path = dir.join(FILE_NAME);
        if SqliteBackend::exists_in(dir) {
            return Err(TransferError::NotEmpty(path.display().to_string()));
        }
        let backend = SqliteBackend::open(dir).map_err(|error| TransferError::other(&error))?;
        let sql = |error: rusqlite::Error| DatabaseError::new(&path, &error);
        let mut writer = backend.writer.lock();
        let transaction =
            writer.transaction_with_behavior(TransactionBehavior::Immediate).map_err(sql)?;
        fill(&mut SqliteSink { path: &path, connection: &transaction })?;
        Ok(transaction.commit().map_err(sql)?)
    }
}
