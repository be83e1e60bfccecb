//! Rate counters of all servers, in one table.

use std::collections::HashMap;

use skills_core::Digest;
use skills_postgres::{PgError, Row};

use super::{
    Database,
    tables::{digest, signed, unsigned},
};
use crate::{
    VaultError,
    backend::{RateGrant, RateRequest, SharedCounters},
};

/// Counts uses of several keys in one atomic statement. The commit is not waited for: a crash of the database may lose
/// the counts of its last moments. Rows are locked in one order, so that servers cannot block each other for good.
const TAKE: &str = "
    WITH settings AS (SELECT set_config('synchronous_commit', 'off', true))
    INSERT INTO vault_rate AS r (hash, minute, asked, allowed, carried, granted, used)
    SELECT hash, minute, asked, allowed, carried,
           least(asked, greatest(allowed - carried, 0)),
           carried + least(asked, greatest(allowed - carried, 0))
    FROM unnest($1::bytea[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[])
         AS a (hash, minute, asked, allowed, carried), settings
    ORDER BY hash, minute
    ON CONFLICT (hash, minute) DO UPDATE SET
        asked = excluded.asked, allowed = excluded.allowed, carried = excluded.carried,
        granted = least(excluded.asked, greatest(excluded.allowed - r.used - excluded.carried, 0)),
        used = r.used + excluded.carried
               + least(excluded.asked, greatest(excluded.allowed - r.used - excluded.carried, 0))
    RETURNING hash, minute, granted, used";

impl SharedCounters for Database {
    fn take(&self, requests: &[RateRequest]) -> Result<Vec<RateGrant>, VaultError> {
        self.check_contact()?;
        let numbers = |number: fn(&RateRequest) -> u64| -> Vec<i64> {
            requests.iter().map(|request| signed(number(request))).collect()
        };
        let hashes: Vec<&[u8]> =
            requests.iter().map(|request| request.hash.as_bytes().as_slice()).collect();
        let minutes = numbers(|request| request.minute);
        let asked = numbers(|request| request.asked.into());
        let allowed = numbers(|request| request.allowed.into());
        let carried = numbers(|request| request.carried.into());
        // Not repeated: a statement whose connection breaks may have counted.
        let lease = self.quick_pool.lease(super::QUICK_LIMIT)?;
        let rows = lease.query(TAKE, &[&hashes, &minutes, &asked, &allowed, &carried])?;
        let grant = |row: &Row| -> Result<((Digest, u64), RateGrant), PgError> {
            let number = |index| -> Result<u32, PgError> {
                Ok(u32::try_from(unsigned(row, index)?).unwrap_or(u32::MAX))
            };
            let grant = RateGrant { granted: number(2)?, used: number(3)? };
            Ok(((digest(row, 0)?, unsigned(row, 1)?), grant))
        };
        let grants = rows.iter().map(grant).collect::<Result<HashMap<_, _>, _>>()?;
        let find = |request: &RateRequest| grants.get(&(request.hash, request.minute)).copied();
        let found: Option<Vec<RateGrant>> = requests.iter().map(find).collect();
        found.ok_or_else(|| VaultError::internal("the database returned no counter"))
    }

    fn forget_before(&self, minute: u64) -> Result<(), VaultError> {
        self.check_contact()?;
        let sql = "DELETE FROM vault_rate WHERE minute < $1";
        self.quick(|session| session.execute(sql, &[&signed(minute)]))?;
        Ok(())
    }
}
