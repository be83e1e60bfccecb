//! Result of importing one bundle.

use std::path::PathBuf;

use skills_agent_skills::validate::Finding;
use skills_core::{Digest, SkillId};
use skills_registry::Published;

use super::plan::Planned;
use crate::Failure;

/// Result of importing a bundle.
#[derive(Debug)]
pub(super) enum Outcome {
    Added(Registered),
    Changed(Registered),
    Unchanged(Registered),
    /// Replaced content of another source, which is named.
    Replaced(Registered, String),
    /// Left out, for this reason.
    Skipped(String),
    /// Copy of a bundle of the same import.
    Duplicate(PathBuf),
    Failed(Failure),
}

impl Outcome {
    /// Returns the bundle if the registry has it now.
    pub(super) const fn registered(&self) -> Option<&Registered> {
        match self {
            Self::Added(registered)
            | Self::Changed(registered)
            | Self::Unchanged(registered)
            | Self::Replaced(registered, _) => Some(registered),
            Self::Skipped(_) | Self::Duplicate(_) | Self::Failed(_) => None,
        }
    }
}

/// A bundle in the registry.
#[derive(Debug)]
pub(super) struct Registered {
    pub(super) digest: Digest,
    pub(super) files: usize,
    pub(super) bytes: u64,
    /// Answer of the registry, if it was written now.
    pub(super) published: Option<Published>,
}

/// A bundle and the result of importing it.
#[derive(Debug)]
pub(super) struct Row {
    /// Position in the output.
    pub(super) at: usize,
    pub(super) id: Option<SkillId>,
    pub(super) place: PathBuf,
    /// Path of the root document, which the findings refer to.
    pub(super) document: PathBuf,
    pub(super) findings: Vec<Finding>,
    /// Name that was too long for an id.
    pub(super) shortened_from: Option<String>,
    /// Id that the bundle would have without a conflict.
    pub(super) renamed_from: Option<SkillId>,
    pub(super) outcome: Outcome,
}

impl Row {
    pub(super) fn new(at: usize, id: Option<SkillId>, place: PathBuf, outcome: Outcome) -> Self {
        Self {
            at,
            id,
            document: place.clone(),
            place,
            findings: vec![],
            shortened_from: None,
            renamed_from: None,
            outcome,
        }
    }

    pub(super) fn rejected(
        at: usize,
        id: Option<SkillId>,
        place: PathBuf,
        failure: Failure,
    ) -> Self {
        Self::new(at, id, place, Outcome::Failed(failure))
    }

    /// Creates the row of a planned bundle.
    pub(super) fn of_planned(planned: Planned, outcome: Outcome) -> Self {
        let Planned { at, id, shortened_from, candidate } = planned;
        let row = Self::new(at, Some(id), candidate.path().to_owned(), outcome);
        Self { shortened_from, ..row }
    }
}
