//! Names and tar headers of parts.

use skills_core::Digest;
use tar::{EntryType, Header};

use crate::Table;

/// Returns the name of a page of rows.
pub(super) fn page_name(table: &Table, number: u64, digest: &Digest) -> String {
    format!("{}/{}/{number:06}-{digest}.jsonl", table.part.as_str(), table.name)
}

/// Returns the name of a blob.
pub(super) fn blob_name(table: &Table, digest: &Digest) -> String {
    format!("{}/{}/{digest}", table.part.as_str(), table.name)
}

/// Returns the only header that a part of this name and size may have.
pub(super) fn header(name: &str, size: u64) -> Option<Header> {
    let mut header = Header::new_ustar();
    header.set_path(name).ok()?;
    header.set_entry_type(EntryType::Regular);
    header.set_size(size);
    header.set_mode(0o600);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_cksum();
    Some(header)
}

/// Returns the number of bytes that fill the last block of a part.
pub(super) const fn padding(size: u64) -> u64 {
    size.next_multiple_of(512) - size
}

/// Digest of the list of parts.
#[derive(Debug, Clone)]
pub(super) struct PartList {
    digest: Digest,
    pub(super) count: u64,
}

impl PartList {
    pub(super) fn new() -> Self {
        Self { digest: Digest::of(b""), count: 0 }
    }

    /// Adds a part: the digest of the list and the new line is the new digest.
    pub(super) fn push(&mut self, name: &str, size: u64, digest: &Digest) {
        self.digest = Digest::of(format!("{} {digest} {size} {name}\n", self.digest).as_bytes());
        self.count += 1;
    }

    pub(super) fn sha256(&self) -> String {
        self.digest.to_string()
    }
}
