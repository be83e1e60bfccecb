//! Commits to send, and shallow boundaries.

use std::collections::HashSet;

use super::{CommitGraph, Deepen, Fetch, Reference};
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
pub(super) fn common(graph: &dyn CommitGraph, haves: &[ObjectId]) -> Vec<ObjectId> {
    let mut seen = HashSet::new();
    let known = haves.iter().filter(|have| graph.commit(have).is_some());
    known.filter(|have| seen.insert(**have)).copied().collect()
}

pub(super) fn plan(
    graph: &dyn CommitGraph,
    references: &[Reference],
    fetch: &Fetch,
    common: &[ObjectId],
) -> History {
    let had = reachable(graph, common, &fetch.shallow);
    let (wanted, boundary) = if fetch.deepen.is_requested() {
        deepened(graph, references, fetch)
    } else {
        // A shallow client stays shallow.
        (ordered(graph, &fetch.wants, &fetch.shallow), HashSet::new())
    };
    let is_ready = fetch.wants.iter().all(|want| has_ancestor(graph, *want, &had));
    let mut history = History { is_ready, ..History::default() };
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

/// Returns all commits that are reachable, without passing a boundary.
fn reachable(
    graph: &dyn CommitGraph,
    starts: &[ObjectId],
    boundary: &HashSet<ObjectId>,
) -> HashSet<ObjectId> {
    let mut found = HashSet::new();
    for start in starts {
        let mut next = Some(*start);
        while let Some(id) = next {
            if !found.insert(id) || boundary.contains(&id) {
                break;
            }
            next = graph.commit(&id).and_then(|commit| commit.parent);
        }
    }
    found
}

/// Returns the commits that are reachable without passing a boundary, parents first.
fn ordered(
    graph: &dyn CommitGraph,
    starts: &[ObjectId],
    boundary: &HashSet<ObjectId>,
) -> Vec<ObjectId> {
    let (mut seen, mut all) = (HashSet::new(), Vec::new());
    for start in starts {
        let mut line = Vec::new();
        let mut next = Some(*start);
        while let Some(id) = next {
            if !seen.insert(id) {
                break;
            }
            line.push(id);
            if boundary.contains(&id) {
                break;
            }
            next = graph.commit(&id).and_then(|commit| commit.parent);
        }
        all.extend(line.into_iter().rev());
    }
    all
}

fn has_ancestor(graph: &dyn CommitGraph, want: ObjectId, had: &HashSet<ObjectId>) -> bool {
    let mut next = Some(want);
    while let Some(id) = next {
        if had.contains(&id) {
            return true;
        }
        next = graph.commit(&id).and_then(|commit| commit.parent);
    }
    false
}

/// Returns the commits within the limits of a request, parents first, and the oldest of them.
fn deepened(
    graph: &dyn CommitGraph,
    references: &[Reference],
    fetch: &Fetch,
) -> (Vec<ObjectId>, HashSet<ObjectId>) {
    let Deepen { depth, is_relative, since, excluded } = &fetch.deepen;
    let is_excluded = |reference: &&Reference| {
        let short = reference.name.splitn(3, '/').nth(2);
        excluded.iter().any(|name| *name == reference.name || Some(name.as_str()) == short)
    };
    let excluded: Vec<ObjectId> =
        references.iter().filter(is_excluded).map(|reference| reference.id).collect();
    let excluded = reachable(graph, &excluded, &HashSet::new());
    let mut boundary = HashSet::new();
    for want in &fetch.wants {
        let (mut next, mut count, mut is_beyond) = (Some(*want), 0_u64, !is_relative);
        while let Some(id) = next {
            let Some(commit) = graph.commit(&id) else { break };
            // Relative depths count from the boundary of the client.
            is_beyond |= fetch.shallow.contains(&id);
            if is_beyond {
                count += 1;
            }
            let limit =
                depth.map(|depth| if *is_relative { depth.saturating_add(1) } else { depth });
            let parent_is_out = commit.parent.is_some_and(|parent| {
                excluded.contains(&parent)
                    || since.is_some_and(|since| {
                        graph.commit(&parent).is_none_or(|parent| parent.time < since)
                    })
            });
            if commit.parent.is_some()
                && (limit.is_some_and(|limit| count >= limit) || parent_is_out)
            {
                boundary.insert(id);
                break;
            }
            next = commit.parent;
        }
    }
    (ordered(graph, &fetch.wants, &boundary), boundary)
}
