//! Audit log, searches without a result and saved rate counters in memory.

use std::{collections::BTreeMap, sync::Arc};

use skills_core::{Digest, Timestamp};

use super::MemoryTables;
use crate::{
    AuditEntry, RateWindow, VaultError,
    backend::{LogTables, SearchMissCount, SearchMissRow},
};

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

    fn evict_search_misses(&mut self, before_day: i64, rows: usize) -> Result<(), VaultError> {
        let misses = Arc::make_mut(&mut self.rows.misses);
        let mut keys: Vec<_> =
            misses.keys().filter(|(day, ..)| *day < before_day).cloned().collect();
        keys.sort_by_key(|key| misses.get(key).copied());
        for key in keys.iter().take(rows) {
            misses.remove(key);
        }
        Ok(())
    }

    fn add_search_miss(&mut self, miss: &SearchMissRow<'_>) -> Result<(), VaultError> {
        let key = (miss.day, miss.query.to_owned(), miss.caller.to_owned());
        let (count, last_at) =
            Arc::make_mut(&mut self.rows.misses).entry(key).or_insert((0, miss.at));
        *count += 1;
        *last_at = miss.at.max(*last_at);
        Ok(())
    }

    fn search_miss_callers(&mut self, day: i64) -> Result<Vec<Vec<u8>>, VaultError> {
        let rows = self.rows.misses.keys().filter(|(of, ..)| *of == day);
        let mut callers: Vec<_> = rows.map(|(_, _, caller)| caller.clone()).collect();
        callers.sort();
        Ok(callers)
    }

    fn search_misses(
        &mut self,
        after_day: i64,
        before_day: i64,
        limit: usize,
    ) -> Result<Vec<SearchMissCount>, VaultError> {
        let mut by_query: BTreeMap<&String, (SearchMissCount, Vec<&Vec<u8>>)> = BTreeMap::new();
        for ((day, query, caller), (count, last_at)) in &*self.rows.misses {
            if *day > after_day && *day < before_day {
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
        Arc::make_mut(&mut self.rows.windows)
            .retain(|(_, minute), _| before_minute.is_some_and(|it| *minute >= it));
        Ok(())
    }

    fn put_rate_window(&mut self, window: &RateWindow) -> Result<(), VaultError> {
        Arc::make_mut(&mut self.rows.windows).insert((window.hash, window.minute), window.used);
        Ok(())
    }
}
