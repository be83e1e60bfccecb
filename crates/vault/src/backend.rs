//! Boundary between the rules of the vault and the database below them.
//!
//! A [`VaultBackend`] runs reads and exclusive write transactions on rows. It knows tables and no rules: validation,
//! limits, encryption and the audit log are above it, once for all backends.

use std::{fmt, sync::Arc};

use skills_core::{Digest, Owner, Timestamp};

use crate::{
    AuditEntry, KeyRow, NewKey, Plan, ProfileChange, RateWindow, UserProfile, VaultError,
    crypt::SecretBinding, secrets::SealedRow,
};

/// Database of a vault.
pub(crate) trait VaultBackend: fmt::Debug + Send + Sync {
    /// Calls a function with the tables for reading. Each operation sees what was committed before it.
    fn with_reader(&self, run: &mut TablesFn<'_>) -> Result<(), VaultError>;

    /// Calls a function in a write transaction that excludes all others, also those of other processes, and commits it.
    /// An error of the function rolls it back.
    fn with_transaction(&self, run: &mut TablesFn<'_>) -> Result<(), VaultError>;

    /// Returns the key with this hash if it is not revoked, as it is stored now.
    fn stored_key(&self, hash: &Digest) -> Result<Option<StoredKey>, VaultError>;

    /// Returns the changes to keys and plans since the last call. Those made through this value are among them from the
    /// moment that their transaction returns.
    fn key_changes(&self) -> Result<KeyChanges, VaultError>;

    /// Returns the rate counters that all servers share, if the backend has any. Without them, one server counts.
    fn shared_counters(&self) -> Option<Arc<dyn SharedCounters>> {
        None
    }

    /// Returns whether copies in memory of what was read before may be used in place of a database that is away.
    fn may_use_copies(&self) -> bool {
        false
    }

    /// Returns whether secrets or grants may have changed since the last call, so that copies of them have to be dropped.
    fn take_secret_changes(&self) -> bool {
        false
    }

    /// Makes every write fail, as on a full disk.
    #[cfg(test)]
    fn set_read_only(&self, read_only: bool);
}

/// Function that is called with the tables of a vault.
pub(crate) type TablesFn<'a> = dyn FnMut(&mut dyn Tables) -> Result<(), VaultError> + 'a;

impl dyn VaultBackend {
    /// Reads, and returns the result of the function.
    pub(crate) fn read<T>(
        &self,
        run: impl FnOnce(&mut dyn Tables) -> Result<T, VaultError>,
    ) -> Result<T, VaultError> {
        call_once(run, |run| self.with_reader(run))
    }

    /// Writes in a transaction, and returns the result of the function.
    pub(crate) fn write<T>(
        &self,
        run: impl FnOnce(&mut dyn Tables) -> Result<T, VaultError>,
    ) -> Result<T, VaultError> {
        call_once(run, |run| self.with_transaction(run))
    }
}

/// Passes a function with a result through an interface that has none, so that the trait has no type parameters.
fn call_once<T>(
    run: impl FnOnce(&mut dyn Tables) -> Result<T, VaultError>,
    with: impl FnOnce(&mut TablesFn<'_>) -> Result<(), VaultError>,
) -> Result<T, VaultError> {
    let (mut run, mut outcome) = (Some(run), None);
    with(&mut |tables| {
        if let Some(run) = run.take() {
            outcome = Some(run(tables)?);
        }
        Ok(())
    })?;
    outcome.ok_or_else(|| VaultError::internal("the transaction was not run"))
}

/// Key that is not revoked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredKey {
    pub(crate) owner: Owner,
    pub(crate) plan: Plan,
    pub(crate) expires_at: Option<Timestamp>,
}

/// Changes to keys and plans.
#[derive(Debug)]
pub(crate) enum KeyChanges {
    /// Nothing has changed.
    None,
    /// Anything may have changed, and nothing that is cached can be used.
    All,
    /// Some keys have changed.
    #[cfg_attr(
        not(feature = "postgres"),
        expect(dead_code, reason = "only servers that share a database hear of single changes")
    )]
    Some {
        /// Present state of these keys, or none if they are revoked or have to be looked up again.
        keys: Vec<(Digest, Option<StoredKey>)>,
        /// Set if others may have changed. They have to be looked up again, and count while the database is away.
        others: bool,
    },
}

/// Rate counters that several servers share.
pub(crate) trait SharedCounters: fmt::Debug + Send + Sync {
    /// Counts uses, atomically for each key. A key and minute appears once.
    fn take(&self, requests: &[RateRequest]) -> Result<Vec<RateGrant>, VaultError>;

    /// Removes the counters before a minute.
    fn forget_before(&self, minute: u64) -> Result<(), VaultError>;
}

/// Uses of a key that want to be counted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RateRequest {
    pub(crate) hash: Digest,
    pub(crate) minute: u64,
    /// Number of uses that want to be counted.
    pub(crate) asked: u32,
    /// Most uses of the minute.
    pub(crate) allowed: u32,
    /// Uses that were allowed before without being counted there.
    #[cfg_attr(
        not(feature = "postgres"),
        expect(dead_code, reason = "only servers that share a database count together")
    )]
    pub(crate) carried: u32,
}

