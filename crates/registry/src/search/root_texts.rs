//! Root documents of the skills that are indexed, read several at a time: each read of a remote store is a round trip.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicBool, Ordering},
};

use bytes::Bytes;
use skills_core::Digest;
use skills_store::{Store, StoreError};

use crate::catalog::{CatalogDifference, ChangedRow};

/// Most texts that are read at once, and most bytes of them, unless the first alone has more.
const MAX_TEXTS: usize = 64;
const MAX_BYTES: u64 = 4 << 20;
/// Texts in a row without an answer after which a store counts as unreachable. A single one may be the problem of that text.
const MAX_UNANSWERED: usize = 3;

/// Text of an entry.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct RootText {
    /// `None` for an entry without a text, or whose text is gone or was not read.
    pub(super) text: Option<String>,
    /// Reason why the text was not read.
    pub(super) failure: Option<ReadFailure>,
}

/// Reason why a text was not read. Another attempt may succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadFailure {
    /// The store cannot be reached.
    Unreachable,
    /// The text alone cannot be read.
    Unreadable,
}

impl RootText {
    const fn unread(failure: ReadFailure) -> Self {
        Self { text: None, failure: Some(failure) }
    }
}

/// Splits entries into groups whose texts are read at once.
pub(super) fn groups(entries: &[CatalogDifference]) -> Vec<&[CatalogDifference]> {
    let mut groups = vec![];
    let (mut start, mut bytes) = (0, 0);
    for (at, entry) in entries.iter().enumerate() {
        let size = file_of(entry).map_or(0, |file| file.size);
        if at > start && (at - start == MAX_TEXTS || bytes + size > MAX_BYTES) {
            groups.push(&entries[start..at]);
            (start, bytes) = (at, 0);
        }
        bytes += size;
    }
    groups.push(&entries[start..]);
    groups
}

/// Reads the texts of a group. Entries that are no stored skills have none. Nothing is read once a read has found that the
/// store cannot be reached: each attempt may take until a time limit.
pub(super) fn read(
    store: &dyn Store,
    entries: &[CatalogDifference],
    is_unreachable: &AtomicBool,
) -> Vec<RootText> {
    let digests: Vec<_> = entries.iter().filter_map(file_of).map(|file| file.digest).collect();
    if digests.is_empty() {
        return vec![RootText::default(); entries.len()];
    }
    let unreachable = || vec![Err(ReadFailure::Unreachable); digests.len()];
    let read = if is_unreachable.load(Ordering::Relaxed) {
        unreachable()
    } else {
        match catch_unwind(AssertUnwindSafe(|| store.blobs(&digests))) {
            Ok(Ok(blobs)) => blobs.into_iter().map(Ok).collect(),
            // One of them is damaged, which must not hide the others.
            _ => read_one_by_one(store, &digests, is_unreachable),
        }
    };
    let mut read = read.into_iter();
    let text = |entry: &CatalogDifference| match file_of(entry).and_then(|_| read.next()) {
        Some(Ok(Some(bytes))) => {
            RootText { text: Some(String::from_utf8_lossy(&bytes).into_owned()), failure: None }
        }
        // Without a text; or replaced meanwhile, which is a difference of its own.
        None | Some(Ok(None)) => RootText::default(),
        Some(Err(failure)) => RootText::unread(failure),
    };
    entries.iter().map(text).collect()
}

/// Reads texts one by one. A text that makes the store panic counts as gone. A store that has no answer for several texts in
/// a row cannot be reached; the rest is not read then.
fn read_one_by_one(
    store: &dyn Store,
    digests: &[Digest],
    is_unreachable: &AtomicBool,
) -> Vec<Result<Option<Bytes>, ReadFailure>> {
    let mut read = Vec::with_capacity(digests.len());
    let mut unanswered = 0;
    for digest in digests {
        let text = catch_unwind(AssertUnwindSafe(|| store.blob(digest))).unwrap_or(Ok(None));
        let is_answered = !text.as_ref().is_err_and(StoreError::is_transient);
        unanswered = if is_answered { 0 } else { unanswered + 1 };
        read.push(text.map_err(|error| {
            tracing::debug!(%error, "text not readable for the search index");
            ReadFailure::Unreadable
        }));
        if unanswered == MAX_UNANSWERED {
            is_unreachable.store(true, Ordering::Relaxed);
            read.truncate(read.len() - unanswered);
            read.resize(digests.len(), Err(ReadFailure::Unreachable));
            break;
        }
    }
    read
}

/// Returns the root document of a stored skill.
fn file_of(entry: &CatalogDifference) -> Option<&skills_core::FileMeta> {
    match &entry.row {
        ChangedRow::Skill(row) if !row.is_live() => row.meta.root(),
        _ => None,
    }
}
