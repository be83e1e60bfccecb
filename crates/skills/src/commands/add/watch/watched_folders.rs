//! State of watched folders: their bundles, and the skills that the watch registered and may remove.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    path::{Path, PathBuf},
};

use skills_bundles::{BundleCandidate, BundleError, FileStamp, FoundBundles, find_bundles};
use skills_core::{Digest, SkillId};

use super::{
    super::{
        plan::{ImportPlan, duplicate_id},
        row::Row,
    },
    events::ChangedPaths,
};
use crate::Failure;

type Stamps = Vec<(PathBuf, Option<FileStamp>)>;

/// A bundle that was found in a folder.
#[derive(Debug, Default)]
struct WatchedBundle {
    stamps: Stamps,
    /// Id of its last valid version.
    id: Option<SkillId>,
}

/// State of all watched folders.
#[derive(Debug, Default)]
pub(super) struct WatchedFolders {
    /// Text before every id.
    prefix: String,
    bundles: HashMap<PathBuf, WatchedBundle>,
    /// Skills that this watch registered, or found in the registry in the same version.
    owned: BTreeMap<SkillId, Digest>,
    /// Errors of unreadable folders that were printed.
    reported: HashSet<String>,
}

impl WatchedFolders {
    /// Creates the state of folders that were not scanned yet.
    pub(super) fn new(prefix: String) -> Self {
        Self { prefix, ..Self::default() }
    }

    /// Scans the folders and returns the bundles to import: those among the changed paths, and those with other stamps.
    pub(super) fn scan(
        &mut self,
        folders: &[PathBuf],
        changed_paths: ChangedPaths,
    ) -> Result<ImportPlan, Failure> {
        let changed_paths = changed_paths.into_index();
        let mut plan = ImportPlan::default();
        let mut found = FoundBundles::default();
        for folder in folders {
            match find_bundles(folder) {
                Ok(FoundBundles { candidates, faults }) => {
                    found.candidates.extend(candidates);
                    found.faults.extend(faults);
                }
                Err(BundleError::NoBundle { .. }) => {}
                // A missing folder may come back: its skills are not removed.
                Err(error) => return Err(Failure::from(error).hint("start the watch again")),
            }
        }
        self.report_once(found.faults, &mut plan.rejected);
        let mut changed = Vec::new();
        let mut bundles = HashMap::with_capacity(found.candidates.len());
        for candidate in found.candidates {
            let path = candidate.path().to_owned();
            let stamps = candidate.stamps();
            let previous = self.bundles.remove(&path);
            let is_same = previous.as_ref().is_some_and(|previous| previous.stamps == stamps);
            let id = previous.and_then(|previous| previous.id);
            bundles.insert(path.clone(), WatchedBundle { stamps, id });
            if !is_same || changed_paths.contains(&path) {
                changed.push(candidate);
            }
        }
        self.bundles = bundles;
        self.assign_ids(changed, &mut plan)?;
        Ok(plan)
    }

    /// Returns owned skills that no folder contains any more.
    pub(super) fn removed(&self) -> Vec<(SkillId, Digest)> {
        let present: HashSet<&SkillId> =
            self.bundles.values().filter_map(|bundle| bundle.id.as_ref()).collect();
        let removed = self.owned.iter().filter(|(id, _)| !present.contains(id));
        removed.map(|(id, digest)| (id.clone(), *digest)).collect()
    }

    /// Assigns ids. A bundle that has an id keeps it when others declare it too.
    fn assign_ids(
        &self,
        changed: Vec<BundleCandidate>,
        plan: &mut ImportPlan,
    ) -> Result<(), Failure> {
        let mut declared = ImportPlan::default();
        declared.assign_ids(changed, &self.prefix)?;
        plan.rejected.extend(declared.rejected);
        let ids: HashMap<&Path, &SkillId> = declared
            .bundles
            .iter()
            .map(|planned| (planned.candidate.path(), &planned.id))
            .collect();
        let mut holders: HashMap<SkillId, PathBuf> = HashMap::new();
        for (path, bundle) in &self.bundles {
            let Some(id) = &bundle.id else { continue };
            // A bundle that declares another id now gives up the old one.
            if ids.get(path.as_path()).is_none_or(|declared| *declared == id) {
                holders.insert(id.clone(), path.clone());
            }
        }
        for planned in declared.bundles {
            let path = planned.candidate.path();
            let holder = holders.entry(planned.id.clone()).or_insert_with(|| path.to_owned());
            if holder == path {
                plan.bundles.push(planned);
                continue;
            }
            let failure = duplicate_id(&planned.id, holder, path);
            let (at, path) = (planned.at, path.to_owned());
            plan.rejected.push(Row::rejected(at, Some(planned.id), path, failure));
        }
        Ok(())
    }

    fn report_once(&mut self, faults: Vec<BundleError>, rejected: &mut Vec<Row>) {
        let reported = std::mem::take(&mut self.reported);
        for fault in faults {
            let text = fault.to_string();
            if !reported.contains(&text) {
                rejected.push(Row::rejected(0, None, PathBuf::new(), fault.into()));
            }
            self.reported.insert(text);
        }
    }

    /// Records the result of an import. An invalid bundle keeps its last version registered.
    pub(super) fn record(&mut self, row: &Row) {
        let (Some(id), Some(registered)) = (&row.id, row.outcome.registered()) else { return };
        self.owned.insert(id.clone(), registered.digest);
        if let Some(bundle) = self.bundles.get_mut(&row.place) {
            bundle.id = Some(id.clone());
        }
    }

    /// Gives up ownership of a skill.
    pub(super) fn disown(&mut self, id: &SkillId) {
        self.owned.remove(id);
    }

    pub(super) fn count(&self) -> usize {
        self.owned.len()
    }
}
