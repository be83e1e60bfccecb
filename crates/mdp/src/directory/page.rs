//! How much of a listing one answer has, and where the next goes on. A listing is made as a tree and told as a text,
//! to whoever asks: neither may grow with what is registered.

use std::{fmt, num::NonZeroUsize, str::FromStr};

use serde_json::{Map, Value, json};

use crate::{CallError, wire::json_bytes};

/// Entries of an answer at most.
pub(super) const MOST: usize = 1000;
/// An answer ends with the entry with which it has as many bytes.
const BYTES: usize = 1 << 20;

/// One answer, as far as it is.
pub(super) struct Page {
    entries: Vec<Value>,
    most: usize,
    bytes: usize,
}

impl Page {
    pub(super) fn new(limit: Option<NonZeroUsize>) -> Self {
        let most = limit.map_or(MOST, |limit| limit.get().min(MOST));
        Self { entries: vec![], most, bytes: 0 }
    }

    pub(super) fn is_full(&self) -> bool {
        self.entries.len() >= self.most || self.bytes >= BYTES
    }

    pub(super) fn add(&mut self, entry: Map<String, Value>) {
        self.bytes += json_bytes(&entry);
        self.entries.push(Value::Object(entry));
    }

    /// The answer, and what to ask for the next with.
    pub(super) fn answer(self, name: &str, next: Option<Cursor>) -> Value {
        let mut answer = json!({ name: self.entries });
        if let Some(next) = next {
            answer["nextCursor"] = next.to_string().into();
        }
        answer
    }
}

/// Where a listing goes on: with the client of a number, after so much of it. The built-in client has number 0.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Cursor {
    pub(super) client: u64,
    /// How many paths of it; of the built-in client, the skill and how many of its paths.
    pub(super) after: String,
}

impl Cursor {
    /// What somebody gave.
    pub(super) fn read(given: Option<&str>) -> Result<Self, CallError> {
        given.map_or_else(|| Ok(Self::default()), str::parse)
    }

    /// With which skill of the built-in client, and after how many of its paths.
    pub(super) fn stored(&self) -> Result<(Option<&str>, usize), CallError> {
        if self.client != 0 || self.after.is_empty() {
            return Ok((None, 0));
        }
        let (id, listed) = self.after.rsplit_once('/').ok_or(CallError::Cursor)?;
        Ok((Some(id), listed.parse().map_err(|_| CallError::Cursor)?))
    }

    /// How many paths of a client have been listed.
    pub(super) fn listed_of(&self, client: u64) -> usize {
        match self.client == client {
            true => self.after.parse().unwrap_or(0),
            false => 0,
        }
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.client, self.after)
    }
}

impl FromStr for Cursor {
    type Err = CallError;

    fn from_str(text: &str) -> Result<Self, CallError> {
        let (client, after) = text.split_once(':').ok_or(CallError::Cursor)?;
        let client = client.parse().map_err(|_| CallError::Cursor)?;
        Ok(Self { client, after: after.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_was_written() {
        for cursor in [
            Cursor { client: 0, after: "a:b".to_owned() },
            Cursor { client: u64::MAX, after: "7".to_owned() },
            Cursor::default(),
        ] {
            assert_eq!(Cursor::read(Some(&cursor.to_string())), Ok(cursor));
        }
        assert_eq!(Cursor::read(None), Ok(Cursor::default()));
        for text in ["", "7", ":", "x:7", "-1:7"] {
            assert_eq!(Cursor::read(Some(text)), Err(CallError::Cursor), "{text}");
        }
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
        page.add(entry(BYTES));
        assert!(page.is_full());
        assert_eq!(Page::new(NonZeroUsize::new(usize::MAX)).most, MOST);
    }
}
