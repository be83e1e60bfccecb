use std::{cell::Cell, collections::HashMap};

use super::*;
use crate::{
    ObjectKind,
    pkt_line::{write_delimiter, write_frame},
};

/// Line of commits with a branch at its end and a tag at every one, which counts the commits that are looked up.
struct Line {
    commits: HashMap<ObjectId, CommitNode>,
    ids: Vec<ObjectId>,
    lookups: Cell<usize>,
}

fn id(number: usize) -> ObjectId {
    ObjectId::of(ObjectKind::Commit, &number.to_le_bytes())
}

impl Line {
    fn new(length: usize) -> Self {
        let ids: Vec<ObjectId> = (0..length).map(id).collect();
        let node = |number: usize| CommitNode {
            parent: number.checked_sub(1).map(|parent| ids[parent]),
            time: 1000 + number as u64,
        };
        let commits = (0..length).map(|number| (ids[number], node(number))).collect();
        Self { commits, ids, lookups: Cell::new(0) }
    }

    /// Answers a request of protocol 2. Returns its response and the number of commits that were looked up.
    fn answer(&self, lines: &[String]) -> (Result<Outcome, ProtocolError>, usize) {
        self.lookups.set(0);
        let mut body = Vec::new();
        write_line(&mut body, "command=fetch");
        write_delimiter(&mut body);
        lines.iter().for_each(|line| write_frame(&mut body, &[line.as_bytes(), b"\n"]));
        write_flush(&mut body);
        let request = Request::parse(Version::V2, &body, self);
        let outcome = request.and_then(|request| match request {
            Request::Fetch(fetch) => fetch.answer(self),
            other => panic!("{other:?}"),
        });
        (outcome, self.lookups.get())
    }

    /// Returns the commits of a pack, and its head.
    fn pack(&self, lines: &[String]) -> (Vec<ObjectId>, String, usize) {
        match self.answer(lines) {
            (Ok(Outcome::Pack { head, commits, .. }), lookups) => {
                (commits, String::from_utf8(head).unwrap(), lookups)
            }
            other => panic!("{other:?}"),
        }
    }

    fn wants(&self) -> impl Iterator<Item = String> {
        self.ids.iter().rev().map(|id| format!("want {id}"))
    }
}

impl CommitGraph for Line {
    fn commit(&self, id: &ObjectId) -> Option<CommitNode> {
        self.lookups.set(self.lookups.get() + 1);
        self.commits.get(id).copied()
    }

    fn references(&self) -> Vec<Reference> {
        let tag = |(number, id): (usize, &ObjectId)| Reference {
            name: format!("refs/tags/v{number}"),
            id: *id,
        };
        let mut references: Vec<Reference> = self.ids.iter().enumerate().map(tag).collect();
        let main =
            self.ids.last().map(|id| Reference { name: "refs/heads/main".to_owned(), id: *id });
        references.extend(main);
        references
    }

    fn head(&self) -> &str {
        "refs/heads/main"
    }
}

fn all(wants: impl IntoIterator<Item = String>, more: &[&str]) -> Vec<String> {
    wants.into_iter().chain(more.iter().map(|&line| line.to_owned())).collect()
}

/// Wants of the request that is cheapest to send.
const EQUAL_WANTS: usize = 1 << 16;

/// Limits of a request, by which the commits that a client gets are cut.
const LIMITS: [&[&str]; 4] = [
    &["done"],
    &["deepen 1000000", "done"],
    &["deepen-since 500", "done"],
    &["deepen-not refs/heads/none", "done"],
];

#[test]
fn a_negotiation_walks_each_commit_as_often_whatever_the_number_of_equal_wants() {
    let line = Line::new(2000);
    let main = || line.wants().take(1);
    for limit in LIMITS {
        let (commits, head, once) = line.pack(&all(main(), limit));
        let want = main().next().unwrap();
        let wants = std::iter::repeat_n(want, EQUAL_WANTS);
        let (again, same_head, often) = line.pack(&all(wants, limit));
        assert_eq!((commits.len(), again, same_head), (2000, commits, head), "{limit:?}");
        assert_eq!(often, once, "{limit:?}");
    }
}

