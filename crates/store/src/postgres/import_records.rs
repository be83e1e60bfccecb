//! Records of imports in PostgreSQL. Leases end by the clock of the database, so clocks of servers may differ.

use std::time::Duration;

use skills_postgres::column;

use super::{PostgresStore, rows};
use crate::{
    ServerId, StoreError,
    import_records::{ImportRecords, LeasedRecord},
};

impl ImportRecords for PostgresStore {
    fn list(&self) -> Result<Vec<String>, StoreError> {
        self.read(|session| {
            let sql = "SELECT record FROM import_record WHERE record IS NOT NULL ORDER BY name";
            session.query(sql, &[])?.iter().map(|row| column(row, 0)).collect()
        })
    }

    fn text(&self, name: &str) -> Result<Option<String>, StoreError> {
        self.read(|session| {
            let sql = "SELECT record FROM import_record WHERE name = $1 AND record IS NOT NULL";
            session.query_opt(sql, &[&name])?.map(|row| column(&row, 0)).transpose()
        })
    }

    fn lease(
        &self,
        name: &str,
        holder: ServerId,
        time: Duration,
    ) -> Result<Option<LeasedRecord>, StoreError> {
        let holder = holder.as_bytes().as_slice();
        self.within_limit(|session| {
            let sql = "INSERT INTO import_record AS r (name, holder, expires_at)
                       VALUES ($1, $2, clock_timestamp() + $3::bigint * interval '1 microsecond')
                       ON CONFLICT (name) DO UPDATE
                           SET holder = excluded.holder, expires_at = excluded.expires_at
                           WHERE r.holder IS NULL OR r.holder = excluded.holder
                               OR r.expires_at < clock_timestamp()
                       RETURNING record";
            let leased = session.query_opt(sql, &[&name, &holder, &rows::micros(time)])?;
            leased.map(|row| Ok(LeasedRecord { text: column(&row, 0)? })).transpose()
        })
    }

    fn renew(&self, name: &str, holder: ServerId, time: Duration) -> Result<bool, StoreError> {
        let holder = holder.as_bytes().as_slice();
        self.within_limit(|session| {
            let sql = "UPDATE import_record
                       SET expires_at = clock_timestamp() + $3::bigint * interval '1 microsecond'
                       WHERE name = $1 AND holder = $2";
            Ok(session.execute(sql, &[&name, &holder, &rows::micros(time)])? > 0)
        })
    }

    fn save(&self, name: &str, holder: ServerId, text: &str) -> Result<bool, StoreError> {
        let holder = holder.as_bytes().as_slice();
        // Not repeated on another connection: the lease would be gone after the first attempt.
        Ok(self.control_pool.transaction(|session| {
            let sql = "UPDATE import_record SET record = $3, holder = NULL, expires_at = NULL
                       WHERE name = $1 AND holder = $2";
            session.execute(sql, &[&name, &holder, &text]).map(|count| count > 0)
        })?)
    }
}
