//! Keys and profiles in PostgreSQL.

use skills_core::{Digest, Owner, Timestamp};
use skills_postgres::{PgError, PgSession, Row, column};

use super::tables::{PgTables, digest, optional_time, owner, page, plan, signed, time, unsigned};
use crate::{
    KeyRow, NewKey, Plan, ProfileChange, VaultError,
    backend::{KeyTables, ProfileRow, StoredKey},
};

const COLUMNS: &str = "number, hash, owner, label, created_at, expires_at, revoked_at";

/// Converts a row of [`COLUMNS`].
fn key_row(row: &Row) -> Result<KeyRow, PgError> {
    Ok(KeyRow {
        number: unsigned(row, 0)?,
        hash: digest(row, 1)?,
        owner: owner(row, 2)?,
        label: column(row, 3)?,
        created_at: time(row, 4)?,
        expires_at: optional_time(row, 5)?,
        revoked_at: optional_time(row, 6)?,
    })
}

/// Converts a row of tier, credits, username and updated_at.
fn profile_row(row: &Row) -> Result<ProfileRow, PgError> {
    Ok(ProfileRow {
        plan: plan(row, 0)?,
        credits: column(row, 1)?,
        username: column(row, 2)?,
        updated_at: time(row, 3)?,
    })
}

/// Converts a row of owner, tier and expires_at.
fn stored_key_row(row: &Row) -> Result<StoredKey, PgError> {
    Ok(StoredKey {
        owner: owner(row, 0)?,
        plan: plan(row, 1)?.unwrap_or_default(),
        expires_at: optional_time(row, 2)?,
    })
}

/// Returns a key that is not revoked, with the plan of its owner.
pub(super) fn stored_key(session: &PgSession, hash: &Digest) -> Result<Option<StoredKey>, PgError> {
    let sql = "SELECT k.owner, p.tier, k.expires_at
               FROM vault_key k LEFT JOIN vault_profile p USING (owner)
               WHERE k.hash = $1 AND k.revoked_at IS NULL";
    let row = session.query_opt(sql, &[&hash.as_bytes().as_slice()])?;
    row.as_ref().map(stored_key_row).transpose()
}

/// Returns the keys that have changed after a revision, or whose owner's profile has, as they are now.
pub(super) fn changes_after(
    session: &PgSession,
    revision: i64,
) -> Result<Vec<(Digest, Option<StoredKey>)>, PgError> {
    let sql = "WITH changed AS (
                   SELECT number FROM vault_key WHERE revision > $1
                   UNION SELECT k.number FROM vault_profile p JOIN vault_key k USING (owner)
                   WHERE p.revision > $1)
               SELECT k.owner, p.tier, k.expires_at, k.revoked_at, k.hash
               FROM changed JOIN vault_key k USING (number) LEFT JOIN vault_profile p USING (owner)";
    let change = |row: &Row| {
        let is_revoked = optional_time(row, 3)?.is_some();
        let key = if is_revoked { None } else { Some(stored_key_row(row)?) };
        Ok((digest(row, 4)?, key))
    };
    session.query(sql, &[&revision])?.iter().map(change).collect()
}

impl PgTables<'_> {
    /// Changes a key and notes it.
    fn change_key(
        &mut self,
        number: u64,
        column: &str,
        value: Option<Timestamp>,
    ) -> Result<(), VaultError> {
        let sql = format!(
            "UPDATE vault_key SET {column} = $2, revision = $3 WHERE number = $1 RETURNING hash"
        );
        let value = value.map(Timestamp::as_micros);
        let params: super::tables::Params<'_> = &[&signed(number), &value, &self.revision];
        let hash = self.first(&sql, params, |row| digest(row, 0))?;
        self.changed_keys.extend(hash);
        self.has_key_changes = true;
        Ok(())
    }
}

