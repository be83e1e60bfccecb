//! Sealing everything under the current master key, so that those of before can go.

use rusqlite::params;
use serde::Serialize;

use super::SealedRow;
use crate::{Act, Vault, VaultError, audit::record};

/// Secrets that are sealed anew at a time; others can write in between.
const BATCH: usize = 200;
/// Secrets that are named when they cannot be opened.
const MAX_NAMED: usize = 100;

/// What a rotation came to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Rotated {
    /// Sealed anew under the current key.
    pub rotated: usize,
    /// Sealed under it before.
    pub current: usize,
    /// Left as they are: no key at hand opens them.
    pub unreadable: usize,
    /// The first of those, by name.
    pub unreadable_secrets: Vec<String>,
}

impl Vault {
    /// Seals every secret under the current master key. Can be stopped and begun again at any time.
    ///
    /// # Errors
    /// When there is no master key, or the file cannot be written. Secrets that cannot be opened are counted
    /// instead, and stay.
    pub fn rotate_secrets(&self, act: Act<'_>) -> Result<Rotated, VaultError> {
        let master = self.master()?;
        let mut outcome = Rotated::default();
        let mut after = (String::new(), String::new(), String::new());
        loop {
            let rows = self.envelopes_after((&after.0, &after.1, &after.2), BATCH)?;
            let Some(SealedRow { owner, skill, name, .. }) = rows.last() else { break };
            after = (owner.clone(), skill.clone(), name.clone());
            let mut sealed = vec![];
            for row in &rows {
                let envelope = match row.parse() {
                    Ok(envelope) if master.is_current(&envelope) => {
                        outcome.current += 1;
                        continue;
                    }
                    Ok(envelope) => master.open(row.place(), envelope),
                    Err(error) => Err(error),
                };
                match envelope {
                    Ok(value) => sealed.push((row, master.seal(row.place(), &value)?)),
                    Err(_) => {
                        outcome.unreadable += 1;
                        if outcome.unreadable_secrets.len() < MAX_NAMED {
                            outcome.unreadable_secrets.push(row.place().to_string());
                        }
                    }
                }
            }
            outcome.rotated += self.file.write(|transaction| {
                // What somebody has set meanwhile is newer, and sealed under a key of theirs.
                let sql = "UPDATE secret SET envelope = ?4
                           WHERE owner = ?1 AND skill = ?2 AND name = ?3 AND envelope = ?5";
                let mut statement = transaction.prepare_cached(sql)?;
                let mut written = 0;
                for (SealedRow { owner, skill, name, envelope }, new) in &sealed {
                    written += statement.execute(params![owner, skill, name, new, envelope])?;
                }
                Ok(written)
            })?;
        }
        let subject = format!("{} secrets, {} unreadable", outcome.rotated, outcome.unreadable);
        self.file.write(|transaction| Ok(record(transaction, act, "secret.rotate", &subject)?))?;
        Ok(outcome)
    }
}
