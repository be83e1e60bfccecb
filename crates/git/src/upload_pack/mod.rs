//! Server side of `git fetch`, for clients of protocol versions 2, 1 and 0 over stateless requests.
//!
//! - [`Advertisement`]: response to the first request
//! - [`Fetch`]: parsed request for objects; [`Fetch::answer`] decides which commits the client lacks
//! - `v2`, `v0`: parsers and responses of the two dialects
//! - `plan`: commits to send, and shallow boundaries
//!
//! Commits have at most one parent, so every question is answered by walks over parents.

mod plan;
mod side_band;
mod v0;
mod v2;

use std::collections::HashSet;

use crate::{
    ObjectId, ProtocolError,
    pkt_line::{quoted, write_flush, write_line},
};

pub use side_band::SideBand;

/// Most wants of a request beside the refs, of which a client may want every one: it names a commit by its id where it has
/// written that down.
const MAX_UNLISTED_WANTS: usize = 1024;

/// Name of this server in the protocol.
const AGENT: &str = concat!("agent=skills/", env!("CARGO_PKG_VERSION"));

/// Version of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Version {
    /// Original protocol.
    #[default]
    V0,
    /// Original protocol, with its version in the first response.
    V1,
    /// Commands.
    V2,
}

impl Version {
    /// Parses the header `Git-Protocol`, in which unknown parts are ignored.
    #[must_use]
    pub fn from_header(header: &str) -> Self {
        let mut versions = header.split(':').filter_map(|part| match part.trim() {
            "version=1" => Some(Self::V1),
            "version=2" => Some(Self::V2),
            _ => None,
        });
        versions.next_back().unwrap_or_default()
    }
}

/// Named commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// Full name, such as `refs/heads/main`.
    pub name: String,
    /// Commit.
    pub id: ObjectId,
}

/// Commit as the protocol needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommitNode {
    /// Commit before.
    pub parent: Option<ObjectId>,
    /// Seconds since 1970.
    pub time: u64,
}

/// Commits that a client may have: all of them, and none else.
pub trait CommitGraph {
    /// Returns a commit; `None` if it is not one of this repository.
    fn commit(&self, id: &ObjectId) -> Option<CommitNode>;
    /// Returns the refs in order of their names.
    fn references(&self) -> Vec<Reference>;
    /// Returns the name of the branch that `HEAD` stands for. It may have no commit yet.
    fn head(&self) -> &str;
}

/// Response to the first request of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Advertisement;

impl Advertisement {
    /// Returns the body of the response.
    #[must_use]
    pub fn body(version: Version, graph: &dyn CommitGraph) -> Vec<u8> {
        match version {
            Version::V2 => v2::capabilities(),
            Version::V0 | Version::V1 => v0::advertisement(version, graph),
        }
    }
}

/// Ids in the order of a request, each once.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct UniqueIds {
    ids: Vec<ObjectId>,
    known: HashSet<ObjectId>,
}

impl UniqueIds {
    fn insert(&mut self, id: ObjectId) {
        if self.known.insert(id) {
            self.ids.push(id);
        }
    }

    fn as_slice(&self) -> &[ObjectId] {
        &self.ids
    }

    fn iter(&self) -> impl Iterator<Item = &ObjectId> {
        self.ids.iter()
    }

    const fn len(&self) -> usize {
        self.ids.len()
    }

    const fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }
}

/// Limit on the history that a client wants.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Deepen<'a> {
    /// Number of commits from each want, or from the client's boundary if `is_relative`.
    pub(crate) depth: Option<u64>,
    pub(crate) is_relative: bool,
    /// Earliest time.
    pub(crate) since: Option<u64>,
    /// Refs whose commits are left out.
    pub(crate) excluded: HashSet<&'a str>,
}

impl Deepen<'_> {
    pub(crate) fn is_requested(&self) -> bool {
        self.depth.is_some() || self.since.is_some() || !self.excluded.is_empty()
    }
}

/// Request of a client for objects. Names are slices of its body.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fetch<'a> {
    pub(crate) wants: UniqueIds,
    pub(crate) want_refs: HashSet<&'a str>,
    pub(crate) haves: UniqueIds,
    /// Commits whose parents the client lacks.
    pub(crate) shallow: HashSet<ObjectId>,
    pub(crate) deepen: Deepen<'a>,
    pub(crate) is_done: bool,
    pub(crate) is_thin: bool,
    dialect: Dialect,
}

