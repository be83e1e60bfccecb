//! Keys and profiles in SQLite.

use rusqlite::{OptionalExtension as _, Row, params};
use skills_core::{Digest, Owner, Timestamp};

use super::{SqliteTables, corrupt_column};
use crate::{
    KeyRow, NewKey, Plan, ProfileChange, VaultError,
    backend::{KeyTables, ProfileRow, StoredKey},
};

const COLUMNS: &str = "number, hash, owner, label, created_at, expires_at, revoked_at";

fn time(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Timestamp>> {
    Ok(row.get::<_, Option<i64>>(column)?.map(Timestamp::from_micros))
}

fn owner(row: &Row<'_>, column: usize) -> rusqlite::Result<Owner> {
    row.get_ref(column)?.as_str()?.parse().map_err(|_| corrupt_column("owner"))
}

fn plan(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Plan>> {
    let text = row.get_ref(column)?.as_str_or_null()?;
    text.map(|text| text.parse().map_err(|_| corrupt_column("tier"))).transpose()
}

/// Converts a row of [`COLUMNS`].
fn key_row(row: &Row<'_>) -> rusqlite::Result<KeyRow> {
    Ok(KeyRow {
        number: row.get(0)?,
        hash: Digest::from_bytes(row.get(1)?),
        owner: owner(row, 2)?,
        label: row.get(3)?,
        created_at: Timestamp::from_micros(row.get(4)?),
        expires_at: time(row, 5)?,
        revoked_at: time(row, 6)?,
    })
}

/// Converts a row of `profile`: tier, credits, username, updated_at.
fn profile_row(row: &Row<'_>) -> rusqlite::Result<ProfileRow> {
    Ok(ProfileRow {
        plan: plan(row, 0)?,
        credits: row.get(1)?,
        username: row.get(2)?,
        updated_at: Timestamp::from_micros(row.get(3)?),
    })
}

/// Returns a key that is not revoked, with the plan of its owner.
pub(super) fn stored_key(
    connection: &rusqlite::Connection,
    hash: &Digest,
) -> rusqlite::Result<Option<StoredKey>> {
    let sql = "SELECT k.owner, p.tier, k.expires_at FROM key k LEFT JOIN profile p USING (owner)
               WHERE k.hash = ?1 AND k.revoked_at IS NULL";
    let mut statement = connection.prepare_cached(sql)?;
    let key = statement.query_row([hash.as_bytes()], |row| {
        let plan = plan(row, 1)?.unwrap_or_default();
        Ok(StoredKey { owner: owner(row, 0)?, plan, expires_at: time(row, 2)? })
    });
    key.optional()
}

impl KeyTables for SqliteTables<'_> {
    fn key_by_hash(&mut self, hash: &Digest) -> Result<Option<KeyRow>, VaultError> {
        self.run(|connection| {
            let sql = format!("SELECT {COLUMNS} FROM key WHERE hash = ?1");
            connection.prepare_cached(&sql)?.query_row([hash.as_bytes()], key_row).optional()
        })
    }

    fn keys_between(
        &mut self,
        (from, to): (&Digest, &Digest),
        limit: usize,
    ) -> Result<Vec<KeyRow>, VaultError> {
        let sql = format!("SELECT {COLUMNS} FROM key WHERE hash BETWEEN ?1 AND ?2 LIMIT ?3");
        self.rows(&sql, params![from.as_bytes(), to.as_bytes(), limit], key_row)
    }

    fn unrevoked_keys(&mut self, owner: &Owner) -> Result<Vec<KeyRow>, VaultError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM key WHERE owner = ?1 AND revoked_at IS NULL ORDER BY number"
        );
        self.rows(&sql, params![owner.as_str()], key_row)
    }

    fn keys_after(
        &mut self,
        owner: Option<&Owner>,
        after: u64,
        limit: usize,
    ) -> Result<Vec<KeyRow>, VaultError> {
        let filter = if owner.is_some() { "owner = ?3" } else { "?3 IS NULL" };
        let sql = format!(
            "SELECT {COLUMNS} FROM key WHERE number > ?1 AND {filter} ORDER BY number LIMIT ?2"
        );
        self.rows(&sql, params![after, limit, owner.map(Owner::as_str)], key_row)
    }

    fn count_active_keys(&mut self, owner: &Owner, at: Timestamp) -> Result<usize, VaultError> {
        let sql = "SELECT count(*) FROM key WHERE owner = ?1 AND revoked_at IS NULL
                   AND (expires_at IS NULL OR expires_at > ?2)";
        self.count(sql, params![owner.as_str(), at.as_micros()])
    }

    fn insert_key(
        &mut self,
        hash: &Digest,
        key: &NewKey<'_>,
        created_at: Timestamp,
    ) -> Result<KeyRow, VaultError> {
        let NewKey { owner, label, expires_at, .. } = key;
        self.run(|connection| {
            let sql = format!(
                "INSERT INTO key (hash, owner, label, created_at, expires_at)
                 VALUES (?1, ?2, ?3, ?4, ?5) RETURNING {COLUMNS}"
            );
            let (created, expires) = (created_at.as_micros(), expires_at.map(Timestamp::as_micros));
            let values = params![hash.as_bytes(), owner.as_str(), label, created, expires];
            connection.prepare_cached(&sql)?.query_row(values, key_row)
        })
    }

    fn set_key_expiry(&mut self, number: u64, end: Option<Timestamp>) -> Result<(), VaultError> {
        let sql = "UPDATE key SET expires_at = ?2 WHERE number = ?1";
        self.execute(sql, params![number, end.map(Timestamp::as_micros)]).map(drop)
    }

    fn set_key_revoked(&mut self, number: u64, at: Timestamp) -> Result<(), VaultError> {
        let sql = "UPDATE key SET revoked_at = ?2 WHERE number = ?1";
        self.execute(sql, params![number, at.as_micros()]).map(drop)
    }

    fn profile(&mut self, owner: &Owner) -> Result<Option<ProfileRow>, VaultError> {
        self.run(|connection| {
            let sql = "SELECT tier, credits, username, updated_at FROM profile WHERE owner = ?1";
            connection.prepare_cached(sql)?.query_row([owner.as_str()], profile_row).optional()
        })
    }

    fn profiles_after(
        &mut self,
        after: &str,
        limit: usize,
    ) -> Result<Vec<(String, ProfileRow)>, VaultError> {
        let sql = "SELECT tier, credits, username, updated_at, owner FROM profile
                   WHERE owner > ?1 ORDER BY owner LIMIT ?2";
        self.rows(sql, params![after, limit], |row| Ok((row.get(4)?, profile_row(row)?)))
    }

    fn merge_profile(
        &mut self,
        owner: &Owner,
        change: &ProfileChange,
        at: Timestamp,
    ) -> Result<(), VaultError> {
        let ProfileChange { credits, plan, username } = change;
        let sql = "INSERT INTO profile (owner, tier, credits, username, updated_at)
                   VALUES (?1, ?2, ?3, ?4, ?5)
                   ON CONFLICT (owner) DO UPDATE SET
                       tier = coalesce(excluded.tier, tier),
                       credits = coalesce(excluded.credits, credits),
                       username = coalesce(excluded.username, username),
                       updated_at = excluded.updated_at";
        let plan = plan.map(Plan::as_str);
        let row = params![owner.as_str(), plan, credits, username, at.as_micros()];
        self.execute(sql, row).map(drop)
    }
}
