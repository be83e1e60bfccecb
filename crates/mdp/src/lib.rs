//! A host of the Model Drive Protocol.
//!
//! - [`path`], [`trie`]: the rules of paths, and finding the pattern for one
//! - [`wire`]: the messages

pub mod path;
pub mod trie;
pub mod wire;
