//! Queries that found nothing, counted by day for thirty days. A caller is stored as a salted hash that is used nowhere
//! else.

use rusqlite::{OptionalExtension as _, Transaction, params};
use serde::Serialize;
use skills_core::{Caller, Digest, Timestamp};

use crate::{Vault, VaultError, crypt::random, file::TxError};

/// Days for which queries are kept.
const KEPT_DAYS: i64 = 30;
/// Longest query that is kept, in characters.
const MAX_QUERY_CHARS: usize = 120;
/// Most rows: queries by day and caller.
const MAX_ROWS: i64 = 20_000;
/// Rows that make room for others when there are too many: the rarest and oldest.
const EVICTED_ROWS: i64 = 1_000;
/// Day of the row that holds the salt of the hashes. It has no query and is never listed.
const SALT_DAY: i64 = i64::MAX;
const MICROS_PER_DAY: i64 = 24 * 60 * 60 * 1_000_000;

/// Query that found nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SearchMiss {
    /// Query, folded and cut.
    pub query: String,
    /// Times that it was searched for.
    pub count: u64,
    /// Number of callers who searched for it; all without a key are one.
    pub callers: u64,
    /// Time of the last search, as RFC 3339.
    pub last_at: String,
}

/// Returns the form of a query in which equal ones are counted together.
fn normalize(query: &str) -> String {
    let words: Vec<String> = query.split_whitespace().map(str::to_lowercase).collect();
    let joined = words.join(" ");
    joined.chars().filter(|c| !c.is_control()).take(MAX_QUERY_CHARS).collect()
}

/// Returns the salt of this vault, which is created once. Equal callers of two vaults have different hashes.
fn salt(transaction: &Transaction<'_>) -> Result<Vec<u8>, TxError> {
    let sql = "SELECT caller FROM search_miss WHERE day = ?1";
    let known = transaction.query_row(sql, [SALT_DAY], |row| row.get(0)).optional()?;
    if let Some(known) = known {
        return Ok(known);
    }
    let salt: [u8; 16] = random()?;
    let sql =
        "INSERT INTO search_miss (day, query, caller, count, last_at) VALUES (?1, '', ?2, 0, 0)";
    transaction.execute(sql, params![SALT_DAY, &salt[..]])?;
    Ok(salt.to_vec())
}

/// Returns the hash of a caller.
fn caller_hash(salt: &[u8], caller: &Caller) -> [u8; 8] {
    let name = match caller {
        Caller::Anonymous => "anonymous".to_owned(),
        Caller::User(user) => format!("user {}", user.owner),
        Caller::Admin(name) => format!("admin {name}"),
    };
    let digest = Digest::of(&[salt, name.as_bytes()].concat()).to_string();
    let mut hash = [0; 8];
    for (byte, digit) in hash.iter_mut().zip(digest.bytes()) {
        *byte = digit;
    }
    hash
}

/// Deletes the rows of more than thirty days before a day.
fn forget(transaction: &Transaction<'_>, day: i64) -> Result<(), TxError> {
    transaction.execute("DELETE FROM search_miss WHERE day <= ?1", [day - KEPT_DAYS])?;
    Ok(())
}

impl Vault {
    /// Counts a query that found nothing, and forgets those of more than thirty days ago.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn record_search_miss(
        &self,
        caller: &Caller,
        query: &str,
        at: Timestamp,
    ) -> Result<(), VaultError> {
        let query = normalize(query);
        if query.is_empty() {
            return Ok(());
        }
        let day = at.as_micros() / MICROS_PER_DAY;
        self.file.write(|transaction| {
            forget(transaction, day)?;
            let rows: i64 =
                transaction.query_row("SELECT count(*) FROM search_miss", [], |row| row.get(0))?;
            if rows >= MAX_ROWS {
                let sql = "DELETE FROM search_miss WHERE (day, query, caller) IN (
                             SELECT day, query, caller FROM search_miss WHERE day < ?1
                             ORDER BY count, last_at LIMIT ?2)";
                transaction.execute(sql, [SALT_DAY, EVICTED_ROWS])?;
            }
            let caller = caller_hash(&salt(transaction)?, caller);
            let sql = "INSERT INTO search_miss (day, query, caller, count, last_at) VALUES (?1, ?2, ?3, 1, ?4)
                 ON CONFLICT DO UPDATE SET count = count + 1, last_at = max(last_at, excluded.last_at)";
            transaction.prepare_cached(sql)?.execute(params![day, query, &caller[..], at.as_micros()])?;
            Ok(())
        })
    }

    /// Forgets the queries of more than thirty days ago, also where no other follows.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn forget_search_misses(&self, now: Timestamp) -> Result<(), VaultError> {
        self.file.write(|transaction| forget(transaction, now.as_micros() / MICROS_PER_DAY))
    }

    /// Returns the queries that found nothing in the last thirty days, the most frequent first.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn search_misses(
        &self,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<SearchMiss>, VaultError> {
        let oldest = now.as_micros() / MICROS_PER_DAY - KEPT_DAYS;
        self.file.read(|connection| {
            let sql =
                "SELECT query, sum(count), count(DISTINCT caller), max(last_at) FROM search_miss
                       WHERE day > ?1 AND day < ?3 GROUP BY query ORDER BY sum(count) DESC, query LIMIT ?2";
            let mut statement = connection.prepare_cached(sql)?;
            let misses = statement.query_map(params![oldest, limit, SALT_DAY], |row| {
                Ok(SearchMiss {
                    query: row.get(0)?,
                    count: row.get(1)?,
                    callers: row.get(2)?,
                    last_at: Timestamp::from_micros(row.get(3)?).to_string(),
                })
            })?;
            Ok(misses.collect::<rusqlite::Result<_>>()?)
        })
    }
}

