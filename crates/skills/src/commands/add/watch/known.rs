//! What a watch knows of its folders, and what it may take away again.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    path::{Path, PathBuf},
    time::SystemTime,
};

use skills_bundles::{BundleError, Candidate, Found, find};
use skills_core::{Digest, SkillId};

use super::{
    super::{
        import::{Outcome, Row},
        plan::{Plan, Planned, same_id},
    },
    events::Touched,
};
use crate::Failure;

type Stamps = Vec<(PathBuf, Option<(u64, SystemTime)>)>;

/// A place with a bundle in it.
#[derive(Debug, Default)]
struct Place {
    stamps: Stamps,
    /// The last version of it that could be used.
    id: Option<SkillId>,
}

/// Everything that is known.
#[derive(Debug, Default)]
pub(super) struct Known {
    places: HashMap<PathBuf, Place>,
    /// What this watch has put into the registry, or found there just as it is in the folder.
    own: BTreeMap<SkillId, Digest>,
    /// What was said of folders that cannot be looked into.
    said: HashSet<String>,
}

/// What is to be done.
#[derive(Default)]
pub(super) struct Work {
    pub(super) bundles: Vec<Planned>,
    pub(super) refused: Vec<Row>,
}

impl Known {
    /// Looks at the folders: at all that was touched, and at what looks different.
    pub(super) fn look(&mut self, folders: &[PathBuf], touched: Touched) -> Result<Work, Failure> {
        let touched = touched.lookup();
        let mut work = Work::default();
        let mut found = Found::default();
        for folder in folders {
            match find(folder) {
                Ok(Found { candidates, faults }) => {
                    found.candidates.extend(candidates);
                    found.faults.extend(faults);
                }
                Err(BundleError::NoBundle { .. }) => {}
                // It may come back; that is no reason to remove anything.
                Err(error) => return Err(Failure::from(error).hint("the watch has ended")),
            }
        }
        self.say_once(found.faults, &mut work.refused);
        let mut changed = Vec::new();
        let mut places = HashMap::with_capacity(found.candidates.len());
        for candidate in found.candidates {
            let place = candidate.place().to_owned();
            let stamps = candidate.stamps();
            let known = self.places.remove(&place);
            let is_same = known.as_ref().is_some_and(|known| known.stamps == stamps);
            let id = known.and_then(|known| known.id);
            places.insert(place.clone(), Place { stamps, id });
            if !is_same || touched.has(&place) {
                changed.push(candidate);
            }
        }
        self.places = places;
        self.plan(changed, &mut work)?;
        Ok(work)
    }

    /// What is this watch's and in no folder any more.
    pub(super) fn gone(&self) -> Vec<(SkillId, Digest)> {
        let present: HashSet<&SkillId> =
            self.places.values().filter_map(|place| place.id.as_ref()).collect();
        let gone = self.own.iter().filter(|(id, _)| !present.contains(id));
        gone.map(|(id, digest)| (id.clone(), *digest)).collect()
    }

    /// Gives ids. A place that has one keeps it against others that ask for it too.
    fn plan(&self, changed: Vec<Candidate>, work: &mut Work) -> Result<(), Failure> {
        let mut plan = Plan::default();
        plan.give_ids(changed)?;
        work.refused.extend(plan.refused);
        let wanted: HashMap<&Path, &SkillId> =
            plan.bundles.iter().map(|planned| (planned.candidate.place(), &planned.id)).collect();
        let mut taken: HashMap<SkillId, PathBuf> = HashMap::new();
        for (place, known) in &self.places {
            let Some(id) = &known.id else { continue };
            // Who asks for another one now gives it up.
            if wanted.get(place.as_path()).is_none_or(|wanted| *wanted == id) {
                taken.insert(id.clone(), place.clone());
            }
        }
        for planned in plan.bundles {
            let place = planned.candidate.place();
            let holder = taken.entry(planned.id.clone()).or_insert_with(|| place.to_owned());
            if holder == place {
                work.bundles.push(planned);
                continue;
            }
            let failure = same_id(&planned.id, holder, place);
            let (at, place) = (planned.at, place.to_owned());
            work.refused.push(Row::refused(at, Some(planned.id), place, failure));
        }
        Ok(())
    }

    fn say_once(&mut self, faults: Vec<BundleError>, refused: &mut Vec<Row>) {
        let said = std::mem::take(&mut self.said);
        for fault in faults {
            let text = fault.to_string();
            if !said.contains(&text) {
                refused.push(Row::refused(0, None, PathBuf::new(), fault.into()));
            }
            self.said.insert(text);
        }
    }

    /// Remembers what became of a bundle. One that cannot be used leaves its last version where it is.
    pub(super) fn note(&mut self, row: &Row) {
        let (
            Some(id),
            Outcome::Added(registered)
            | Outcome::Changed(registered)
            | Outcome::Unchanged(registered),
        ) = (&row.id, &row.outcome)
        else {
            return;
        };
        self.own.insert(id.clone(), registered.digest);
        if let Some(known) = self.places.get_mut(&row.place) {
            known.id = Some(id.clone());
        }
    }

    /// Whatever became of a skill that is gone from the folders, it is not this watch's any more.
    pub(super) fn forget(&mut self, id: &SkillId) {
        self.own.remove(id);
    }

    pub(super) fn count(&self) -> usize {
        self.own.len()
    }
}
