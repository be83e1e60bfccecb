//! Vault in memory, for tests: the smallest backend that keeps the contract.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use skills_core::{Digest, Owner, Timestamp};

use crate::{
    AuditEntry, KeyRow, NewKey, ProfileChange, RateWindow, VaultError,
    backend::{
        GrantRow, KeyChanges, KeyTables, LogTables, ProfileRow, SearchMissCount, SearchMissRow,
        SecretRow, SecretTables, StoredKey, Tables, TablesFn, VaultBackend,
    },
    crypt::SecretBinding,
    secrets::SealedRow,
};

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
    /// Count and last time by day, query and caller.
    misses: Arc<BTreeMap<(i64, String, Vec<u8>), (u64, Timestamp)>>,
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
        Arc::make_mut(&mut self.rows.keys).iter_mut().filter(|row| row.number == number).for_each(change);
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
        let row = Arc::make_mut(&mut self.rows.profiles).entry(owner.as_str().to_owned()).or_insert(empty);
        row.plan = change.plan.or(row.plan);
        row.credits = change.credits.or(row.credits);
        row.username = change.username.clone().or(row.username.take());
        row.updated_at = at;
        Ok(())
    }
}

fn secret_key(binding: SecretBinding<'_>) -> SecretKey {
    (binding.owner.to_owned(), binding.skill.to_owned(), binding.name.to_owned())
}

fn sealed_row((owner, skill, name): &SecretKey, envelope: &str) -> SealedRow {
    SealedRow {
        owner: owner.clone(),
        skill: skill.clone(),
        name: name.clone(),
        envelope: envelope.to_owned(),
    }
}

impl SecretTables for MemoryTables {
    fn secrets_for_skill(
        &mut self,
        owner: &str,
        skill: &str,
        names: &[String],
    ) -> Result<Vec<SealedRow>, VaultError> {
        let rows = self.rows.secrets.iter().filter(|((of, for_skill, name), _)| {
            of == owner && (for_skill.is_empty() || for_skill == skill) && names.contains(name)
        });
        Ok(rows.map(|(key, (envelope, _))| sealed_row(key, envelope)).collect())
    }

    fn secrets_of(
        &mut self,
        owner: &str,
        name: Option<&str>,
    ) -> Result<Vec<SecretRow>, VaultError> {
        let rows = self.rows.secrets.iter();
        let rows =
            rows.filter(|((of, _, named), _)| of == owner && name.is_none_or(|name| name == named));
        let mut rows: Vec<_> = rows
            .map(|((_, skill, name), (_, set_at))| SecretRow {
                name: name.clone(),
                skill: skill.clone(),
                set_at: *set_at,
            })
            .collect();
        rows.sort_by(|a, b| (&a.name, &a.skill).cmp(&(&b.name, &b.skill)));
        Ok(rows)
    }

    fn secret_names(&mut self, owner: &str, skill: &str) -> Result<Vec<String>, VaultError> {
        let keys =
            self.rows.secrets.keys().filter(|(of, for_skill, _)| of == owner && for_skill == skill);
        Ok(keys.map(|(_, _, name)| name.clone()).collect())
    }

    fn secrets_after(
        &mut self,
        (owner, skill, name): (&str, &str, &str),
        limit: usize,
    ) -> Result<Vec<SealedRow>, VaultError> {
        let after = (owner.to_owned(), skill.to_owned(), name.to_owned());
        let rows = self.rows.secrets.iter().filter(|(key, _)| **key > after);
        Ok(rows.take(limit).map(|(key, (envelope, _))| sealed_row(key, envelope)).collect())
    }

    fn count_secrets(&mut self, owner: &str) -> Result<usize, VaultError> {
        Ok(self.rows.secrets.keys().filter(|(of, ..)| of == owner).count())
    }

    fn put_secret(
        &mut self,
        binding: SecretBinding<'_>,
        envelope: &str,
        at: Timestamp,
    ) -> Result<(), VaultError> {
        Arc::make_mut(&mut self.rows.secrets).insert(secret_key(binding), (envelope.to_owned(), at));
        Ok(())
    }

    fn replace_envelope(&mut self, expected: &SealedRow, new: &str) -> Result<bool, VaultError> {
        let SealedRow { owner, skill, name, envelope } = expected;
        let row = Arc::make_mut(&mut self.rows.secrets).get_mut(&(owner.clone(), skill.clone(), name.clone()));
        let row = row.filter(|(current, _)| current == envelope);
        let is_replaced = row.is_some();
        if let Some((current, _)) = row {
            new.clone_into(current);
        }
        Ok(is_replaced)
    }

    fn remove_secret(&mut self, binding: SecretBinding<'_>) -> Result<bool, VaultError> {
        Ok(Arc::make_mut(&mut self.rows.secrets).remove(&secret_key(binding)).is_some())
    }

    fn grants_of(&mut self, owner: &str, name: Option<&str>) -> Result<Vec<GrantRow>, VaultError> {
        let rows = self.rows.grants.iter();
        let rows =
            rows.filter(|((of, _, named), _)| of == owner && name.is_none_or(|name| name == named));
        let mut rows: Vec<_> = rows.map(|(_, row)| row.clone()).collect();
        rows.sort_by(|a, b| (&a.name, &a.skill).cmp(&(&b.name, &b.skill)));
        Ok(rows)
    }

    fn grants_to_skill(
        &mut self,
        owner: &str,
        skill: &str,
        names: &[String],
    ) -> Result<Vec<GrantRow>, VaultError> {
        let rows = self
            .rows
            .grants
            .iter()
            .filter(|((of, to, name), _)| of == owner && to == skill && names.contains(name));
        Ok(rows.map(|(_, row)| row.clone()).collect())
    }