/// Form of the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Dialect {
    #[default]
    V2,
    V0 {
        acks: v0::Acks,
        no_done: bool,
        side_band: SideBand,
    },
}

/// Request of a client after the first one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request<'a> {
    /// List of refs, with the response.
    References(Vec<u8>),
    /// Objects.
    Fetch(Box<Fetch<'a>>),
    /// Nothing: the client has ended the exchange.
    Nothing,
}

impl<'a> Request<'a> {
    /// Memory of a parsed request for each byte of its body.
    pub const WEIGHT: usize = 3;

    /// Parses the body of a request.
    ///
    /// # Errors
    /// When it breaks the protocol.
    pub fn parse(
        version: Version,
        body: &'a [u8],
        graph: &dyn CommitGraph,
    ) -> Result<Self, ProtocolError> {
        match version {
            Version::V2 => v2::parse(body, graph),
            Version::V0 | Version::V1 => v0::parse(body),
        }
    }
}

/// Response to a [`Fetch`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Complete response, without a pack.
    Reply(Vec<u8>),
    /// Start of a response that a pack follows.
    Pack {
        /// Lines before the pack.
        head: Vec<u8>,
        /// Commits to send, parents first.
        commits: Vec<ObjectId>,
        /// Commits that the client has, with all their files.
        had: HashSet<ObjectId>,
        /// True if deltas may refer to objects that the client has.
        is_thin: bool,
        /// Framing of the pack.
        side_band: SideBand,
    },
}

impl<'a> Fetch<'a> {
    /// Decides what the client gets.
    ///
    /// # Errors
    /// When the request names no commit, or more of them than there are refs and [`MAX_UNLISTED_WANTS`].
    pub fn answer(mut self, graph: &dyn CommitGraph) -> Result<Outcome, ProtocolError> {
        let references = graph.references();
        for reference in &references {
            if self.want_refs.remove(&*reference.name) {
                self.wants.insert(reference.id);
            }
        }
        if let Some(unknown) = self.want_refs.iter().min() {
            return Ok(self.failure(&format!("unknown ref {}", quoted(unknown))));
        }
        let max_wants = references.len() + MAX_UNLISTED_WANTS;
        if self.wants.is_empty() {
            return Err(ProtocolError::NoWants);
        }
        if self.wants.len() > max_wants {
            return Err(ProtocolError::TooManyWants(max_wants));
        }
        if let Some(unknown) = self.wants.iter().find(|want| graph.commit(want).is_none()) {
            return Ok(self.failure(&format!("not our ref {unknown}")));
        }
        let common = plan::common(graph, &self.haves);
        let history = plan::plan(graph, &references, &self, &common);
        Ok(match self.dialect {
            Dialect::V2 => v2::respond(&self, common, history),
            Dialect::V0 { acks, no_done, side_band } => {
                v0::respond(&self, common, history, acks, no_done, side_band)
            }
        })
    }

    /// Returns the response to a request that cannot be fulfilled. Git shows the message.
    fn failure(&self, message: &str) -> Outcome {
        let mut reply = Vec::new();
        write_line(&mut reply, &format!("ERR upload-pack: {message}"));
        if self.dialect == Dialect::V2 {
            write_flush(&mut reply);
        }
        Outcome::Reply(reply)
    }

    /// Reads a line that both dialects have. Returns whether it is one.
    fn read_shared(&mut self, key: &str, value: &'a str) -> Result<bool, ProtocolError> {
        match key {
            "have" => self.haves.insert(object_id(value)?),
            "shallow" => {
                self.shallow.insert(object_id(value)?);
            }
            "deepen" => {
                // Git sends 0 for no limit in protocol 0.
                let depth = value.parse().map_err(|_| ProtocolError::Depth(quoted(value)))?;
                self.deepen.depth = Some(depth).filter(|depth| *depth > 0);
            }
            "deepen-since" => {
                let since = value.parse().map_err(|_| ProtocolError::Depth(quoted(value)))?;
                self.deepen.since = Some(since);
            }
            "deepen-not" => {
                self.deepen.excluded.insert(value);
            }
            "deepen-relative" => self.deepen.is_relative = true,
            "done" => self.is_done = true,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn object_id(text: &str) -> Result<ObjectId, ProtocolError> {
    text.parse().map_err(|_| ProtocolError::ObjectId(quoted(text)))
}

/// Splits a line at its first space.
fn key_value(line: &str) -> (&str, &str) {
    line.split_once(' ').unwrap_or((line, ""))
}

#[cfg(test)]
mod tests;
