//! Backups: one gzipped tar file whose parts carry their checksums.
//!
//! | part | content |
//! |---|---|
//! | `backup.json` | format, version of the program, time, whether there is a vault |
//! | `store/TABLE/NUMBER-SHA256.jsonl`, `vault/…` | rows of a table, one JSON array each |
//! | `store/blob/SHA256` | bytes of a blob |
//! | `end.json` | number of parts, and the SHA-256 of the list of all parts before |
//!
//! So every part is checked by its name, and the whole by the last part. Headers have one form: a reader compares them
//! byte by byte with what it would write, and accepts the parts in their order only. No part is a path of a file system:
//! nothing of an archive is extracted.

mod part;
mod read;
mod rows;
mod write;

pub use read::ArchiveReader;
use serde::{Deserialize, Serialize};
pub use write::ArchiveWriter;

/// Newest format that is read, and the one that is written.
pub const FORMAT: u64 = 1;

/// Largest part. Pages of rows have a few MiB, blobs and single values at most a few dozen.
const MAX_PART_BYTES: u64 = 256 << 20;
/// Largest first and last part.
const MAX_RECORD_BYTES: u64 = 64 << 10;

const HEADER: &str = "backup.json";
const END: &str = "end.json";

/// First part of an archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArchiveHeader {
    /// Format; parts are read only if it is known.
    pub format: u64,
    /// Version of the program that wrote it.
    pub version: String,
    /// Time of the backup, RFC 3339.
    pub created_at: String,
    /// Whether there is a vault.
    pub vault: bool,
}

/// Last part of an archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct ArchiveEnd {
    parts: u64,
    sha256: String,
}

#[cfg(test)]
mod tests;
