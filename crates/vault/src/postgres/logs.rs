//! Audit log, searches without a result and saved rate counters in PostgreSQL.

use skills_core::Timestamp;
use skills_postgres::{PgError, Row, column};

use super::tables::{PgTables, digest, page, signed, time, unsigned};
use crate::{
    AuditEntry, RateWindow, VaultError,
    backend::{LogTables, SearchMissCount, SearchMissRow},
};

fn audit_entry(row: &Row) -> Result<AuditEntry, PgError> {
    Ok(AuditEntry {
        number: unsigned(row, 0)?,
        at: time(row, 1)?.to_string(),
        actor: column(row, 2)?,
        action: column(row, 3)?,
        subject: column(row, 4)?,
    })
}

impl LogTables for PgTables<'_> {
    fn append_audit(
        &mut self,
        at: Timestamp,
        actor: &str,
        action: &str,
        subject: &str,
    ) -> Result<(), VaultError> {
        let sql = "INSERT INTO vault_audit (at, actor, action, subject) VALUES ($1, $2, $3, $4)";
        self.execute(sql, &[&at.as_micros(), &actor, &action, &subject]).map(drop)
    }

    fn audit_after(&mut self, after: u64, limit: usize) -> Result<Vec<AuditEntry>, VaultError> {
        let sql = "SELECT number, at, actor, action, subject FROM vault_audit
                   WHERE number > $1 ORDER BY number LIMIT $2";
        self.rows(sql, &[&signed(after), &page(limit)], audit_entry)
    }

    fn audit_before(
        &mut self,
        before: Option<u64>,
        text: &str,
        limit: usize,
    ) -> Result<Vec<AuditEntry>, VaultError> {
        // The collation of the columns folds ASCII letters only. A NUL is in no text of the database.
        let text = text.replace('\0', "\u{fffd}").to_ascii_lowercase();
        let sql = "SELECT number, at, actor, action, subject FROM vault_audit
                   WHERE number < $1 AND ($2 = ''
                   OR strpos(lower(actor || ' ' || action || ' ' || subject), $2) > 0)
                   ORDER BY number DESC LIMIT $3";
        let before = before.map_or(i64::MAX, signed);
        self.rows(sql, &[&before, &text, &page(limit)], audit_entry)
    }

    fn last_audit(&mut self, action: &str) -> Result<Option<Timestamp>, VaultError> {
        let sql = "SELECT at FROM vault_audit WHERE action = $1 ORDER BY at DESC LIMIT 1";
        self.first(sql, &[&action], |row| time(row, 0))
    }

    fn forget_search_misses(&mut self, until_day: i64) -> Result<(), VaultError> {
        self.execute("DELETE FROM vault_search_miss WHERE day <= $1", &[&until_day]).map(drop)
    }

    fn count_search_misses(&mut self) -> Result<usize, VaultError> {
        self.count("SELECT count(*) FROM vault_search_miss", &[])
    }

    fn evict_search_misses(&mut self, before_day: i64, rows: usize) -> Result<(), VaultError> {
        let sql = "DELETE FROM vault_search_miss WHERE (day, query, caller) IN (
                     SELECT day, query, caller FROM vault_search_miss WHERE day < $1
                     ORDER BY count, last_at LIMIT $2)";
        self.execute(sql, &[&before_day, &page(rows)]).map(drop)
    }

    fn add_search_miss(&mut self, miss: &SearchMissRow<'_>) -> Result<(), VaultError> {
        let SearchMissRow { day, query, caller, at } = miss;
        let sql = "INSERT INTO vault_search_miss AS m (day, query, caller, count, last_at)
                   VALUES ($1, $2, $3, 1, $4)
                   ON CONFLICT (day, query, caller) DO UPDATE
                   SET count = m.count + 1, last_at = greatest(m.last_at, excluded.last_at)";
        self.execute(sql, &[day, query, caller, &at.as_micros()]).map(drop)
    }

    fn search_miss_callers(&mut self, day: i64) -> Result<Vec<Vec<u8>>, VaultError> {
        let sql = "SELECT caller FROM vault_search_miss WHERE day = $1 ORDER BY caller";
        self.rows(sql, &[&day], |row| column(row, 0))
    }

    fn search_misses(
        &mut self,
        after_day: i64,
        before_day: i64,
        limit: usize,
    ) -> Result<Vec<SearchMissCount>, VaultError> {
        let sql = "SELECT query, sum(count)::bigint, count(DISTINCT caller), max(last_at)
                   FROM vault_search_miss WHERE day > $1 AND day < $3
                   GROUP BY query ORDER BY sum(count) DESC, query LIMIT $2";
        self.rows(sql, &[&after_day, &page(limit), &before_day], |row| {
            Ok(SearchMissCount {
                query: column(row, 0)?,
                count: unsigned(row, 1)?,
                callers: unsigned(row, 2)?,
                last_at: time(row, 3)?,
            })
        })
    }

    fn rate_windows(&mut self, from_minute: u64) -> Result<Vec<RateWindow>, VaultError> {
        let sql =
            "SELECT hash, minute, used FROM vault_rate WHERE minute >= $1 ORDER BY hash, minute";
        self.rows(sql, &[&signed(from_minute)], |row| {
            let used = u32::try_from(unsigned(row, 2)?).unwrap_or(u32::MAX);
            Ok(RateWindow { hash: digest(row, 0)?, minute: unsigned(row, 1)?, used })
        })
    }

    fn remove_rate_windows(&mut self, before_minute: Option<u64>) -> Result<(), VaultError> {
        let sql = "DELETE FROM vault_rate WHERE $1::bigint IS NULL OR minute < $1";
        self.execute(sql, &[&before_minute.map(signed)]).map(drop)
    }

    fn put_rate_window(&mut self, window: &RateWindow) -> Result<(), VaultError> {
        let RateWindow { hash, minute, used } = window;
        let sql = "INSERT INTO vault_rate (hash, minute, used) VALUES ($1, $2, $3)
                   ON CONFLICT (hash, minute) DO UPDATE SET used = excluded.used";
        let hash = hash.as_bytes().as_slice();
        self.execute(sql, &[&hash, &signed(*minute), &i64::from(*used)]).map(drop)
    }
}
