//! Rotation: encrypts all secrets with the current master key, so that previous keys can be removed.

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
    /// When no master key is set, or the vault cannot be written. Unreadable secrets are counted and stay as they are.
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
            outcome.rotated += self.backend.write(|tables| {
                let mut written = 0;
                for (row, new) in &reencrypted {
                    // A secret that was set meanwhile is newer and stays.
                    written += usize::from(tables.replace_envelope(row, new)?);
                }
                Ok(written)
            })?;
        }
        let subject = format!("{} secrets, {} unreadable", outcome.rotated, outcome.unreadable);
        self.backend.write(|tables| record(tables, actor, "secret.rotate", &subject))?;
        Ok(outcome)
    }
}
