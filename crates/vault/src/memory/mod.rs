//! Vault in memory, for tests: the smallest backend that keeps the contract.

mod logs;
mod secrets;

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use skills_core::{Digest, Owner, Timestamp};

use crate::{
    AuditEntry, KeyRow, NewKey, ProfileChange, VaultError,
    backend::{
        GrantRow, KeyChanges, KeyTables, ProfileRow, StoredKey, Tables, TablesFn, VaultBackend,
    },
};

/// Day, query and caller.
type MissKey = (i64, String, Vec<u8>);
/// Owner, skill and name.
type SecretKey = (String, String, String);

/// Tables, copied when they are changed: a copy of all is made for every transaction and savepoint.
#[derive(Debug, Clone, Default)]
struct Rows {
    keys: Arc<Vec<KeyRow>>,
    profiles: Arc<BTreeMap<String, ProfileRow>>,
    secrets: Arc<BTreeMap<SecretKey, (String, Timestamp)>>,
    grants: Arc<BTreeMap<SecretKey, GrantRow>>,
    audit: Arc<Vec<(Arc<AuditEntry>, Timestamp)>>,
    /// Count and last time.
    misses: Arc<BTreeMap<MissKey, (u64, Timestamp)>>,
    windows: Arc<BTreeMap<(Digest, u64), u32>>,
}

#[derive(Debug, Default)]
struct Shared {
    rows: Mutex<Rows>,
    /// Held during a write transaction, while readers see the rows before it.
    writer: Mutex<()>,
}

/// Vault in memory.
#[derive(Debug, Default)]
pub(crate) struct MemoryBackend {
    shared: Arc<Shared>,
    is_read_only: Mutex<bool>,
}

impl MemoryBackend {
    /// Opens the same rows again, as another process would.
    pub(crate) fn reopen(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), is_read_only: Mutex::default() }
    }
}

impl VaultBackend for MemoryBackend {
    fn with_reader(&self, run: &mut TablesFn<'_>) -> Result<(), VaultError> {
        let rows = self.shared.rows.lock().clone();
        run(&mut MemoryTables { rows, savepoints: vec![] })
    }

    fn with_transaction(&self, run: &mut TablesFn<'_>) -> Result<(), VaultError> {
        if *self.is_read_only.lock() {
            return Err(VaultError::internal("the vault is read-only"));
        }
        let _writer = self.shared.writer.lock();
        let rows = self.shared.rows.lock().clone();
        let mut tables = MemoryTables { rows, savepoints: vec![] };
        run(&mut tables)?;
        *self.shared.rows.lock() = tables.rows;
        Ok(())
    }

    fn stored_key(&self, hash: &Digest) -> Result<Option<StoredKey>, VaultError> {
        let rows = self.shared.rows.lock();
        let key = rows.keys.iter().find(|row| row.hash == *hash && row.revoked_at.is_none());
        Ok(key.map(|row| StoredKey {
            owner: row.owner.clone(),
            plan: rows
                .profiles
                .get(row.owner.as_str())
                .and_then(|profile| profile.plan)
                .unwrap_or_default(),
            expires_at: row.expires_at,
        }))
    }

    fn key_changes(&self) -> Result<KeyChanges, VaultError> {
        Ok(KeyChanges::All)
    }

    fn set_read_only(&self, read_only: bool) {
        *self.is_read_only.lock() = read_only;
    }
}

struct MemoryTables {
    rows: Rows,
    savepoints: Vec<Rows>,
}

impl Tables for MemoryTables {
    fn begin_savepoint(&mut self) -> Result<(), VaultError> {
        self.savepoints.push(self.rows.clone());
        Ok(())
    }

    fn end_savepoint(&mut self, keep: bool) -> Result<(), VaultError> {
        let before = self.savepoints.pop();
        if let Some(rows) = before.filter(|_| !keep) {
            self.rows = rows;
        }
        Ok(())
    }

    fn prepare_commit(&mut self) -> Result<(), VaultError> {
        Ok(())
    }
}

