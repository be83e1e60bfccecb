//! Append-only log of changes: actor, action, subject and time.

use serde::Serialize;
use skills_core::Timestamp;

use crate::{Vault, VaultError, backend::Tables};

/// Longest actor or subject that is stored, in characters; longer ones are cut.
const MAX_CHARS: usize = 256;
/// Most entries of one page.
const MAX_PAGE: usize = 1000;

/// Author and time of a change, for the audit log.
#[derive(Debug, Clone, Copy)]
pub struct Actor<'a> {
    /// A user of this machine, the name of an administrator secret, or the id of a key.
    pub name: &'a str,
    /// Time of the change.
    pub at: Timestamp,
}

/// One entry of the audit log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AuditEntry {
    /// Number of the entry; later entries have larger ones.
    pub number: u64,
    /// Time, as RFC 3339.
    pub at: String,
    /// Author of the change.
    pub actor: String,
    /// Kind of change, such as `key.create`.
    pub action: String,
    /// Object of the change; never contains a key or a secret value.
    pub subject: String,
}

/// Returns the current time.
#[must_use]
pub fn now() -> Timestamp {
    Timestamp::now()
}

/// Adds an entry in the transaction of the change.
pub(crate) fn record(
    tables: &mut dyn Tables,
    actor: Actor<'_>,
    action: &str,
    subject: &str,
) -> Result<(), VaultError> {
    let plain = |text: &str| -> String {
        text.chars().take(MAX_CHARS).map(|c| if c.is_control() { ' ' } else { c }).collect()
    };
    tables.append_audit(actor.at, &plain(actor.name), &plain(action), &plain(subject))
}

impl Vault {
    /// Logs a change that was made outside the vault, such as a skill stored in a tier.
    ///
    /// # Errors
    /// When the vault cannot be written.
    pub fn record(&self, actor: Actor<'_>, action: &str, subject: &str) -> Result<(), VaultError> {
        self.backend.write(|tables| record(tables, actor, action, subject))
    }

    /// Returns the time of the last entry with this action.
    ///
    /// # Errors
    /// When the vault cannot be read.
    pub fn last_recorded(&self, action: &str) -> Result<Option<Timestamp>, VaultError> {
        self.backend.read(|tables| tables.last_audit(action))
    }

    /// Returns a page of entries before a number, newest first, whose actor, action or subject contains a text.
    ///
    /// # Errors
    /// When the vault cannot be read.
    pub fn matching_audit(
        &self,
        before: Option<u64>,
        text: &str,
        limit: usize,
    ) -> Result<Vec<AuditEntry>, VaultError> {
        self.backend.read(|tables| tables.audit_before(before, text, limit.min(MAX_PAGE)))
    }

    /// Returns a page of entries after a number, oldest first.
    ///
    /// # Errors
    /// When the vault cannot be read.
    pub fn audit(&self, after: u64, limit: usize) -> Result<Vec<AuditEntry>, VaultError> {
        self.backend.read(|tables| tables.audit_after(after, limit.min(MAX_PAGE)))
    }

    /// Returns a page of entries before a number, or of all, newest first.
    ///
    /// # Errors
    /// When the vault cannot be read.
    pub fn recent_audit(
        &self,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<AuditEntry>, VaultError> {
        self.matching_audit(before, "", limit)
    }
}

#[cfg(test)]
mod tests {
    use crate::vault::testing::{TestSite, actor, contract, execute_sql, vault};

    contract! {
        entries_are_read_in_order_and_page_by_page,
        recent_entries_are_read_backwards_and_filtered,
    }

    fn entries_are_read_in_order_and_page_by_page(site: &TestSite) {
        let vault = site.vault();
        for number in 0..5 {
            vault.record(actor(), "skill.put", &format!("official/a{number}\n")).unwrap();
        }
        let first = vault.audit(0, 2).unwrap();
        assert_eq!(
            (first[0].actor.as_str(), first[0].subject.as_str()),
            ("tester", "official/a0 ")
        );
        assert_eq!(vault.last_recorded("skill.put").unwrap(), Some(actor().at));
        assert_eq!(vault.last_recorded("skill.remove").unwrap(), None);
        let rest = vault.audit(first[1].number, usize::MAX).unwrap();
        assert_eq!(rest.len(), 3);
        assert!(rest[0].number > first[1].number);
        let newest = vault.recent_audit(None, 2).unwrap();
        assert_eq!(newest[0].subject, "official/a4 ");
        let older = vault.recent_audit(Some(newest[1].number), usize::MAX).unwrap();
        let subjects: Vec<&str> = older.iter().map(|entry| entry.subject.as_str()).collect();
        assert_eq!(subjects, ["official/a2 ", "official/a1 ", "official/a0 "]);
    }

    fn recent_entries_are_read_backwards_and_filtered(site: &TestSite) {
        let vault = site.vault();
        for subject in ["official/a", "official/b", "market/A"] {
            vault.record(actor(), "skill.put", subject).unwrap();
        }
        let subjects = |before, text: &str, limit| -> Vec<String> {
            let entries = vault.matching_audit(before, text, limit).unwrap();
            entries.into_iter().map(|entry| entry.subject).collect()
        };
        assert_eq!(subjects(None, "", 2), ["market/A", "official/b"]);
        let last = vault.matching_audit(None, "", 2).unwrap()[1].number;
        assert_eq!(subjects(Some(last), "", 9), ["official/a"]);
        assert_eq!(subjects(None, "/a", 9), ["market/A", "official/a"]);
        assert_eq!(subjects(None, "TESTER", 9).len(), 3);
        assert!(subjects(None, "%", 9).is_empty());
    }

    #[test]
    fn entries_can_be_neither_changed_nor_removed() {
        let (vault, dir) = vault();
        vault.record(actor(), "a", "b").unwrap();
        for sql in ["DELETE FROM audit", "UPDATE audit SET actor = 'nobody'"] {
            let changed = execute_sql(dir.path(), sql);
            assert!(
                changed.is_err_and(|error| error.to_string().contains("only added to")),
                "{sql}"
            );
        }
        assert_eq!(vault.audit(0, 10).unwrap().len(), 1);
    }
}