impl KeyTables for PgTables<'_> {
    fn key_by_hash(&mut self, hash: &Digest) -> Result<Option<KeyRow>, VaultError> {
        let sql = format!("SELECT {COLUMNS} FROM vault_key WHERE hash = $1");
        self.first(&sql, &[&hash.as_bytes().as_slice()], key_row)
    }

    fn keys_between(
        &mut self,
        (from, to): (&Digest, &Digest),
        limit: usize,
    ) -> Result<Vec<KeyRow>, VaultError> {
        let sql = format!("SELECT {COLUMNS} FROM vault_key WHERE hash BETWEEN $1 AND $2 LIMIT $3");
        let (from, to) = (from.as_bytes().as_slice(), to.as_bytes().as_slice());
        self.rows(&sql, &[&from, &to, &page(limit)], key_row)
    }

    fn unrevoked_keys(&mut self, owner: &Owner) -> Result<Vec<KeyRow>, VaultError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM vault_key WHERE owner = $1 AND revoked_at IS NULL ORDER BY number"
        );
        self.rows(&sql, &[&owner.as_str()], key_row)
    }

    fn keys_after(
        &mut self,
        owner: Option<&Owner>,
        after: u64,
        limit: usize,
    ) -> Result<Vec<KeyRow>, VaultError> {
        let filter = if owner.is_some() { "owner = $3" } else { "$3::text IS NULL" };
        let sql = format!(
            "SELECT {COLUMNS} FROM vault_key WHERE number > $1 AND {filter} ORDER BY number LIMIT $2"
        );
        let owner = owner.map(Owner::as_str);
        self.rows(&sql, &[&signed(after), &page(limit), &owner], key_row)
    }

    fn count_active_keys(&mut self, owner: &Owner, at: Timestamp) -> Result<usize, VaultError> {
        let sql = "SELECT count(*) FROM vault_key WHERE owner = $1 AND revoked_at IS NULL
                   AND (expires_at IS NULL OR expires_at > $2)";
        self.count(sql, &[&owner.as_str(), &at.as_micros()])
    }

    fn insert_key(
        &mut self,
        hash: &Digest,
        key: &NewKey<'_>,
        created_at: Timestamp,
    ) -> Result<KeyRow, VaultError> {
        let NewKey { owner, label, expires_at, .. } = key;
        let sql = format!(
            "INSERT INTO vault_key (hash, owner, label, created_at, expires_at, revision)
             VALUES ($1, $2, $3, $4, $5, $6) RETURNING {COLUMNS}"
        );
        let (created, expires) = (created_at.as_micros(), expires_at.map(Timestamp::as_micros));
        let hash = hash.as_bytes().as_slice();
        let row = self.first(
            &sql,
            &[&hash, &owner.as_str(), label, &created, &expires, &self.revision],
            key_row,
        )?;
        self.has_key_changes = true;
        row.ok_or_else(|| VaultError::internal("the database returned no key"))
    }

    fn set_key_expiry(&mut self, number: u64, end: Option<Timestamp>) -> Result<(), VaultError> {
        self.change_key(number, "expires_at", end)
    }

    fn set_key_revoked(&mut self, number: u64, at: Timestamp) -> Result<(), VaultError> {
        self.change_key(number, "revoked_at", Some(at))
    }

    fn profile(&mut self, owner: &Owner) -> Result<Option<ProfileRow>, VaultError> {
        let sql = "SELECT tier, credits, username, updated_at FROM vault_profile WHERE owner = $1";
        self.first(sql, &[&owner.as_str()], profile_row)
    }

    fn profiles_after(
        &mut self,
        after: &str,
        limit: usize,
    ) -> Result<Vec<(String, ProfileRow)>, VaultError> {
        let sql = "SELECT tier, credits, username, updated_at, owner FROM vault_profile
                   WHERE owner > $1 ORDER BY owner LIMIT $2";
        self.rows(sql, &[&after, &page(limit)], |row| Ok((column(row, 4)?, profile_row(row)?)))
    }

    fn merge_profile(
        &mut self,
        owner: &Owner,
        change: &ProfileChange,
        at: Timestamp,
    ) -> Result<(), VaultError> {
        let ProfileChange { credits, plan, username } = change;
        let sql =
            "INSERT INTO vault_profile AS p (owner, tier, credits, username, updated_at, revision)
                   VALUES ($1, $2, $3, $4, $5, $6)
                   ON CONFLICT (owner) DO UPDATE SET
                       tier = coalesce(excluded.tier, p.tier),
                       credits = coalesce(excluded.credits, p.credits),
                       username = coalesce(excluded.username, p.username),
                       updated_at = excluded.updated_at,
                       revision = excluded.revision";
        let plan = plan.map(Plan::as_str);
        let at = at.as_micros();
        self.execute(sql, &[&owner.as_str(), &plan, credits, username, &at, &self.revision])?;
        self.has_key_changes = true;
        Ok(())
    }
}