#[cfg(test)]
mod tests {
    use skills_core::User;

    use super::*;
    use crate::vault::testing::{NOW, later, owner, vault};

    #[test]
    fn misses_are_counted_and_forgotten_after_thirty_days() {
        let (vault, _dir) = vault();
        let ann = Caller::User(User { owner: owner("ann"), key: Digest::of(b"k") });
        for caller in [&Caller::Anonymous, &Caller::Anonymous, &ann] {
            vault.record_search_miss(caller, "  Yak\n SHAVING\0 ", NOW).unwrap();
        }
        vault.record_search_miss(&ann, "other", NOW).unwrap();
        vault.record_search_miss(&ann, " \n", NOW).unwrap();
        let misses = vault.search_misses(NOW, 10).unwrap();
        let shown: Vec<_> =
            misses.iter().map(|miss| (miss.query.as_str(), miss.count, miss.callers)).collect();
        assert_eq!(shown, [("yak shaving", 3, 2), ("other", 1, 1)]);
        let month_later = later(31 * 24 * 60 * 60);
        assert!(vault.search_misses(month_later, 10).unwrap().is_empty());
        vault.record_search_miss(&ann, &"x".repeat(500), month_later).unwrap();
        let left = vault.search_misses(NOW, 10).unwrap();
        assert_eq!(left.len(), 1, "older ones were deleted: {left:?}");
        assert_eq!(left[0].query.len(), MAX_QUERY_CHARS);
    }

    fn stored_callers(vault: &Vault) -> Vec<Vec<u8>> {
        let read = vault.file.read(|connection| {
            let sql = "SELECT caller FROM search_miss WHERE day < ?1";
            let mut statement = connection.prepare(sql)?;
            let callers = statement.query_map([SALT_DAY], |row| row.get(0))?;
            Ok(callers.collect::<rusqlite::Result<_>>()?)
        });
        read.unwrap()
    }

    #[test]
    fn hashes_of_two_vaults_differ() {
        let ((one, _one), (other, _other)) = (vault(), vault());
        for vault in [&one, &other] {
            vault.record_search_miss(&Caller::Anonymous, "query", NOW).unwrap();
            vault.record_search_miss(&Caller::Anonymous, "query", later(60)).unwrap();
        }
        let (one, other) = (stored_callers(&one), stored_callers(&other));
        assert_eq!((one.len(), other.len()), (1, 1));
        assert_ne!(one, other);
    }

    #[test]
    fn old_misses_are_forgotten_without_a_new_one() {
        let (vault, _dir) = vault();
        vault.record_search_miss(&Caller::Anonymous, "query", NOW).unwrap();
        vault.forget_search_misses(later(60)).unwrap();
        assert_eq!(stored_callers(&vault).len(), 1);
        vault.forget_search_misses(later(31 * 24 * 60 * 60)).unwrap();
        assert!(stored_callers(&vault).is_empty());
    }

    #[test]
    fn the_rarest_make_room_for_new_ones() {
        let (vault, _dir) = vault();
        for _ in 0..3 {
            vault.record_search_miss(&Caller::Anonymous, "frequent", NOW).unwrap();
        }
        let fill = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
                    INSERT INTO search_miss SELECT ?2, 'q' || i, x'00', 1, 0 FROM n";
        let day = NOW.as_micros() / MICROS_PER_DAY;
        vault.file.write(|transaction| Ok(transaction.execute(fill, [MAX_ROWS, day])?)).unwrap();
        vault.record_search_miss(&Caller::Anonymous, "new", NOW).unwrap();
        let misses = vault.search_misses(NOW, usize::MAX >> 1).unwrap();
        let has = |query: &str| misses.iter().any(|miss| miss.query == query);
        assert!(has("frequent") && has("new"));
        assert_eq!(i64::try_from(misses.len()).unwrap(), MAX_ROWS + 2 - EVICTED_ROWS);
    }

    #[test]
    fn callers_are_stored_as_hashes() {
        let (vault, dir) = vault();
        let ann = Caller::User(User { owner: owner("ann-the-first"), key: Digest::of(b"k") });
        vault.record_search_miss(&ann, "query", NOW).unwrap();
        drop(vault);
        let bytes = std::fs::read(dir.path().join("vault.sqlite")).unwrap();
        let has = |text: &[u8]| bytes.windows(text.len()).any(|window| window == text);
        assert!(has(b"query") && !has(b"ann-the-first"));
    }
}
