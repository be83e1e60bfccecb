//! Conflicts: content that an import would replace although it came from another place.

use skills_bundles::BundleCandidate;
use skills_core::{Code, Provenance, SkillId, limits::MAX_ID_BYTES, uri::SCHEME};
use skills_registry::SkillRow;

use crate::{Failure, output::plain};

/// Most ids that are tried for a renamed skill.
const MAX_RENAMES: usize = 1000;

/// Describes the other place that a stored skill came from. `None` if it came from the same place, or from an unknown
/// one. A tool comes from its manifest.
pub(super) fn other_source(row: &SkillRow, candidate: &BundleCandidate) -> Option<String> {
    let Some(stored) = row.meta.provenance.as_deref() else {
        return row.meta.tool.as_ref().map(|_| "the manifest of a tool".to_owned());
    };
    (!candidate.is_from(stored)).then(|| stored.to_string())
}

/// Returns the ids that a renamed skill may get, in the order in which they are tried: `id-2`, `id-3` and so on.
pub(super) fn renamed_ids(id: &SkillId) -> impl Iterator<Item = SkillId> {
    (2..MAX_RENAMES).filter_map(move |number| {
        let suffix = format!("-{number}");
        let room = MAX_ID_BYTES - suffix.len();
        // An id is ASCII.
        let head = id.as_str().get(..room).unwrap_or(id.as_str());
        format!("{head}{suffix}").parse().ok()
    })
}

/// Creates the error for a skill that would replace one of another source.
pub(super) fn conflict_error(id: &SkillId, old: &str, new: Option<&Provenance>) -> Failure {
    let new = new.map_or_else(|| "this content".to_owned(), Provenance::to_string);
    let message = format!("{SCHEME}{id} came from {old}, and {new} would replace it");
    Failure::new(Code::SourceConflict, plain(&message)).hint(
        "replace it with --replace, keep both with --prefix or --on-conflict rename, or keep the old one with \
         --on-conflict skip",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renamed_ids_fit() {
        let ids = |id: &str| renamed_ids(&id.parse().unwrap()).take(2).collect::<Vec<_>>();
        assert_eq!(ids("a").iter().map(SkillId::as_str).collect::<Vec<_>>(), ["a-2", "a-3"]);
        let long = ids(&"x".repeat(MAX_ID_BYTES));
        assert!(long.iter().all(|id| id.as_str().len() == MAX_ID_BYTES), "{long:?}");
    }
}
