//! Queries that found nothing, counted by day for thirty days. A caller is stored as a salted hash that is used nowhere
//! else.

use serde::Serialize;
use skills_core::{Caller, Digest, Timestamp};

use crate::{
    Vault, VaultError,
    backend::{SearchMissRow, Tables},
    crypt::random,
};

/// Days for which queries are kept.
const KEPT_DAYS: i64 = 30;
/// Longest query that is kept, in characters.
const MAX_QUERY_CHARS: usize = 120;
/// Most rows: queries by day and caller.
const MAX_ROWS: usize = 20_000;
/// Rows that make room for others when there are too many: the rarest and oldest.
const EVICTED_ROWS: usize = 1_000;
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
fn salt(tables: &mut dyn Tables) -> Result<Vec<u8>, VaultError> {
    if let Some(known) = tables.search_miss_callers(SALT_DAY)?.into_iter().next() {
        return Ok(known);
    }
    let salt: [u8; 16] = random()?;
    let at = Timestamp::from_micros(0);
    tables.add_search_miss(&SearchMissRow { day: SALT_DAY, query: "", caller: &salt, at })?;
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

impl Vault {
    /// Counts a query that found nothing, and forgets those of more than thirty days ago.
    ///
    /// # Errors
    /// When the vault cannot be written.
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
        self.backend.write(|tables| {
            tables.forget_search_misses(day - KEPT_DAYS)?;
            if tables.count_search_misses()? >= MAX_ROWS {
                tables.evict_search_misses(SALT_DAY, EVICTED_ROWS)?;
            }
            let caller = caller_hash(&salt(tables)?, caller);
            tables.add_search_miss(&SearchMissRow { day, query: &query, caller: &caller, at })
        })
    }

    /// Forgets the queries of more than thirty days ago, also where no other follows.
    ///
    /// # Errors
    /// When the vault cannot be written.
    pub fn forget_search_misses(&self, now: Timestamp) -> Result<(), VaultError> {
        let day = now.as_micros() / MICROS_PER_DAY;
        self.backend.write(|tables| tables.forget_search_misses(day - KEPT_DAYS))
    }

    /// Returns the queries that found nothing in the last thirty days, the most frequent first.
    ///
    /// # Errors
    /// When the vault cannot be read.
    pub fn search_misses(
        &self,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<SearchMiss>, VaultError> {
        let oldest = now.as_micros() / MICROS_PER_DAY - KEPT_DAYS;
        let misses = self.backend.read(|tables| tables.search_misses(oldest, SALT_DAY, limit))?;
        let misses = misses.into_iter().map(|miss| SearchMiss {
            query: miss.query,
            count: miss.count,
            callers: miss.callers,
            last_at: miss.last_at.to_string(),
        });
        Ok(misses.collect())
    }
}

#[cfg(test)]
mod tests {
    use skills_core::User;

    use super::*;
    use crate::vault::testing::{NOW, TestSite, contract, later, owner, vault};

    const TODAY: i64 = NOW.as_micros() / MICROS_PER_DAY;

    contract! {
        misses_are_counted_and_forgotten_after_thirty_days,
        hashes_of_two_vaults_differ,
        old_misses_are_forgotten_without_a_new_one,
        the_rarest_make_room_for_new_ones,
    }

    fn misses_are_counted_and_forgotten_after_thirty_days(site: &TestSite) {
        let vault = site.vault();
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
        vault.backend.read(|tables| tables.search_miss_callers(TODAY)).unwrap()
    }

    fn hashes_of_two_vaults_differ(site: &TestSite) {
        let (one, (other, _dir)) = (site.vault(), vault());
        for vault in [&one, &other] {
            vault.record_search_miss(&Caller::Anonymous, "query", NOW).unwrap();
            vault.record_search_miss(&Caller::Anonymous, "query", later(60)).unwrap();
        }
        let (one, other) = (stored_callers(&one), stored_callers(&other));
        assert_eq!((one.len(), other.len()), (1, 1));
        assert_ne!(one, other);
    }

    fn old_misses_are_forgotten_without_a_new_one(site: &TestSite) {
        let vault = site.vault();
        vault.record_search_miss(&Caller::Anonymous, "query", NOW).unwrap();
        vault.forget_search_misses(later(60)).unwrap();
        assert_eq!(stored_callers(&vault).len(), 1);
        vault.forget_search_misses(later(31 * 24 * 60 * 60)).unwrap();
        assert!(stored_callers(&vault).is_empty());
    }

    fn the_rarest_make_room_for_new_ones(site: &TestSite) {
        let vault = site.vault();
        for _ in 0..3 {
            vault.record_search_miss(&Caller::Anonymous, "frequent", NOW).unwrap();
        }
        let fill = |tables: &mut dyn Tables| {
            for number in 0..MAX_ROWS {
                let (query, at) = (format!("q{number}"), Timestamp::from_micros(0));
                let row = SearchMissRow { day: TODAY, query: &query, caller: &[0], at };
                tables.add_search_miss(&row)?;
            }
            Ok(())
        };
        vault.backend.write(fill).unwrap();
        vault.record_search_miss(&Caller::Anonymous, "new", NOW).unwrap();
        let misses = vault.search_misses(NOW, usize::MAX >> 1).unwrap();
        let has = |query: &str| misses.iter().any(|miss| miss.query == query);
        assert!(has("frequent") && has("new"));
        assert_eq!(misses.len(), MAX_ROWS + 2 - EVICTED_ROWS);
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
