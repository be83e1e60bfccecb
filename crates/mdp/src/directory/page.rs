//! Pages of a listing, and the cursor to the next one. A page is built as a JSON tree and sent as text; the size of both
//! is bounded.

use std::{fmt, num::NonZeroUsize, str::FromStr};

use serde_json::{Map, Value, json};

use skills_core::json_size::VALUE_BYTES;

use crate::{ClientCallError, wire::json_len};

/// Maximum entries of a page.
pub(super) const MAX_ENTRIES: usize = 1000;
/// Bytes after which a page ends.
const MAX_BYTES: usize = 1 << 20;
/// Memory of the JSON tree after which a page ends.
const MAX_TREE_BYTES: usize = 4 << 20;
/// Memory of the searched catalogs after which a page ends.
const MAX_SEARCHED_BYTES: usize = 32 << 20;
/// Memory to reserve for a page: its tree with the last entry, and its text, which is written twice.
pub(super) const RESERVED_BYTES: usize = 2 * MAX_TREE_BYTES + 6 * MAX_BYTES;

/// Page under construction.
pub(super) struct Page {
    entries: Vec<Value>,
    max_entries: usize,
    bytes: usize,
    tree_bytes: usize,
    searched: usize,
}

/// Returns the bytes of an entry as text, and the memory of its tree.
fn measure(entry: &Map<String, Value>) -> (usize, usize) {
    fn values(value: &Value) -> usize {
        1 + match value {
            Value::Array(items) => items.iter().map(values).sum(),
            Value::Object(fields) => fields.values().map(values).sum(),
            _ => 0_usize,
        }
    }
    let bytes = json_len(entry);
    (bytes, bytes + entry.values().map(values).sum::<usize>() * VALUE_BYTES)
}

impl Page {
    pub(super) fn new(limit: Option<NonZeroUsize>) -> Self {
        let max_entries = limit.map_or(MAX_ENTRIES, |limit| limit.get().min(MAX_ENTRIES));
        Self { entries: vec![], max_entries, bytes: 0, tree_bytes: 0, searched: 0 }
    }

    pub(super) fn is_full(&self) -> bool {
        self.entries.len() >= self.max_entries
            || !self.has_room(0, 0)
            || self.searched >= MAX_SEARCHED_BYTES
    }

    fn has_room(&self, bytes: usize, tree_bytes: usize) -> bool {
        self.bytes + bytes < MAX_BYTES && self.tree_bytes + tree_bytes < MAX_TREE_BYTES
    }

    pub(super) fn add(&mut self, entry: Map<String, Value>) {
        let (bytes, tree_bytes) = measure(&entry);
        self.bytes += bytes;
        self.tree_bytes += tree_bytes;
        self.entries.push(Value::Object(entry));
    }

    /// Counts the memory of searched catalogs, whether or not they match.
    pub(super) fn count_searched(&mut self, tree_bytes: usize) {
        self.searched = self.searched.saturating_add(tree_bytes);
    }

    /// Returns the first parts of an entry that fit into the page.
    pub(super) fn take_fitting(
        &self,
        parts: impl Iterator<Item = Map<String, Value>>,
    ) -> Vec<Value> {
        let (mut bytes, mut tree_bytes) = (0, 0);
        let fits = |part: &Map<String, Value>| {
            let fits = self.has_room(bytes, tree_bytes);
            let (more, more_tree_bytes) = measure(part);
            bytes += more;
            tree_bytes += more_tree_bytes;
            fits
        };
        parts.take_while(fits).map(Value::Object).collect()
    }

    /// Returns the page as JSON, with the cursor to the next one.
    pub(super) fn into_json(self, name: &str, next: Option<Cursor>) -> Value {
        let mut page = json!({ name: self.entries });
        if let Some(next) = next {
            page["nextCursor"] = next.to_string().into();
        }
        page
    }
}

/// Position in a listing: number of a client, and offset in its paths. The built-in client has number 0.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Cursor {
    pub(super) client: u64,
    /// Number of listed paths; for the built-in client, id of the skill and number of its listed paths.
    pub(super) after: String,
}

impl Cursor {
    /// Parses an optional cursor; without one the listing starts at the beginning.
    pub(super) fn from_option(given: Option<&str>) -> Result<Self, ClientCallError> {
        given.map_or_else(|| Ok(Self::default()), str::parse)
    }

    /// Returns the skill of the built-in client, and the number of its listed paths.
    pub(super) fn builtin_position(&self) -> Result<(Option<&str>, usize), ClientCallError> {
        if self.client != 0 || self.after.is_empty() {
            return Ok((None, 0));
        }
        let (id, listed) = self.after.rsplit_once('/').ok_or(ClientCallError::InvalidCursor)?;
        Ok((Some(id), listed.parse().map_err(|_| ClientCallError::InvalidCursor)?))
    }

    /// Returns the number of listed paths of a client.
    pub(super) fn offset_in(&self, client: u64) -> usize {
        if self.client == client { self.after.parse().unwrap_or(0) } else { 0 }
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.client, self.after)
    }
}

impl FromStr for Cursor {
    type Err = ClientCallError;

    fn from_str(text: &str) -> Result<Self, ClientCallError> {
        let (client, after) = text.split_once(':').ok_or(ClientCallError::InvalidCursor)?;
        let client = client.parse().map_err(|_| ClientCallError::InvalidCursor)?;
        Ok(Self { client, after: after.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_parsed_from_its_text() {
        for cursor in [
            Cursor { client: 0, after: "a:b".to_owned() },
            Cursor { client: u64::MAX, after: "7".to_owned() },
            Cursor::default(),
        ] {
            assert_eq!(Cursor::from_option(Some(&cursor.to_string())), Ok(cursor));
        }
        assert_eq!(Cursor::from_option(None), Ok(Cursor::default()));
        for text in ["", "7", ":", "x:7", "-1:7"] {
            assert_eq!(
                Cursor::from_option(Some(text)),
                Err(ClientCallError::InvalidCursor),
                "{text}"
            );
        }
    }

    #[test]
    fn a_page_ends_by_tree_memory_and_by_searched_memory() {
        let nested: Vec<Value> = vec![json!([0]); 1000];
        let entry = || Map::from_iter([("a".to_owned(), nested.clone().into())]);
        let mut page = Page::new(None);
        let shown = page.take_fitting(std::iter::repeat_with(entry));
        assert!((2..10).contains(&shown.len()), "{}", shown.len());
        while !page.is_full() {
            page.add(entry());
        }
        assert!(page.bytes < MAX_BYTES / 10);
        let mut page = Page::new(None);
        page.count_searched(MAX_SEARCHED_BYTES - 1);
        assert!(!page.is_full());
        page.count_searched(1);
        assert!(page.is_full());
    }

    #[test]
    fn a_page_ends_by_number_or_by_size() {
        let entry = |bytes| Map::from_iter([("a".to_owned(), "x".repeat(bytes).into())]);
        let mut page = Page::new(NonZeroUsize::new(2));
        page.add(entry(1));
        assert!(!page.is_full());
        page.add(entry(1));
        assert!(page.is_full());
        let mut page = Page::new(None);
        page.add(entry(MAX_BYTES));
        assert!(page.is_full());
        assert_eq!(Page::new(NonZeroUsize::new(usize::MAX)).max_entries, MAX_ENTRIES);
    }
}