#[test]
fn a_negotiation_with_every_commit_walks_each_a_bounded_number_of_times() {
    let line = Line::new(2000);
    for limit in LIMITS {
        let haves = line.ids.iter().step_by(2).map(|id| format!("have {id}"));
        let lines: Vec<String> = line.wants().chain(haves).collect();
        let (_, lookups) = line.answer(&all(lines, limit));
        // Walks of wants, haves and boundaries, each with a lookup of a commit and of its parent.
        assert!(lookups <= 12 * 2000, "{limit:?}: {lookups}");
    }
}

#[test]
fn a_depth_counts_from_the_nearest_want() {
    let line = Line::new(20);
    let want = |number: usize| format!("want {}", line.ids[number]);
    let commits = |numbers: std::ops::Range<usize>| line.ids[numbers].to_vec();
    let (sent, head, _) = line.pack(&all([want(19)], &["deepen 3", "done"]));
    assert_eq!(sent, commits(17..20));
    assert!(head.contains(&format!("shallow {}", line.ids[17])) && !head.contains("unshallow"));
    // Each want has its own part of the history, and one that is within another's is no boundary.
    let (sent, head, _) = line.pack(&all([want(19), want(18), want(9)], &["deepen 3", "done"]));
    assert_eq!(sent, [commits(16..20), commits(7..10)].concat());
    assert_eq!(head.matches("shallow ").count(), 2, "{head}");
    // Three more than the client has: its boundary moves.
    let known = format!("shallow {}", line.ids[17]);
    let more = [&*known, &format!("have {}", line.ids[19]), "deepen-relative", "deepen 3", "done"];
    let (sent, head, _) = line.pack(&all([want(19)], &more));
    assert_eq!(sent, commits(14..17));
    assert!(head.contains(&format!("unshallow {}", line.ids[17])), "{head}");
}

#[test]
fn times_and_refs_cut_a_history() {
    let line = Line::new(20);
    let want = format!("want {}", line.ids[19]);
    let (sent, ..) = line.pack(&all([want.clone()], &["deepen-since 1015", "done"]));
    assert_eq!(sent, line.ids[15..]);
    let (sent, ..) = line.pack(&all([want.clone()], &["deepen-not v11", "done"]));
    assert_eq!(sent, line.ids[12..]);
    let both = ["deepen-not refs/tags/v11", "deepen-not v3", "deepen-since 1017", "done"];
    assert_eq!(line.pack(&all([want], &both)).0, line.ids[17..]);
}

#[test]
fn more_wants_than_refs_and_a_few_commits_are_refused() {
    let line = Line::new(2);
    let most = 3 + MAX_UNLISTED_WANTS;
    let unknown = |count: usize| (0..count).map(|number| format!("want {}", id(1000 + number)));
    let (refused, lookups) = line.answer(&all(unknown(most + 1), &["done"]));
    assert_eq!((refused, lookups), (Err(ProtocolError::TooManyWants(most)), 0));
    let (answered, _) = line.answer(&all(unknown(most), &["done"]));
    assert!(matches!(answered, Ok(Outcome::Reply(_))), "{answered:?}");
}

#[test]
fn a_request_is_ready_if_each_want_has_an_ancestor_that_the_client_has() {
    let mut line = Line::new(10);
    // The upper half is a history of its own.
    line.commits.insert(line.ids[5], CommitNode { parent: None, time: 1005 });
    let ready = |wants: &[usize], have: usize| {
        let wants = wants.iter().map(|number| format!("want {}", line.ids[*number]));
        let have = format!("have {}", line.ids[have]);
        matches!(line.answer(&all(wants, &[&have])).0, Ok(Outcome::Pack { .. }))
    };
    assert!(ready(&[9, 7, 6], 6) && ready(&[6, 9], 5) && ready(&[2, 4], 1));
    assert!(!ready(&[9, 4], 5) && !ready(&[4, 9], 5) && !ready(&[3], 9));
}
