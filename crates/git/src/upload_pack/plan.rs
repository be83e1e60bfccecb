//! Commits to send, and shallow boundaries.
//!
//! Every question is answered by one walk that all wants, or all commits of the client, share: it looks at a commit once,
//! however many of them lead to it. So the cost is bounded by the history and the length of the request, never by their product.

use std::collections::HashSet;

use super::{CommitGraph, Deepen, Fetch, Reference, UniqueIds};
use crate::ObjectId;

/// Part of the history that a client gets.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct History {
    /// Commits to send, parents first.
    pub(super) commits: Vec<ObjectId>,
    /// Commits that the client has.
    pub(super) had: HashSet<ObjectId>,
    /// Commits whose parents the client will lack, and does not know it.
    pub(super) shallow: Vec<ObjectId>,
    /// Commits whose parents the client lacked, and will have.
    pub(super) unshallow: Vec<ObjectId>,
    /// True if every want has an ancestor that the client has.
    pub(super) is_ready: bool,
}

/// Returns those commits of the client that are known here, in the client's order.
pub(super) fn common(graph: &dyn CommitGraph, haves: &UniqueIds) -> Vec<ObjectId> {
    haves.iter().filter(|have| graph.commit(have).is_some()).copied().collect()
}

pub(super) fn plan(
    graph: &dyn CommitGraph,
    references: &[Reference],
    fetch: &Fetch<'_>,
    common: &[ObjectId],
) -> History {
    let had = reachable(graph, common, &fetch.shallow);
    let wants = fetch.wants.as_slice();
    let (wanted, boundary) = if fetch.deepen.is_requested() {
        let boundary = boundary(graph, references, fetch);
        (ordered(graph, wants, &boundary, &HashSet::new()), boundary)
    } else {
        // A shallow client stays shallow. It has what is below a commit that it has, down to its boundary.
        (ordered(graph, wants, &fetch.shallow, &had), HashSet::new())
    };
    let mut history =
        History { is_ready: have_ancestors(graph, wants, &had), ..Default::default() };
    if fetch.deepen.is_requested() {
        let included: HashSet<ObjectId> = wanted.iter().copied().collect();
        let new = wanted.iter().filter(|id| boundary.contains(*id) && !fetch.shallow.contains(*id));
        history.shallow = new.copied().collect();
        let grown = |id: &&ObjectId| included.contains(*id) && !boundary.contains(*id);
        history.unshallow = fetch.shallow.iter().filter(grown).copied().collect();
        history.unshallow.sort_unstable();
    }
    history.commits = wanted.into_iter().filter(|id| !had.contains(id)).collect();
    history.had = had;
    history
}

/// Walks from each start over its ancestors until `visit` returns false. Commits that were visited end a walk too.
fn walk(
    graph: &dyn CommitGraph,
    starts: &[ObjectId],
    seen: &mut HashSet<ObjectId>,
    mut visit: impl FnMut(ObjectId, Option<ObjectId>) -> bool,
) {
    for start in starts {
        let mut next = Some(*start);
        while let Some(id) = next.filter(|id| seen.insert(*id)) {
            let parent = graph.commit(&id).and_then(|commit| commit.parent);
            next = if visit(id, parent) { parent } else { None };
        }
    }
}

/// Returns all commits that are reachable, without passing a boundary.
fn reachable(
    graph: &dyn CommitGraph,
    starts: &[ObjectId],
    boundary: &HashSet<ObjectId>,
) -> HashSet<ObjectId> {
    let mut found = HashSet::new();
    walk(graph, starts, &mut found, |id, _| !boundary.contains(&id));
    found
}

/// Returns the commits that are reachable without passing a boundary or reaching one that the client has, parents first.
fn ordered(
    graph: &dyn CommitGraph,
    starts: &[ObjectId],
    boundary: &HashSet<ObjectId>,
    had: &HashSet<ObjectId>,
) -> Vec<ObjectId> {
    let (mut seen, mut all) = (HashSet::new(), Vec::new());
    for start in starts {
        let first = all.len();
        walk(graph, &[*start], &mut seen, |id, _| {
            let is_new = !had.contains(&id);
            all.extend(is_new.then_some(id));
            is_new && !boundary.contains(&id)
        });
        all[first..].reverse();
    }
    all
}

/// Returns whether every start is, or has an ancestor, in a set.
fn have_ancestors(graph: &dyn CommitGraph, starts: &[ObjectId], had: &HashSet<ObjectId>) -> bool {
    // A walk that ends at a commit of an earlier one ends where that one did, which was in the set.
    let (mut seen, mut all) = (HashSet::new(), true);
    for start in starts {
        walk(graph, &[*start], &mut seen, |id, parent| {
            let is_had = had.contains(&id);
            all &= is_had || parent.is_some();
            !is_had
        });
        if !all {
            break;
        }
    }
    all
}

/// Returns the oldest commits within the limits of a request.
fn boundary(
    graph: &dyn CommitGraph,
    references: &[Reference],
    fetch: &Fetch<'_>,
) -> HashSet<ObjectId> {
    let Deepen { depth, is_relative, since, excluded } = &fetch.deepen;
    let wants = fetch.wants.as_slice();
    let mut boundary = HashSet::new();
    if since.is_some() || !excluded.is_empty() {
        let is_excluded = |reference: &&Reference| {
            let short = reference.name.splitn(3, '/').nth(2);
            excluded.contains(&*reference.name) || short.is_some_and(|name| excluded.contains(name))
        };
        let tips: Vec<ObjectId> =
            references.iter().filter(is_excluded).map(|reference| reference.id).collect();
        let excluded = reachable(graph, &tips, &HashSet::new());
        let is_early = |id: &ObjectId| {
            since.is_some_and(|since| graph.commit(id).is_none_or(|commit| commit.time < since))
        };
        walk(graph, wants, &mut HashSet::new(), |id, parent| {
            let is_last =
                parent.is_some_and(|parent| excluded.contains(&parent) || is_early(&parent));
            if is_last {
                boundary.insert(id);
            }
            !is_last
        });
    }
    if let Some(depth) = depth {
        if *is_relative {
            // Relative depths count from the boundary of the client.
            let mut reached = Vec::new();
            walk(graph, wants, &mut HashSet::new(), |id, _| {
                reached.extend(Some(id).filter(|id| fetch.shallow.contains(id)));
                true
            });
            boundary.extend(at_depth(graph, &reached, depth.saturating_add(1)));
        } else {
            boundary.extend(at_depth(graph, wants, *depth));
        }
    }
    boundary
}

/// Returns the commits with parents whose shortest line from a start has a number of commits.
fn at_depth(graph: &dyn CommitGraph, starts: &[ObjectId], depth: u64) -> HashSet<ObjectId> {
    let mut seen: HashSet<ObjectId> = starts.iter().copied().collect();
    let (mut level, mut number) = (starts.to_vec(), 1);
    while !level.is_empty() {
        let parents = level.iter().filter_map(|id| Some((*id, graph.commit(id)?.parent?)));
        if number >= depth {
            return parents.map(|(id, _)| id).collect();
        }
        level = parents.map(|(_, parent)| parent).filter(|parent| seen.insert(*parent)).collect();
        number += 1;
    }
    HashSet::new()
}