/// Answer to a [`RateRequest`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RateGrant {
    /// Uses of those asked that are counted and allowed.
    pub(crate) granted: u32,
    /// Uses of all servers in the minute.
    pub(crate) used: u32,
}

/// Tables of a vault, in a transaction or for reading.
pub(crate) trait Tables: KeyTables + SecretTables + LogTables {
    /// Begins a part of the transaction that can be undone.
    fn begin_savepoint(&mut self) -> Result<(), VaultError>;

    /// Ends the part of the transaction that was begun last, and undoes it unless it is kept.
    fn end_savepoint(&mut self, keep: bool) -> Result<(), VaultError>;

    /// Does what can be done of the commit before it, so that little can fail after.
    fn prepare_commit(&mut self) -> Result<(), VaultError>;
}

/// Keys and profiles.
pub(crate) trait KeyTables {
    /// Returns the row of a key.
    fn key_by_hash(&mut self, hash: &Digest) -> Result<Option<KeyRow>, VaultError>;

    /// Returns keys with hashes in a range, ends included.
    fn keys_between(
        &mut self,
        range: (&Digest, &Digest),
        limit: usize,
    ) -> Result<Vec<KeyRow>, VaultError>;

    /// Returns the keys of an owner that are not revoked, in order of numbers.
    fn unrevoked_keys(&mut self, owner: &Owner) -> Result<Vec<KeyRow>, VaultError>;

    /// Returns keys after a number, of one owner or of all, in order of numbers.
    fn keys_after(
        &mut self,
        owner: Option<&Owner>,
        after: u64,
        limit: usize,
    ) -> Result<Vec<KeyRow>, VaultError>;

    /// Returns the number of an owner's keys that are neither revoked nor expired.
    fn count_active_keys(&mut self, owner: &Owner, at: Timestamp) -> Result<usize, VaultError>;

    /// Adds a key; its number is larger than all before.
    fn insert_key(
        &mut self,
        hash: &Digest,
        key: &NewKey<'_>,
        created_at: Timestamp,
    ) -> Result<KeyRow, VaultError>;

    /// Changes the end of a key's life.
    fn set_key_expiry(&mut self, number: u64, end: Option<Timestamp>) -> Result<(), VaultError>;

    /// Marks a key as revoked.
    fn set_key_revoked(&mut self, number: u64, at: Timestamp) -> Result<(), VaultError>;

    /// Returns the stored fields of a profile.
    fn profile(&mut self, owner: &Owner) -> Result<Option<ProfileRow>, VaultError>;

    /// Returns profiles after an owner, in order of owners.
    fn profiles_after(
        &mut self,
        after: &str,
        limit: usize,
    ) -> Result<Vec<(String, ProfileRow)>, VaultError>;

    /// Sets the fields of a profile that the change has; the others stay.
    fn merge_profile(
        &mut self,
        owner: &Owner,
        change: &ProfileChange,
        at: Timestamp,
    ) -> Result<(), VaultError>;
}

/// Stored fields of a profile; unknown ones are absent.
#[derive(Debug, Clone)]
pub(crate) struct ProfileRow {
    pub(crate) plan: Option<Plan>,
    pub(crate) credits: Option<f64>,
    pub(crate) username: Option<String>,
    pub(crate) updated_at: Timestamp,
}

impl ProfileRow {
    /// Returns the profile with defaults for unknown fields.
    pub(crate) fn into_profile(self, default_username: &str) -> UserProfile {
        UserProfile {
            credits: self.credits.unwrap_or_default(),
            plan: self.plan.unwrap_or_default(),
            username: self.username.unwrap_or_else(|| default_username.to_owned()),
            updated_at: self.updated_at,
        }
    }
}

/// Encrypted secrets and grants. A skill is empty for secrets of all skills.
pub(crate) trait SecretTables {
    /// Returns the secrets with these names that are global or for a skill.
    fn secrets_for_skill(
        &mut self,
        owner: &str,
        skill: &str,
        names: &[String],
    ) -> Result<Vec<SealedRow>, VaultError>;

    /// Returns the secrets of an owner, with a name or all, in order of names and skills.
    fn secrets_of(&mut self, owner: &str, name: Option<&str>)
    -> Result<Vec<SecretRow>, VaultError>;

    /// Returns the names of an owner's secrets for a skill.
    fn secret_names(&mut self, owner: &str, skill: &str) -> Result<Vec<String>, VaultError>;

    /// Returns secrets after an owner, skill and name, in that order.
    fn secrets_after(
        &mut self,
        after: (&str, &str, &str),
        limit: usize,
    ) -> Result<Vec<SealedRow>, VaultError>;

    /// Returns the number of an owner's secrets.
    fn count_secrets(&mut self, owner: &str) -> Result<usize, VaultError>;

