//! Audit log, searches without a result and saved rate counters in SQLite.

use rusqlite::{Row, params};
use skills_core::{Digest, Timestamp};

use super::SqliteTables;
use crate::{
    AuditEntry, RateWindow, VaultError,
    backend::{LogTables, SearchMissCount, SearchMissRow},
};

fn audit_entry(row: &Row<'_>) -> rusqlite::Result<AuditEntry> {
    Ok(AuditEntry {
        number: row.get(0)?,
        at: Timestamp::from_micros(row.get(1)?).to_string(),
        actor: row.get(2)?,
        action: row.get(3)?,
        subject: row.get(4)?,
    })
}

impl LogTables for SqliteTables<'_> {
    fn append_audit(
        &mut self,
        at: Timestamp,
        actor: &str,
        action: &str,
        subject: &str,
    ) -> Result<(), VaultError> {
        let sql = "INSERT INTO audit (at, actor, action, subject) VALUES (?1, ?2, ?3, ?4)";
        self.execute(sql, params![at.as_micros(), actor, action, subject]).map(drop)
    }

    fn audit_after(&mut self, after: u64, limit: usize) -> Result<Vec<AuditEntry>, VaultError> {
        let sql = "SELECT number, at, actor, action, subject FROM audit
                   WHERE number > ?1 ORDER BY number LIMIT ?2";
        let after = i64::try_from(after).unwrap_or(i64::MAX);
        self.rows(sql, params![after, limit], audit_entry)
    }

    fn audit_before(
        &mut self,
        before: Option<u64>,
        text: &str,
        limit: usize,
    ) -> Result<Vec<AuditEntry>, VaultError> {
        let sql = "SELECT number, at, actor, action, subject FROM audit
                   WHERE number < ?1 AND (?2 = ''
                   OR instr(lower(actor || ' ' || action || ' ' || subject), lower(?2)) > 0)
                   ORDER BY number DESC LIMIT ?3";
        let before = before.and_then(|before| i64::try_from(before).ok()).unwrap_or(i64::MAX);
        self.rows(sql, params![before, text, limit], audit_entry)
    }

    fn last_audit(&mut self, action: &str) -> Result<Option<Timestamp>, VaultError> {
        let at: Option<i64> = self.run(|connection| {
            let sql = "SELECT max(at) FROM audit WHERE action = ?1";
            connection.prepare_cached(sql)?.query_row([action], |row| row.get(0))
        })?;
        Ok(at.map(Timestamp::from_micros))
    }

    fn forget_search_misses(&mut self, until_day: i64) -> Result<(), VaultError> {
        self.execute("DELETE FROM search_miss WHERE day <= ?1", params![until_day]).map(drop)
    }

    fn count_search_misses(&mut self) -> Result<usize, VaultError> {
        self.count("SELECT count(*) FROM search_miss", params![])
    }

    fn evict_search_misses(&mut self, before_day: i64, rows: usize) -> Result<(), VaultError> {
        let sql = "DELETE FROM search_miss WHERE (day, query, caller) IN (
                     SELECT day, query, caller FROM search_miss WHERE day < ?1
                     ORDER BY count, last_at LIMIT ?2)";
        self.execute(sql, params![before_day, rows]).map(drop)
    }

    fn add_search_miss(&mut self, miss: &SearchMissRow<'_>) -> Result<(), VaultError> {
        let SearchMissRow { day, query, caller, at } = miss;
        let sql = "INSERT INTO search_miss (day, query, caller, count, last_at)
                   VALUES (?1, ?2, ?3, 1, ?4)
                   ON CONFLICT DO UPDATE
                   SET count = count + 1, last_at = max(last_at, excluded.last_at)";
        self.execute(sql, params![day, query, caller, at.as_micros()]).map(drop)
    }

    fn search_miss_callers(&mut self, day: i64) -> Result<Vec<Vec<u8>>, VaultError> {
        let sql = "SELECT caller FROM search_miss WHERE day = ?1 ORDER BY caller";
        self.rows(sql, params![day], |row| row.get(0))
    }

    fn search_misses(
        &mut self,
        after_day: i64,
        before_day: i64,
        limit: usize,
    ) -> Result<Vec<SearchMissCount>, VaultError> {
        let sql = "SELECT query, sum(count), count(DISTINCT caller), max(last_at) FROM search_miss
                   WHERE day > ?1 AND day < ?3 GROUP BY query ORDER BY sum(count) DESC, query LIMIT ?2";
        self.rows(sql, params![after_day, limit, before_day], |row| {
            Ok(SearchMissCount {
                query: row.get(0)?,
                count: row.get(1)?,
                callers: row.get(2)?,
                last_at: Timestamp::from_micros(row.get(3)?),
            })
        })
    }

    fn rate_windows(&mut self, from_minute: u64) -> Result<Vec<RateWindow>, VaultError> {
        let sql = "SELECT hash, minute, used FROM rate WHERE minute >= ?1 ORDER BY hash, minute";
        self.rows(sql, params![from_minute], |row| {
            let hash = Digest::from_bytes(row.get(0)?);
            Ok(RateWindow { hash, minute: row.get(1)?, used: row.get(2)? })
        })
    }

    fn remove_rate_windows(&mut self, before_minute: Option<u64>) -> Result<(), VaultError> {
        let sql = "DELETE FROM rate WHERE ?1 IS NULL OR minute < ?1";
        self.execute(sql, params![before_minute]).map(drop)
    }

    fn put_rate_window(&mut self, window: &RateWindow) -> Result<(), VaultError> {
        let RateWindow { hash, minute, used } = window;
        let sql = "INSERT OR REPLACE INTO rate (hash, minute, used) VALUES (?1, ?2, ?3)";
        self.execute(sql, params![hash.as_bytes(), minute, used]).map(drop)
    }
}
