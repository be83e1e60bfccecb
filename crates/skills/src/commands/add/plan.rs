//! Finds the bundles of an import and assigns ids.

use std::{collections::HashSet, path::Path, sync::Arc};

use skills_bundles::{AssignedId, BundleCandidate};
use skills_core::{Code, SkillId};
use skills_registry::RegistryError;

use super::row::Row;
use crate::{Failure, blocking::par_map, fetch::Candidates, output::path as display};

/// A bundle and its id.
#[derive(Clone)]
pub(super) struct Planned {
    /// Position in the output.
    pub(super) at: usize,
    pub(super) id: SkillId,
    /// Name that was too long for an id.
    pub(super) shortened_from: Option<String>,
    pub(super) candidate: Arc<BundleCandidate>,
}

/// Rule for the ids of an import.
#[derive(Debug, Clone, Default)]
pub(super) struct Naming {
    /// Id of the only bundle.
    pub(super) id: Option<String>,
    /// Text before every id.
    pub(super) prefix: String,
}

/// Bundles to import.
#[derive(Default)]
pub(super) struct ImportPlan {
    pub(super) bundles: Vec<Planned>,
    /// Results of bundles that cannot be imported.
    pub(super) rejected: Vec<Row>,
}

impl ImportPlan {
    /// Creates the plan for some bundles. An explicit id requires exactly one of them.
    pub(super) fn new(found: Candidates, naming: Naming) -> Result<Self, Failure> {
        let Candidates { mut candidates, faults } = found;
        // A bundle that two paths contain is imported once.
        let mut seen = HashSet::new();
        candidates.retain(|candidate| seen.insert(candidate.path().to_owned()));
        let Naming { id: explicit, prefix } = naming;
        if let Some(id) = explicit {
            let id: SkillId = id.parse().map_err(RegistryError::from)?;
            return match (<[BundleCandidate; 1]>::try_from(candidates), faults.into_iter().next()) {
                (_, Some((_, failure))) => Err(failure),
                (Ok([candidate]), None) => {
                    let candidate = Arc::new(candidate);
                    let planned = Planned { at: 0, id, shortened_from: None, candidate };
                    Ok(Self { bundles: vec![planned], rejected: vec![] })
                }
                (Err(many), None) => {
                    let message =
                        format!("--id requires a single skill, but {} were found", many.len());
                    Err(Failure::new(Code::IdForMany, message))
                }
            };
        }
        let rejected = faults.into_iter();
        let rejected =
            rejected.map(|(path, failure)| Row::rejected(0, None, path, failure)).collect();
        let mut plan = Self { bundles: vec![], rejected };
        plan.assign_ids(candidates, &prefix)?;
        Ok(plan)
    }

    /// Adds bundles with the ids that they declare.
    pub(super) fn assign_ids(
        &mut self,
        candidates: Vec<BundleCandidate>,
        prefix: &str,
    ) -> Result<(), Failure> {
        let ids = par_map(&candidates, |candidate| candidate.id(prefix))?;
        for ((number, candidate), id) in candidates.into_iter().enumerate().zip(ids) {
            let at = number + 1;
            match id {
                Ok(AssignedId { id, shortened_from }) => {
                    let candidate = Arc::new(candidate);
                    self.bundles.push(Planned { at, id, shortened_from, candidate });
                }
                Err(error) => {
                    let place = candidate.path().to_owned();
                    self.rejected.push(Row::rejected(at, None, place, error.into()));
                }
            }
        }
        Ok(())
    }
}

/// Creates the error for two bundles with one id.
pub(super) fn duplicate_id(id: &SkillId, one: &Path, other: &Path) -> Failure {
    let (one, other) = (display(one), display(other));
    Failure::new(Code::DuplicateId, format!("{one} and {other} have the same id {id}"))
        .hint("rename one of them, add it separately with --id, or use --on-conflict rename")
}