    /// Stores a secret in place of its previous value.
    fn put_secret(
        &mut self,
        binding: SecretBinding<'_>,
        envelope: &str,
        at: Timestamp,
    ) -> Result<(), VaultError>;

    /// Replaces the envelope of a secret if it is still the expected one. Returns whether it was.
    fn replace_envelope(&mut self, expected: &SealedRow, new: &str) -> Result<bool, VaultError>;

    /// Removes a secret. Returns whether it existed.
    fn remove_secret(&mut self, binding: SecretBinding<'_>) -> Result<bool, VaultError>;

    /// Returns the grants of an owner, of a secret or of all, in order of names and skills.
    fn grants_of(&mut self, owner: &str, name: Option<&str>) -> Result<Vec<GrantRow>, VaultError>;

    /// Returns the grants to a skill of secrets with these names.
    fn grants_to_skill(
        &mut self,
        owner: &str,
        skill: &str,
        names: &[String],
    ) -> Result<Vec<GrantRow>, VaultError>;

    /// Returns the number of an owner's grants.
    fn count_grants(&mut self, owner: &str) -> Result<usize, VaultError>;

    /// Stores a grant in place of a previous one.
    fn put_grant(&mut self, owner: &str, grant: &GrantRow) -> Result<(), VaultError>;

    /// Removes a grant. Returns whether it existed.
    fn remove_grant(&mut self, binding: SecretBinding<'_>) -> Result<bool, VaultError>;
}

/// Stored row of a secret, without its value.
#[derive(Debug, Clone)]
pub(crate) struct SecretRow {
    pub(crate) name: String,
    pub(crate) skill: String,
    pub(crate) set_at: Timestamp,
}

/// Stored row of a grant.
#[derive(Debug, Clone)]
pub(crate) struct GrantRow {
    pub(crate) name: String,
    pub(crate) skill: String,
    pub(crate) granted_at: Timestamp,
    /// Origin that the secret may be sent to; absent until the first call.
    pub(crate) origin: Option<String>,
}

/// Audit log, searches without a result, and saved rate counters.
pub(crate) trait LogTables {
    /// Adds an entry to the audit log; its number is larger than all before.
    fn append_audit(
        &mut self,
        at: Timestamp,
        actor: &str,
        action: &str,
        subject: &str,
    ) -> Result<(), VaultError>;

    /// Returns entries after a number, oldest first.
    fn audit_after(&mut self, after: u64, limit: usize) -> Result<Vec<AuditEntry>, VaultError>;

    /// Returns entries before a number, newest first, whose actor, action or subject contains a text. ASCII letters match
    /// in either case.
    fn audit_before(
        &mut self,
        before: Option<u64>,
        text: &str,
        limit: usize,
    ) -> Result<Vec<AuditEntry>, VaultError>;

    /// Returns the time of the last entry with an action.
    fn last_audit(&mut self, action: &str) -> Result<Option<Timestamp>, VaultError>;

    /// Removes searches up to a day, that day included.
    fn forget_search_misses(&mut self, until_day: i64) -> Result<(), VaultError>;

    /// Returns the number of rows of searches.
    fn count_search_misses(&mut self) -> Result<usize, VaultError>;

    /// Removes this many rows of the days before a day, the rarest and oldest first.
    fn evict_search_misses(&mut self, before_day: i64, rows: usize) -> Result<(), VaultError>;

    /// Counts a search.
    fn add_search_miss(&mut self, miss: &SearchMissRow<'_>) -> Result<(), VaultError>;

    /// Returns the callers of the searches of a day, in order of their bytes.
    fn search_miss_callers(&mut self, day: i64) -> Result<Vec<Vec<u8>>, VaultError>;

    /// Returns searches between two days by query, the most frequent first. Neither day is included.
    fn search_misses(
        &mut self,
        after_day: i64,
        before_day: i64,
        limit: usize,
    ) -> Result<Vec<SearchMissCount>, VaultError>;

    /// Returns the saved counters from a minute on, in order of hashes and minutes.
    fn rate_windows(&mut self, from_minute: u64) -> Result<Vec<RateWindow>, VaultError>;

    /// Removes the saved counters before a minute, or all.
    fn remove_rate_windows(&mut self, before_minute: Option<u64>) -> Result<(), VaultError>;

    /// Saves a counter in place of its previous value.
    fn put_rate_window(&mut self, window: &RateWindow) -> Result<(), VaultError>;
}

/// One search without a result.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SearchMissRow<'a> {
    /// The day since 1970.
    pub(crate) day: i64,
    pub(crate) query: &'a str,
    pub(crate) caller: &'a [u8],
    pub(crate) at: Timestamp,
}

/// Searches of one query without a result.
#[derive(Debug, Clone)]
pub(crate) struct SearchMissCount {
    pub(crate) query: String,
    pub(crate) count: u64,
    pub(crate) callers: u64,
    pub(crate) last_at: Timestamp,
}
