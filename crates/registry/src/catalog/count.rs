//! Number of skills that their ids resolve to, without a scan of all skills where possible.

use std::sync::Arc;

use skills_core::resolve::{self, Candidates, Prefix};

use super::layer_index::LayerIndex;

/// Counts the effective skills of layers in the order of resolution.
pub(super) fn effective(layers: &[Arc<LayerIndex>], prefix: &Prefix) -> usize {
    match layers {
        [] => 0,
        [only] => only.skills.len(),
        [first, second] if second.skills.len() < first.skills.len() => {
            let ids = second.skills.ids();
            first.skills.len() + ids.filter(|id| !shadows(first, id, prefix)).count()
        }
        [first, rest @ ..] => with_private(first, rest, effective(rest, prefix), prefix),
    }
}

/// Counts the effective skills when `first` comes before `rest`, which has `rest_count` of its own. The cost depends on
/// the size of `first` alone.
pub(super) fn with_private(
    first: &LayerIndex,
    rest: &[Arc<LayerIndex>],
    rest_count: usize,
    prefix: &Prefix,
) -> usize {
    let exact = first.skills.all_ids().map(|id| &**id);
    // A name that is shadowed twice counts once.
    let shorter = first.skills.all_ids().filter_map(|id| prefix.strip(id));
    let shorter = shorter.filter(|name| first.skills.slot(name).is_none());
    let shadowed = exact.chain(shorter).filter(|name| is_effective(rest, name, prefix)).count();
    first.skills.len() + rest_count - shadowed
}

/// Returns whether a layer has an entry that an id resolves to.
fn shadows(layer: &LayerIndex, id: &str, prefix: &Prefix) -> bool {
    Candidates::new(id, prefix).iter().any(|name| layer.skills.slot(name).is_some())
}

/// Returns whether an id resolves to an entry of the same id.
fn is_effective(layers: &[Arc<LayerIndex>], id: &str, prefix: &Prefix) -> bool {
    let names = Candidates::new(id, prefix);
    let hit = resolve::hits(layers, &names, |layer, name| layer.skills.slot(name)).next();
    hit.and_then(|(_, slot)| slot.row()).is_some_and(|row| &*row.id == id)
}
