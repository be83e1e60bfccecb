//! Secrets and grants in PostgreSQL.

use skills_core::Timestamp;
use skills_postgres::{PgError, Row, column};

use super::tables::{PgTables, page, time};
use crate::{
    VaultError,
    backend::{GrantRow, SecretRow, SecretTables},
    crypt::SecretBinding,
    secrets::SealedRow,
};

/// Converts a row of owner, skill, name and envelope.
fn sealed_row(row: &Row) -> Result<SealedRow, PgError> {
    Ok(SealedRow {
        owner: column(row, 0)?,
        skill: column(row, 1)?,
        name: column(row, 2)?,
        envelope: column(row, 3)?,
    })
}

/// Converts a row of name, skill, granted_at and origin.
fn grant_row(row: &Row) -> Result<GrantRow, PgError> {
    Ok(GrantRow {
        name: column(row, 0)?,
        skill: column(row, 1)?,
        granted_at: time(row, 2)?,
        origin: column(row, 3)?,
    })
}

/// Returns the names that can be stored: text of PostgreSQL has no NUL.
fn storable(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).filter(|name| !name.contains('\0')).collect()
}

impl SecretTables for PgTables<'_> {
    fn secrets_for_skill(
        &mut self,
        owner: &str,
        skill: &str,
        names: &[String],
    ) -> Result<Vec<SealedRow>, VaultError> {
        let sql = "SELECT owner, skill, name, envelope FROM vault_secret
                   WHERE owner = $1 AND skill IN ('', $2) AND name = ANY ($3)";
        self.rows(sql, &[&owner, &skill, &storable(names)], sealed_row)
    }

    fn secrets_of(
        &mut self,
        owner: &str,
        name: Option<&str>,
    ) -> Result<Vec<SecretRow>, VaultError> {
        let sql = "SELECT name, skill, set_at FROM vault_secret
                   WHERE owner = $1 AND ($2::text IS NULL OR name = $2) ORDER BY name, skill";
        self.rows(sql, &[&owner, &name], |row| {
            Ok(SecretRow { name: column(row, 0)?, skill: column(row, 1)?, set_at: time(row, 2)? })
        })
    }

    fn secret_names(&mut self, owner: &str, skill: &str) -> Result<Vec<String>, VaultError> {
        let sql = "SELECT name FROM vault_secret WHERE owner = $1 AND skill = $2 ORDER BY name";
        self.rows(sql, &[&owner, &skill], |row| column(row, 0))
    }

    fn secrets_after(
        &mut self,
        (owner, skill, name): (&str, &str, &str),
        limit: usize,
    ) -> Result<Vec<SealedRow>, VaultError> {
        let sql = "SELECT owner, skill, name, envelope FROM vault_secret
                   WHERE (owner, skill, name) > ($1, $2, $3)
                   ORDER BY owner, skill, name LIMIT $4";
        self.rows(sql, &[&owner, &skill, &name, &page(limit)], sealed_row)
    }

    fn count_secrets(&mut self, owner: &str) -> Result<usize, VaultError> {
        self.count("SELECT count(*) FROM vault_secret WHERE owner = $1", &[&owner])
    }

    fn put_secret(
        &mut self,
        binding: SecretBinding<'_>,
        envelope: &str,
        at: Timestamp,
    ) -> Result<(), VaultError> {
        let SecretBinding { owner, skill, name } = binding;
        let sql = "INSERT INTO vault_secret (owner, skill, name, envelope, set_at)
                   VALUES ($1, $2, $3, $4, $5)
                   ON CONFLICT (owner, skill, name) DO UPDATE
                   SET envelope = excluded.envelope, set_at = excluded.set_at";
        self.has_secret_changes = true;
        self.execute(sql, &[&owner, &skill, &name, &envelope, &at.as_micros()]).map(drop)
    }

    fn replace_envelope(&mut self, expected: &SealedRow, new: &str) -> Result<bool, VaultError> {
        let SealedRow { owner, skill, name, envelope } = expected;
        let sql = "UPDATE vault_secret SET envelope = $4
                   WHERE owner = $1 AND skill = $2 AND name = $3 AND envelope = $5";
        self.has_secret_changes = true;
        Ok(self.execute(sql, &[owner, skill, name, &new, envelope])? > 0)
    }

    fn remove_secret(&mut self, binding: SecretBinding<'_>) -> Result<bool, VaultError> {
        let SecretBinding { owner, skill, name } = binding;
        let sql = "DELETE FROM vault_secret WHERE owner = $1 AND skill = $2 AND name = $3";
        self.has_secret_changes = true;
        Ok(self.execute(sql, &[&owner, &skill, &name])? > 0)
    }

    fn grants_of(&mut self, owner: &str, name: Option<&str>) -> Result<Vec<GrantRow>, VaultError> {
        let sql = "SELECT name, skill, granted_at, origin FROM vault_grant
                   WHERE owner = $1 AND ($2::text IS NULL OR name = $2) ORDER BY name, skill";
        self.rows(sql, &[&owner, &name], grant_row)
    }

    fn grants_to_skill(
        &mut self,
        owner: &str,
        skill: &str,
        names: &[String],
    ) -> Result<Vec<GrantRow>, VaultError> {
        let sql = "SELECT name, skill, granted_at, origin FROM vault_grant
                   WHERE owner = $1 AND skill = $2 AND name = ANY ($3)";
        self.rows(sql, &[&owner, &skill, &storable(names)], grant_row)
    }

    fn count_grants(&mut self, owner: &str) -> Result<usize, VaultError> {
        self.count("SELECT count(*) FROM vault_grant WHERE owner = $1", &[&owner])
    }

    fn put_grant(&mut self, owner: &str, grant: &GrantRow) -> Result<(), VaultError> {
        let GrantRow { name, skill, granted_at, origin } = grant;
        let sql = "INSERT INTO vault_grant (owner, skill, name, granted_at, origin)
                   VALUES ($1, $2, $3, $4, $5)
                   ON CONFLICT (owner, skill, name) DO UPDATE
                   SET granted_at = excluded.granted_at, origin = excluded.origin";
        self.has_secret_changes = true;
        self.execute(sql, &[&owner, skill, name, &granted_at.as_micros(), origin]).map(drop)
    }

    fn remove_grant(&mut self, binding: SecretBinding<'_>) -> Result<bool, VaultError> {
        let SecretBinding { owner, skill, name } = binding;
        let sql = "DELETE FROM vault_grant WHERE owner = $1 AND skill = $2 AND name = $3";
        self.has_secret_changes = true;
        Ok(self.execute(sql, &[&owner, &skill, &name])? > 0)
    }
}
