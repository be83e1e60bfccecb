//! Who changed what, and when: a table that is only added to.

use std::time::{SystemTime, UNIX_EPOCH};

use rusqlite::{Connection, params};
use serde::Serialize;
use skills_core::Timestamp;

use crate::{Vault, VaultError};

/// Longest actor or subject that is kept, in characters.
const MAX_CHARS: usize = 256;
/// Most entries that are read at once.
const MAX_PAGE: usize = 1000;

/// Somebody does something, at some moment. Every change takes one.
#[derive(Debug, Clone, Copy)]
pub struct Act<'a> {
    /// Who: a user of this machine, the name of an admin secret, the id of a key.
    pub by: &'a str,
    /// When.
    pub at: Timestamp,
}

/// An entry of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AuditEntry {
    /// Its place, growing.
    pub number: u64,
    /// When, as RFC 3339.
    pub at: String,
    /// Who.
    pub actor: String,
    /// What was done, such as `key.create`.
    pub action: String,
    /// To what; never a key or a secret.
    pub subject: String,
}

/// The present moment.
#[must_use]
pub fn now() -> Timestamp {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_micros(i64::try_from(since_1970.as_micros()).unwrap_or(i64::MAX))
}

/// Adds an entry, in the transaction of what it tells of.
pub(crate) fn record(
    transaction: &Connection,
    act: Act<'_>,
    action: &str,
    subject: &str,
) -> rusqlite::Result<()> {
    let plain = |text: &str| -> String {
        text.chars().take(MAX_CHARS).map(|c| if c.is_control() { ' ' } else { c }).collect()
    };
    let sql = "INSERT INTO audit (at, actor, action, subject) VALUES (?1, ?2, ?3, ?4)";
    let entry = params![act.at.as_micros(), plain(act.by), plain(action), plain(subject)];
    transaction.prepare_cached(sql)?.execute(entry).map(|_| ())
}

impl Vault {
    /// Adds to the log what was done elsewhere, such as a skill that was put into a tier.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn record(&self, act: Act<'_>, action: &str, subject: &str) -> Result<(), VaultError> {
        self.file.write(|transaction| Ok(record(transaction, act, action, subject)?))
    }

    /// When something was last done, if it ever was.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn last_time(&self, action: &str) -> Result<Option<Timestamp>, VaultError> {
        self.file.read(|connection| {
            let sql = "SELECT max(at) FROM audit WHERE action = ?1";
            let at: Option<i64> =
                connection.prepare_cached(sql)?.query_row([action], |row| row.get(0))?;
            Ok(at.map(Timestamp::from_micros))
        })
    }

    /// The entries after a number, oldest first.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn audit(&self, after: u64, limit: usize) -> Result<Vec<AuditEntry>, VaultError> {
        self.file.read(|connection| {
            let sql = "SELECT number, at, actor, action, subject FROM audit
                       WHERE number > ?1 ORDER BY number LIMIT ?2";
            let mut statement = connection.prepare_cached(sql)?;
            let entries = statement.query_map(params![after, limit.min(MAX_PAGE)], |row| {
                Ok(AuditEntry {
                    number: row.get(0)?,
                    at: Timestamp::from_micros(row.get(1)?).to_string(),
                    actor: row.get(2)?,
                    action: row.get(3)?,
                    subject: row.get(4)?,
                })
            })?;
            Ok(entries.collect::<rusqlite::Result<_>>()?)
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::vault::testing::{act, vault};

    #[test]
    fn entries_are_read_in_order_and_page_by_page() {
        let (vault, _dir) = vault();
        for number in 0..5 {
            vault.record(act(), "skill.put", &format!("official/a{number}\n")).unwrap();
        }
        let first = vault.audit(0, 2).unwrap();
        assert_eq!(
            (first[0].actor.as_str(), first[0].subject.as_str()),
            ("tester", "official/a0 ")
        );
        assert_eq!(vault.last_time("skill.put").unwrap(), Some(act().at));
        assert_eq!(vault.last_time("skill.remove").unwrap(), None);
        let rest = vault.audit(first[1].number, usize::MAX).unwrap();
        assert_eq!(rest.len(), 3);
        assert!(rest[0].number > first[1].number);
    }

    #[test]
    fn what_was_written_stays() {
        let (vault, _dir) = vault();
        vault.record(act(), "a", "b").unwrap();
        for sql in ["DELETE FROM audit", "UPDATE audit SET actor = 'nobody'"] {
            let changed = vault.file.write(|transaction| Ok(transaction.execute(sql, [])?));
            assert!(changed.is_err_and(|error| error.to_string().contains("only added to")));
        }
        assert_eq!(vault.audit(0, 10).unwrap().len(), 1);
    }
}
