//! Git without a repository on disk: objects, packs, pkt-lines and the server side of `git fetch`.
//!
//! - [`object`]: object ids, and the bytes of blobs, trees and commits
//! - `deflate`: fast compression of small objects
//! - [`delta`]: differences between two versions of an object
//! - [`pack`]: packs, written object by object
//! - [`pkt_line`]: frames of the protocol
//! - [`upload_pack`]: requests of protocol versions 2, 1 and 0, and what a client lacks
//!
//! Everything here is a pure function of its input. The crate knows neither HTTP nor what the files are.

mod deflate;
pub mod delta;
pub mod object;
pub mod pack;
pub mod pkt_line;
pub mod upload_pack;

pub use object::{Commit, EntryMode, ObjectId, ObjectKind, TreeEntry};
pub use pack::PackWriter;
pub use pkt_line::{Packet, ProtocolError};
pub use upload_pack::{
    Advertisement, CommitGraph, CommitNode, Fetch, Outcome, Reference, SideBand,
};
