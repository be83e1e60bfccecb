//! How many skills answer to their ids, without walking over all of them where that can be spared.

use std::sync::Arc;

use skills_core::resolve::{self, Candidates, Prefix};

use super::shelf::Shelf;

/// How many answer in layers that come in this order.
pub(super) fn effective(layers: &[Arc<Shelf>], prefix: &Prefix) -> usize {
    match layers {
        [] => 0,
        [only] => only.skills.len(),
        [first, second] if second.skills.len() < first.skills.len() => {
            let ids = second.skills.ids();
            first.skills.len() + ids.filter(|id| !is_taken(first, id, prefix)).count()
        }
        [first, rest @ ..] => over(first, rest, effective(rest, prefix), prefix),
    }
}

/// How many answer when a layer comes before others, of which so many answer without it. It costs as much as
/// the layer has.
pub(super) fn over(first: &Shelf, rest: &[Arc<Shelf>], without: usize, prefix: &Prefix) -> usize {
    let exact = first.skills.ids().map(|id| &**id);
    // A name that is taken twice is taken once.
    let shorter = first.skills.ids().filter_map(|id| prefix.stripped(id));
    let shorter = shorter.filter(|name| first.skills.get(name).is_none());
    let taken = exact.chain(shorter).filter(|name| answers(rest, name, prefix)).count();
    first.skills.len() + without - taken
}

/// Whether an id leads to an entry of a layer.
fn is_taken(layer: &Shelf, id: &str, prefix: &Prefix) -> bool {
    Candidates::new(id, prefix).iter().any(|name| layer.skills.get(name).is_some())
}

/// Whether there is an entry of that id which answers to it.
fn answers(layers: &[Arc<Shelf>], id: &str, prefix: &Prefix) -> bool {
    let names = Candidates::new(id, prefix);
    let hit = resolve::hits(layers, &names, |shelf, name| shelf.skills.get(name)).next();
    hit.is_some_and(|(_, row)| &*row.id == id)
}
