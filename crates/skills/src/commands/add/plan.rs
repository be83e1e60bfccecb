//! Which bundles there are, and under which ids they go.

use std::{
    collections::{HashMap, HashSet},
    io::Read as _,
    path::{Path, PathBuf},
};

use skills_bundles::{Candidate, find};
use skills_core::{SkillId, limits::MAX_SKILL_BYTES};
use skills_registry::RegistryError;

use super::import::Row;
use crate::{Failure, output::path as shown, work::on_all_cores};

/// A bundle and the id it goes by.
pub(super) struct Planned {
    /// Its number among all.
    pub(super) at: usize,
    pub(super) id: SkillId,
    pub(super) candidate: Candidate,
}

/// What is to be done.
#[derive(Default)]
pub(super) struct Plan {
    pub(super) bundles: Vec<Planned>,
    /// What cannot be.
    pub(super) refused: Vec<Row>,
}

impl Plan {
    /// Looks at all paths. An id is for one bundle only.
    pub(super) fn of(paths: &[PathBuf], id: Option<String>) -> Result<Self, Failure> {
        let (candidates, faults) = gather(paths)?;
        if let Some(id) = id {
            let id: SkillId = id.parse().map_err(RegistryError::from)?;
            return match (<[Candidate; 1]>::try_from(candidates), faults.into_iter().next()) {
                (_, Some((_, failure))) => Err(failure),
                (Ok([candidate]), None) => {
                    Ok(Self { bundles: vec![Planned { at: 0, id, candidate }], refused: vec![] })
                }
                (Err(many), None) => {
                    let message = format!("--id is for one skill, and there are {}", many.len());
                    Err(Failure::new("id_for_many", message))
                }
            };
        }
        let refused = faults.into_iter();
        let refused = refused.map(|(path, failure)| Row::refused(0, None, path, failure)).collect();
        let mut plan = Self { bundles: vec![], refused };
        plan.give_ids(candidates)?;
        plan.tell_apart();
        Ok(plan)
    }

    /// The id that each asks for.
    pub(super) fn give_ids(&mut self, candidates: Vec<Candidate>) -> Result<(), Failure> {
        let ids = on_all_cores(&candidates, Candidate::id)?;
        for ((number, candidate), id) in candidates.into_iter().enumerate().zip(ids) {
            let at = number + 1;
            match id {
                Ok(id) => self.bundles.push(Planned { at, id, candidate }),
                Err(error) => {
                    let place = candidate.place().to_owned();
                    self.refused.push(Row::refused(at, None, place, error.into()));
                }
            }
        }
        Ok(())
    }

    /// Refuses those that ask for one id: no one could tell which of them is meant.
    fn tell_apart(&mut self) {
        let mut first: HashMap<SkillId, PathBuf> = HashMap::new();
        let mut shared: HashMap<SkillId, PathBuf> = HashMap::new();
        for planned in &self.bundles {
            let place = planned.candidate.place().to_owned();
            match first.get(&planned.id) {
                None => drop(first.insert(planned.id.clone(), place)),
                Some(_) => drop(shared.entry(planned.id.clone()).or_insert(place)),
            }
        }
        if shared.is_empty() {
            return;
        }
        for planned in std::mem::take(&mut self.bundles) {
            let (one, other) = (first.get(&planned.id), shared.get(&planned.id));
            match one.zip(other) {
                None => self.bundles.push(planned),
                Some((one, other)) => {
                    let Planned { at, id, candidate } = planned;
                    let failure = same_id(&id, one, other);
                    let place = candidate.place().to_owned();
                    self.refused.push(Row::refused(at, Some(id), place, failure));
                }
            }
        }
    }
}

/// Two bundles with one id.
pub(super) fn same_id(id: &SkillId, one: &Path, other: &Path) -> Failure {
    let (one, other) = (shown(one), shown(other));
    Failure::new("duplicate_id", format!("{one} and {other} would both be {id}"))
        .hint("give one of them another name, or add it by itself with --id")
}

type Fault = (PathBuf, Failure);

fn gather(paths: &[PathBuf]) -> Result<(Vec<Candidate>, Vec<Fault>), Failure> {
    let (mut candidates, mut faults) = (Vec::new(), Vec::new());
    for path in paths {
        if path == Path::new("-") {
            candidates.push(from_standard_input(path)?);
            continue;
        }
        match find(path) {
            Ok(found) => {
                candidates.extend(found.candidates);
                faults.extend(found.faults.into_iter().map(|error| (path.clone(), error.into())));
            }
            Err(error) => faults.push((path.clone(), error.into())),
        }
    }
    // What was named twice is there once.
    let mut seen = HashSet::new();
    candidates.retain(|candidate| seen.insert(candidate.place().to_owned()));
    Ok((candidates, faults))
}

fn from_standard_input(path: &Path) -> Result<Candidate, Failure> {
    let mut bytes = Vec::new();
    // One byte more than allowed is enough to know, however much there is.
    std::io::stdin().take(MAX_SKILL_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(|error| {
        Failure::new("unreadable", format!("cannot read standard input: {error}"))
    })?;
    Ok(Candidate::of_bytes(path, bytes.into()))
}