    fn count_grants(&mut self, owner: &str) -> Result<usize, VaultError> {
        Ok(self.rows.grants.keys().filter(|(of, ..)| of == owner).count())
    }

    fn put_grant(&mut self, owner: &str, grant: &GrantRow) -> Result<(), VaultError> {
        let key = (owner.to_owned(), grant.skill.clone(), grant.name.clone());
        Arc::make_mut(&mut self.rows.grants).insert(key, grant.clone());
        Ok(())
    }

    fn remove_grant(&mut self, binding: SecretBinding<'_>) -> Result<bool, VaultError> {
        Ok(Arc::make_mut(&mut self.rows.grants).remove(&secret_key(binding)).is_some())
    }
}

impl LogTables for MemoryTables {
    fn append_audit(
        &mut self,
        at: Timestamp,
        actor: &str,
        action: &str,
        subject: &str,
    ) -> Result<(), VaultError> {
        let number = self.rows.audit.last().map_or(1, |(entry, _)| entry.number + 1);
        let [actor, action, subject] = [actor, action, subject].map(str::to_owned);
        let entry = AuditEntry { number, at: at.to_string(), actor, action, subject };
        Arc::make_mut(&mut self.rows.audit).push((Arc::new(entry), at));
        Ok(())
    }

    fn audit_after(&mut self, after: u64, limit: usize) -> Result<Vec<AuditEntry>, VaultError> {
        let entries = self.rows.audit.iter().map(|(entry, _)| entry);
        let entries = entries.filter(|entry| entry.number > after).take(limit);
        Ok(entries.map(|entry| AuditEntry::clone(entry)).collect())
    }

    fn audit_before(
        &mut self,
        before: Option<u64>,
        text: &str,
        limit: usize,
    ) -> Result<Vec<AuditEntry>, VaultError> {
        let text = text.to_ascii_lowercase();
        let is_selected = |entry: &&Arc<AuditEntry>| {
            let all = format!("{} {} {}", entry.actor, entry.action, entry.subject);
            before.is_none_or(|before| entry.number < before)
                && all.to_ascii_lowercase().contains(&text)
        };
        let entries = self.rows.audit.iter().rev().map(|(entry, _)| entry);
        Ok(entries.filter(is_selected).take(limit).map(|entry| AuditEntry::clone(entry)).collect())
    }

    fn last_audit(&mut self, action: &str) -> Result<Option<Timestamp>, VaultError> {
        let entries = self.rows.audit.iter().filter(|(entry, _)| entry.action == action);
        Ok(entries.map(|(_, at)| *at).max())
    }

    fn forget_search_misses(&mut self, until_day: i64) -> Result<(), VaultError> {
        Arc::make_mut(&mut self.rows.misses).retain(|(day, ..), _| *day > until_day);
        Ok(())
    }

    fn count_search_misses(&mut self) -> Result<usize, VaultError> {
        Ok(self.rows.misses.len())
    }

    fn add_search_miss(
        &mut self,
        miss: &SearchMissRow<'_>,
        may_insert: bool,
    ) -> Result<(), VaultError> {
        let key = (miss.day, miss.query.to_owned(), miss.caller.to_owned());
        if may_insert || self.rows.misses.contains_key(&key) {
            let (count, last_at) = Arc::make_mut(&mut self.rows.misses).entry(key).or_insert((0, miss.at));
            *count += 1;
            *last_at = miss.at.max(*last_at);
        }
        Ok(())
    }

    fn search_misses(
        &mut self,
        after_day: i64,
        limit: usize,
    ) -> Result<Vec<SearchMissCount>, VaultError> {
        let mut by_query: BTreeMap<&String, (SearchMissCount, Vec<&Vec<u8>>)> = BTreeMap::new();
        for ((day, query, caller), (count, last_at)) in &*self.rows.misses {
            if *day > after_day {
                let empty = SearchMissCount {
                    query: query.clone(),
                    count: 0,
                    callers: 0,
                    last_at: *last_at,
                };
                let (sum, callers) = by_query.entry(query).or_insert((empty, vec![]));
                if !callers.contains(&caller) {
                    callers.push(caller);
                    sum.callers += 1;
                }
                sum.count += count;
                sum.last_at = sum.last_at.max(*last_at);
            }
        }
        let mut sums: Vec<_> = by_query.into_values().map(|(sum, _)| sum).collect();
        sums.sort_by_key(|sum| std::cmp::Reverse(sum.count));
        sums.truncate(limit);
        Ok(sums)
    }

    fn rate_windows(&mut self, from_minute: u64) -> Result<Vec<RateWindow>, VaultError> {
        let windows = self.rows.windows.iter().filter(|((_, minute), _)| *minute >= from_minute);
        let window = |((hash, minute), used): (&(Digest, u64), &u32)| RateWindow {
            hash: *hash,
            minute: *minute,
            used: *used,
        };
        Ok(windows.map(window).collect())
    }

    fn remove_rate_windows(&mut self, before_minute: Option<u64>) -> Result<(), VaultError> {
        Arc::make_mut(&mut self.rows.windows).retain(|(_, minute), _| before_minute.is_some_and(|it| *minute >= it));
        Ok(())
    }

    fn put_rate_window(&mut self, window: &RateWindow) -> Result<(), VaultError> {
        Arc::make_mut(&mut self.rows.windows).insert((window.hash, window.minute), window.used);
        Ok(())
    }
}
