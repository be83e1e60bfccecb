//! Rotation: encrypts all secrets with the current master key, so that previous keys can be removed.

use rusqlite::params;
use serde::Serialize;

use super::SealedRow;
use crate::{Actor, Vault, VaultError, audit::record};

/// Secrets per transaction; other writers run between two.
const BATCH: usize = 200;
/// Most unreadable secrets that are listed.
const MAX_NAMED: usize = 100;

/// Result of a rotation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct RotationSummary {
    /// Secrets encrypted again with the current key.
    pub rotated: usize,
    /// Secrets that already had the current key.
    pub current: usize,
    /// Secrets that no master key decrypts; they stay as they are.
    pub unreadable: usize,
    /// Names of the first unreadable secrets.
    pub unreadable_secrets: Vec<String>,
}

impl Vault {
    /// Encrypts every secret with the current master key. Can be interrupted and repeated.
    ///
    /// # Errors
    /// When no master key is set, or the file cannot be written. Unreadable secrets are counted and stay as they are.
    pub fn rotate_secrets(&self, actor: Actor<'_>) -> Result<RotationSummary, VaultError> {
        let master = self.master()?;
        let mut outcome = RotationSummary::default();
        let mut after = (String::new(), String::new(), String::new());
        loop {
            let rows = self.envelopes_after((&after.0, &after.1, &after.2), BATCH)?;
            let Some(SealedRow { owner, skill, name, .. }) = rows.last() else { break };
            after = (owner.clone(), skill.clone(), name.clone());
            let mut reencrypted = vec![];
            for row in &rows {
                let envelope = match row.parse() {
                    Ok(envelope) if master.is_current(&envelope) => {
                        outcome.current += 1;
                        continue;
                    }
                    Ok(envelope) => master.open(row.binding(), envelope),
                    Err(error) => Err(error),
                };
                match envelope {
                    Ok(value) => reencrypted.push((row, master.seal(row.binding(), &value)?)),
                    Err(_) => {
                        outcome.unreadable += 1;
                        if outcome.unreadable_secrets.len() < MAX_NAMED {
                            outcome.unreadable_secrets.push(row.binding().to_string());
                        }
                    }
                }
            }
            outcome.rotated += self.file.write(|transaction| {
                // A secret that was set meanwhile is newer and stays.
                let sql = "UPDATE secret SET envelope = ?4
                           WHERE owner = ?1 AND skill = ?2 AND name = ?3 AND envelope = ?5";
                let mut statement = transaction.prepare_cached(sql)?;
                let mut written = 0;
                for (SealedRow { owner, skill, name, envelope }, new) in &reencrypted {
                    written += statement.execute(params![owner, skill, name, new, envelope])?;
                }
                Ok(written)
            })?;
        }
        let subject = format!("{} secrets, {} unreadable", outcome.rotated, outcome.unreadable);
        self.file
            .write(|transaction| Ok(record(transaction, actor, "secret.rotate", &subject)?))?;
        Ok(outcome)
    }
}
