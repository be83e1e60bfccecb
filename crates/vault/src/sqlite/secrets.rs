//! Secrets and grants in SQLite.

use rusqlite::{Row, params};
use skills_core::Timestamp;

use super::SqliteTables;
use crate::{
    VaultError,
    backend::{GrantRow, SecretRow, SecretTables},
    crypt::SecretBinding,
    secrets::SealedRow,
};

/// Converts a row of owner, skill, name and envelope.
fn sealed_row(row: &Row<'_>) -> rusqlite::Result<SealedRow> {
    Ok(SealedRow {
        owner: row.get(0)?,
        skill: row.get(1)?,
        name: row.get(2)?,
        envelope: row.get(3)?,
    })
}

/// Converts a row of name, skill, granted_at and origin.
fn grant_row(row: &Row<'_>) -> rusqlite::Result<GrantRow> {
    Ok(GrantRow {
        name: row.get(0)?,
        skill: row.get(1)?,
        granted_at: Timestamp::from_micros(row.get(2)?),
        origin: row.get(3)?,
    })
}

impl SecretTables for SqliteTables<'_> {
    fn secrets_for_skill(
        &mut self,
        owner: &str,
        skill: &str,
        names: &[String],
    ) -> Result<Vec<SealedRow>, VaultError> {
        let sql = "SELECT owner, skill, name, envelope FROM secret
                   WHERE owner = ?1 AND skill IN ('', ?2) AND name = ?3";
        let mut found = vec![];
        for name in names {
            found.extend(self.rows(sql, params![owner, skill, name], sealed_row)?);
        }
        Ok(found)
    }

    fn secrets_of(
        &mut self,
        owner: &str,
        name: Option<&str>,
    ) -> Result<Vec<SecretRow>, VaultError> {
        let sql = "SELECT name, skill, set_at FROM secret
                   WHERE owner = ?1 AND (?2 IS NULL OR name = ?2) ORDER BY name, skill";
        self.rows(sql, params![owner, name], |row| {
            let set_at = Timestamp::from_micros(row.get(2)?);
            Ok(SecretRow { name: row.get(0)?, skill: row.get(1)?, set_at })
        })
    }

    fn secret_names(&mut self, owner: &str, skill: &str) -> Result<Vec<String>, VaultError> {
        let sql = "SELECT name FROM secret WHERE owner = ?1 AND skill = ?2 ORDER BY name";
        self.rows(sql, params![owner, skill], |row| row.get(0))
    }

    fn secrets_after(
        &mut self,
        (owner, skill, name): (&str, &str, &str),
        limit: usize,
    ) -> Result<Vec<SealedRow>, VaultError> {
        let sql = "SELECT owner, skill, name, envelope FROM secret
                   WHERE (owner, skill, name) > (?1, ?2, ?3)
                   ORDER BY owner, skill, name LIMIT ?4";
        self.rows(sql, params![owner, skill, name, limit], sealed_row)
    }

    fn count_secrets(&mut self, owner: &str) -> Result<usize, VaultError> {
        self.count("SELECT count(*) FROM secret WHERE owner = ?1", params![owner])
    }

    fn put_secret(
        &mut self,
        binding: SecretBinding<'_>,
        envelope: &str,
        at: Timestamp,
    ) -> Result<(), VaultError> {
        let SecretBinding { owner, skill, name } = binding;
        let sql = "INSERT INTO secret (owner, skill, name, envelope, set_at)
                   VALUES (?1, ?2, ?3, ?4, ?5)
                   ON CONFLICT (owner, skill, name) DO UPDATE
                   SET envelope = excluded.envelope, set_at = excluded.set_at";
        self.execute(sql, params![owner, skill, name, envelope, at.as_micros()]).map(drop)
    }

    fn replace_envelope(&mut self, expected: &SealedRow, new: &str) -> Result<bool, VaultError> {
        let SealedRow { owner, skill, name, envelope } = expected;
        let sql = "UPDATE secret SET envelope = ?4
                   WHERE owner = ?1 AND skill = ?2 AND name = ?3 AND envelope = ?5";
        Ok(self.execute(sql, params![owner, skill, name, new, envelope])? > 0)
    }

    fn remove_secret(&mut self, binding: SecretBinding<'_>) -> Result<bool, VaultError> {
        let SecretBinding { owner, skill, name } = binding;
        let sql = "DELETE FROM secret WHERE owner = ?1 AND skill = ?2 AND name = ?3";
        Ok(self.execute(sql, params![owner, skill, name])? > 0)
    }

    fn grants_of(&mut self, owner: &str, name: Option<&str>) -> Result<Vec<GrantRow>, VaultError> {
        let sql = "SELECT name, skill, granted_at, origin FROM secret_grant
                   WHERE owner = ?1 AND (?2 IS NULL OR name = ?2) ORDER BY name, skill";
        self.rows(sql, params![owner, name], grant_row)
    }

    fn grants_to_skill(
        &mut self,
        owner: &str,
        skill: &str,
        names: &[String],
    ) -> Result<Vec<GrantRow>, VaultError> {
        let sql = "SELECT name, skill, granted_at, origin FROM secret_grant
                   WHERE owner = ?1 AND skill = ?2 AND name = ?3";
        let mut found = vec![];
        for name in names {
            found.extend(self.rows(sql, params![owner, skill, name], grant_row)?);
        }
        Ok(found)
    }

    fn count_grants(&mut self, owner: &str) -> Result<usize, VaultError> {
        self.count("SELECT count(*) FROM secret_grant WHERE owner = ?1", params![owner])
    }

    fn put_grant(&mut self, owner: &str, grant: &GrantRow) -> Result<(), VaultError> {
        let GrantRow { name, skill, granted_at, origin } = grant;
        let sql = "INSERT INTO secret_grant (owner, skill, name, granted_at, origin)
                   VALUES (?1, ?2, ?3, ?4, ?5)
                   ON CONFLICT (owner, skill, name) DO UPDATE
                   SET granted_at = excluded.granted_at, origin = excluded.origin";
        self.execute(sql, params![owner, skill, name, granted_at.as_micros(), origin]).map(drop)
    }

    fn remove_grant(&mut self, binding: SecretBinding<'_>) -> Result<bool, VaultError> {
        let SecretBinding { owner, skill, name } = binding;
        let sql = "DELETE FROM secret_grant WHERE owner = ?1 AND skill = ?2 AND name = ?3";
        Ok(self.execute(sql, params![owner, skill, name])? > 0)
    }
}
