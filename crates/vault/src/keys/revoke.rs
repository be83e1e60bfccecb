//! Revoking keys: one by its id or by itself, or all of an owner.

use rusqlite::{Connection, params};
use skills_core::{Digest, Owner};

use super::{COLUMNS, ID_DIGITS, KeyRow, by_hash, hash_of, key_id, key_row, subject};
use crate::{Act, Vault, VaultError, audit::record, file::Stop};

/// Which keys are meant.
#[derive(Clone, Copy)]
pub enum WhichKeys<'a> {
    /// The one with an id that begins like this.
    Id(&'a str),
    /// This one.
    Key(&'a str),
    /// All of an owner.
    Of(&'a Owner),
}

impl Vault {
    /// Revokes keys, from the next request on. Gives those that could be used before.
    ///
    /// # Errors
    /// When an id is none, or that of no key or of several, or the file cannot be written.
    pub fn revoke_keys(
        &self,
        act: Act<'_>,
        which: WhichKeys<'_>,
    ) -> Result<Vec<KeyRow>, VaultError> {
        self.file.write(|transaction| revoke(transaction, act, which))
    }
}

/// Revokes keys, in the transaction of who asks.
pub(crate) fn revoke(
    transaction: &Connection,
    act: Act<'_>,
    which: WhichKeys<'_>,
) -> Result<Vec<KeyRow>, Stop> {
    let mut rows = self::which(transaction, which)?;
    rows.retain(|row| row.revoked_at.is_none());
    for row in &mut rows {
        let sql = "UPDATE key SET revoked_at = ?2 WHERE number = ?1";
        let change = params![row.number, act.at.as_micros()];
        transaction.prepare_cached(sql)?.execute(change)?;
        record(transaction, act, "key.revoke", &subject(row))?;
        row.revoked_at = Some(act.at);
    }
    Ok(rows)
}

fn which(connection: &Connection, which: WhichKeys<'_>) -> Result<Vec<KeyRow>, Stop> {
    match which {
        WhichKeys::Of(owner) => {
            let sql = format!(
                "SELECT {COLUMNS} FROM key WHERE owner = ?1 AND revoked_at IS NULL ORDER BY number"
            );
            let mut statement = connection.prepare_cached(&sql)?;
            Ok(statement.query_map([owner.as_str()], key_row)?.collect::<rusqlite::Result<_>>()?)
        }
        WhichKeys::Key(key) => match hash_of(key) {
            Some(hash) => match by_hash(connection, &hash)? {
                Some(row) => Ok(vec![row]),
                None => Err(VaultError::NoSuchKey(key_id(&hash)).into()),
            },
            None => Err(VaultError::NotAKey.into()),
        },
        WhichKeys::Id(id) => {
            if id.len() < ID_DIGITS {
                return Err(VaultError::BadKeyId.into());
            }
            let (from, to) = (padded(id, '0')?, padded(id, 'f')?);
            let sql = format!("SELECT {COLUMNS} FROM key WHERE hash BETWEEN ?1 AND ?2 LIMIT 2");
            let mut statement = connection.prepare_cached(&sql)?;
            let found = statement.query_map([from.as_bytes(), to.as_bytes()], key_row)?;
            let found: Vec<KeyRow> = found.collect::<rusqlite::Result<_>>()?;
            match found.len() {
                0 => Err(VaultError::NoSuchKey(id.to_owned()).into()),
                1 => Ok(found),
                _ => Err(VaultError::AmbiguousKey(id.to_owned()).into()),
            }
        }
    }
}

/// The first or last hash that begins with these digits.
fn padded(id: &str, fill: char) -> Result<Digest, VaultError> {
    let missing = 64_usize.saturating_sub(id.len());
    let text = format!("{id}{}", String::from(fill).repeat(missing));
    text.parse().map_err(|_| VaultError::BadKeyId)
}
