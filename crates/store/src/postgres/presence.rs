//! Presence of servers in PostgreSQL. Leases end by the clock of the database, so clocks of servers may differ.

use std::time::Duration;

use skills_postgres::{PgError, PgSession, column};

use super::{PostgresStore, rows};
use crate::{
    StoreError,
    presence::{Presence, ServerId},
};

/// Time limit of a call: nothing that is in memory waits for it.
const LIMIT: Duration = Duration::from_secs(2);

impl PostgresStore {
    pub(super) fn within_limit<T>(
        &self,
        work: impl FnMut(&PgSession) -> Result<T, PgError>,
    ) -> Result<T, StoreError> {
        Ok(self.control_pool.read_within(LIMIT, work)?)
    }
}

impl Presence for PostgresStore {
    fn announce(
        &self,
        id: ServerId,
        server: &str,
        names: &[String],
        lease: Duration,
    ) -> Result<(), StoreError> {
        let id = id.as_bytes().as_slice();
        self.within_limit(|session| {
            // Servers that died without a word.
            session.execute("DELETE FROM presence WHERE expires_at < clock_timestamp()", &[])?;
            let sql = "INSERT INTO presence (id, server, names, expires_at)
                       VALUES ($1, $2, $3, clock_timestamp() + $4::bigint * interval '1 microsecond')
                       ON CONFLICT (id) DO UPDATE SET server = excluded.server,
                           names = excluded.names, expires_at = excluded.expires_at";
            session.execute(sql, &[&id, &server, &names, &rows::micros(lease)])?;
            Ok(())
        })
    }

    fn renew(&self, id: ServerId, lease: Duration) -> Result<bool, StoreError> {
        let id = id.as_bytes().as_slice();
        self.within_limit(|session| {
            let sql = "UPDATE presence
                       SET expires_at = clock_timestamp() + $2::bigint * interval '1 microsecond'
                       WHERE id = $1";
            Ok(session.execute(sql, &[&id, &rows::micros(lease)])? > 0)
        })
    }

    fn withdraw(&self, id: ServerId) -> Result<(), StoreError> {
        let id = id.as_bytes().as_slice();
        self.within_limit(|session| {
            session.execute("DELETE FROM presence WHERE id = $1", &[&id])?;
            Ok(())
        })
    }

    fn find(&self, name: &str, except: ServerId) -> Result<Option<String>, StoreError> {
        let except = except.as_bytes().as_slice();
        // Clients ask, so it waits with their reads.
        Ok(self.read_pool.read_within(LIMIT, |session| {
            let sql = "SELECT server FROM presence
                       WHERE id <> $1 AND expires_at > clock_timestamp() AND $2 = ANY (names)
                       ORDER BY server LIMIT 1";
            let found = session.query_opt(sql, &[&except, &name])?;
            found.map(|row| column(&row, 0)).transpose()
        })?)
    }
}
