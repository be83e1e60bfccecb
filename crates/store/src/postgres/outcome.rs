//! Recorded outcomes of batches, for those that are sent again.

use serde::{Deserialize, Serialize};
use skills_core::Digest;
use skills_postgres::{PgError, PgSession};

use super::log;
use crate::{Batch, Change, Effect, Mutation, NewValue, StateChange};

/// Effect of a mutation as it is recorded. Changes are in the log; values of the state and the entries that still have
/// a purged blob are left out.
#[derive(Serialize, Deserialize)]
enum RecordedEffect {
    Changed { revision: u64 },
    Erased { revision: u64, blobs: Vec<Digest>, bytes: u64 },
    Nothing,
    Unchanged { version: Option<u64>, served: Option<u64> },
    State,
}

/// Serializes the effects of a batch.
pub(super) fn record(effects: &[Effect]) -> Result<String, PgError> {
    let recorded: Vec<RecordedEffect> = effects
        .iter()
        .map(|effect| match effect {
            Effect::Changed(change) => RecordedEffect::Changed { revision: change.revision },
            Effect::Erased { change, blobs, bytes, .. } => RecordedEffect::Erased {
                revision: change.revision,
                blobs: blobs.clone(),
                bytes: *bytes,
            },
            Effect::Nothing => RecordedEffect::Nothing,
            Effect::Unchanged { version, served } => {
                RecordedEffect::Unchanged { version: *version, served: *served }
            }
            Effect::State(_) => RecordedEffect::State,
        })
        .collect();
    serde_json::to_string(&recorded).map_err(|error| PgError::Other(error.to_string()))
}

/// Returns the effects of a batch that was committed before.
pub(super) fn replay(
    session: &PgSession,
    batch: &Batch,
    recorded: &str,
) -> Result<Vec<Effect>, PgError> {
    let recorded: Vec<RecordedEffect> =
        serde_json::from_str(recorded).map_err(|error| PgError::Corrupt(error.to_string()))?;
    let effects = recorded.into_iter().zip(&batch.mutations).map(|(effect, mutation)| {
        Ok(match effect {
            RecordedEffect::Changed { revision } => Effect::Changed(change(session, revision)?),
            RecordedEffect::Erased { revision, blobs, bytes } => {
                let change = change(session, revision)?;
                Effect::Erased { change, blobs, bytes, holders: vec![] }
            }
            RecordedEffect::Nothing => Effect::Nothing,
            RecordedEffect::Unchanged { version, served } => Effect::Unchanged { version, served },
            RecordedEffect::State => match mutation {
                Mutation::StateSet { scope, key, value } => {
                    let new = match value {
                        NewValue::Given(value) => Some(value.clone()),
                        NewValue::Computed(_) => super::state_value(session, scope, key)?,
                    };
                    let (scope, key) = (scope.clone(), key.clone());
                    Effect::State(StateChange { scope, key, old: None, new })
                }
                Mutation::StateDelete { scope, key } => {
                    let (scope, key) = (scope.clone(), key.clone());
                    Effect::State(StateChange { scope, key, old: None, new: None })
                }
                _ => Effect::Nothing,
            },
        })
    });
    effects.collect()
}

fn change(session: &PgSession, revision: u64) -> Result<Change, PgError> {
    let changes = log::changes(session, revision.saturating_sub(1), 1)?;
    let change = changes.into_iter().find(|change| change.revision == revision);
    change.ok_or_else(|| PgError::Corrupt(format!("the log has no revision {revision}")))
}