impl MemoryTables {
    fn keys(&self, limit: usize, is_selected: impl Fn(&KeyRow) -> bool) -> Vec<KeyRow> {
        self.rows.keys.iter().filter(|row| is_selected(row)).take(limit).cloned().collect()
    }

    fn change_key(&mut self, number: u64, change: impl Fn(&mut KeyRow)) {
        Arc::make_mut(&mut self.rows.keys)
            .iter_mut()
            .filter(|row| row.number == number)
            .for_each(change);
    }
}

impl KeyTables for MemoryTables {
    fn key_by_hash(&mut self, hash: &Digest) -> Result<Option<KeyRow>, VaultError> {
        Ok(self.keys(1, |row| row.hash == *hash).pop())
    }

    fn keys_between(
        &mut self,
        (from, to): (&Digest, &Digest),
        limit: usize,
    ) -> Result<Vec<KeyRow>, VaultError> {
        let range = from.as_bytes()..=to.as_bytes();
        Ok(self.keys(limit, |row| range.contains(&row.hash.as_bytes())))
    }

    fn unrevoked_keys(&mut self, owner: &Owner) -> Result<Vec<KeyRow>, VaultError> {
        Ok(self.keys(usize::MAX, |row| row.owner == *owner && row.revoked_at.is_none()))
    }

    fn keys_after(
        &mut self,
        owner: Option<&Owner>,
        after: u64,
        limit: usize,
    ) -> Result<Vec<KeyRow>, VaultError> {
        let is_owned = |row: &KeyRow| owner.is_none_or(|owner| row.owner == *owner);
        Ok(self.keys(limit, |row| row.number > after && is_owned(row)))
    }

    fn count_active_keys(&mut self, owner: &Owner, at: Timestamp) -> Result<usize, VaultError> {
        Ok(self.keys(usize::MAX, |row| row.owner == *owner && row.is_active(at)).len())
    }

    fn insert_key(
        &mut self,
        hash: &Digest,
        key: &NewKey<'_>,
        created_at: Timestamp,
    ) -> Result<KeyRow, VaultError> {
        let row = KeyRow {
            number: self.rows.keys.last().map_or(1, |row| row.number + 1),
            hash: *hash,
            owner: key.owner.clone(),
            label: key.label.map(str::to_owned),
            created_at,
            expires_at: key.expires_at,
            revoked_at: None,
        };
        Arc::make_mut(&mut self.rows.keys).push(row.clone());
        Ok(row)
    }

    fn set_key_expiry(&mut self, number: u64, end: Option<Timestamp>) -> Result<(), VaultError> {
        self.change_key(number, |row| row.expires_at = end);
        Ok(())
    }

    fn set_key_revoked(&mut self, number: u64, at: Timestamp) -> Result<(), VaultError> {
        self.change_key(number, |row| row.revoked_at = Some(at));
        Ok(())
    }

    fn profile(&mut self, owner: &Owner) -> Result<Option<ProfileRow>, VaultError> {
        Ok(self.rows.profiles.get(owner.as_str()).cloned())
    }

    fn profiles_after(
        &mut self,
        after: &str,
        limit: usize,
    ) -> Result<Vec<(String, ProfileRow)>, VaultError> {
        let rows = self.rows.profiles.iter().filter(|(owner, _)| owner.as_str() > after);
        Ok(rows.take(limit).map(|(owner, row)| (owner.clone(), row.clone())).collect())
    }

    fn merge_profile(
        &mut self,
        owner: &Owner,
        change: &ProfileChange,
        at: Timestamp,
    ) -> Result<(), VaultError> {
        let empty = ProfileRow { plan: None, credits: None, username: None, updated_at: at };
        let row = Arc::make_mut(&mut self.rows.profiles)
            .entry(owner.as_str().to_owned())
            .or_insert(empty);
        row.plan = change.plan.or(row.plan);
        row.credits = change.credits.or(row.credits);
        row.username = change.username.clone().or(row.username.take());
        row.updated_at = at;
        Ok(())
    }
}
