//! Queries that found nothing, counted by day for thirty days. A caller is stored as a hash that is used nowhere else.

use serde::Serialize;
use skills_core::{Caller, Digest, Timestamp};

use crate::{Vault, VaultError, backend::SearchMissRow};

/// Days for which queries are kept.
const KEPT_DAYS: i64 = 30;
/// Longest query that is kept, in characters.
const MAX_QUERY_CHARS: usize = 120;
/// Most rows: queries by day and caller.
const MAX_ROWS: usize = 20_000;
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

/// Returns the hash of a caller.
fn caller_hash(caller: &Caller) -> [u8; 8] {
    let name = match caller {
        Caller::Anonymous => "anonymous".to_owned(),
        Caller::User(user) => format!("user {}", user.owner),
        Caller::Admin(name) => format!("admin {name}"),
    };
    let digest = Digest::of(format!("search miss of {name}").as_bytes()).to_string();
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
        let (query, caller) = (normalize(query), caller_hash(caller));
        if query.is_empty() {
            return Ok(());
        }
        let day = at.as_micros() / MICROS_PER_DAY;
        self.backend.write(|tables| {
            tables.forget_search_misses(day - KEPT_DAYS)?;
            let may_insert = tables.count_search_misses()? < MAX_ROWS;
            let miss = SearchMissRow { day, query: &query, caller: &caller, at };
            tables.add_search_miss(&miss, may_insert)
        })
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
        let misses = self.backend.read(|tables| tables.search_misses(oldest, limit))?;
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

    contract! {
        misses_are_counted_and_forgotten_after_thirty_days,
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
