//! Opaque cursors: where a listing goes on.
//!
//! A cursor names the last row of the page before it, so it stays right while rows come and go: none is
//! given twice and none that stays is left out.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use rmcp::ErrorData;
use skills_core::limits::MAX_ID_BYTES;
use skills_registry::catalog::PAGE_BYTES;

use crate::error::invalid;

/// Which listing a cursor belongs to; one is of no use in another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Listing {
    Resources,
    Prompts,
    Tools,
    Skills,
}

impl Listing {
    const fn letter(self) -> u8 {
        match self {
            Self::Resources => b'r',
            Self::Prompts => b'p',
            Self::Tools => b't',
            Self::Skills => b's',
        }
    }
}

/// How long a decoded cursor can be: a tool's name is longer than an id, but not by much.
const MAX_BYTES: usize = 2 * MAX_ID_BYTES + 1;

pub(crate) fn write(listing: Listing, last: &str) -> String {
    let mut bytes = vec![listing.letter()];
    bytes.extend_from_slice(last.as_bytes());
    BASE64.encode(bytes)
}

fn unknown() -> ErrorData {
    invalid("unknown cursor: start again without one")
}

/// Refuses any cursor, for what is one page: nobody was given one.
pub(crate) fn none(cursor: Option<&str>) -> Result<(), ErrorData> {
    cursor.map_or(Ok(()), |_| Err(unknown()))
}

/// The row that a cursor says was the last; `None` without a cursor.
pub(crate) fn read(listing: Listing, cursor: Option<&str>) -> Result<Option<String>, ErrorData> {
    let Some(cursor) = cursor else { return Ok(None) };
    if cursor.len() > 2 * MAX_BYTES {
        return Err(unknown());
    }
    let bytes = BASE64.decode(cursor).map_err(|_| unknown())?;
    match bytes.split_first() {
        Some((letter, last)) if *letter == listing.letter() && last.len() < MAX_BYTES => {
            String::from_utf8(last.to_vec()).map(Some).map_err(|_| unknown())
        }
        _ => Err(unknown()),
    }
}

/// One page of rows, and the cursor of the next if there are more.
pub(crate) fn page<T>(
    listing: Listing,
    rows: impl Iterator<Item = T>,
    size: usize,
    key: impl Fn(&T) -> &str,
) -> (Vec<T>, Option<String>) {
    page_within(listing, rows, size, |_| 0, key)
}

/// The same of rows that may be large: so many bytes at most, unless one row alone has more.
pub(crate) fn page_within<T>(
    listing: Listing,
    rows: impl Iterator<Item = T>,
    size: usize,
    bytes_of: impl Fn(&T) -> usize,
    key: impl Fn(&T) -> &str,
) -> (Vec<T>, Option<String>) {
    let (mut taken, mut bytes) = (Vec::<T>::new(), 0);
    for row in rows {
        bytes += bytes_of(&row);
        if taken.len() == size || (bytes > PAGE_BYTES && !taken.is_empty()) {
            let next = taken.last().map(|last| write(listing, key(last)));
            return (taken, next);
        }
        taken.push(row);
    }
    (taken, None)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_cursor_of_another_listing_is_refused() {
        let cursor = write(Listing::Prompts, "a");
        assert_eq!(read(Listing::Prompts, Some(&cursor)).unwrap().as_deref(), Some("a"));
        assert!(read(Listing::Resources, Some(&cursor)).is_err());
        assert_eq!(read(Listing::Resources, None).unwrap(), None);
    }

    #[test]
    fn the_last_page_has_no_cursor() {
        let rows = ["a", "b", "c"];
        let pages = |size| page(Listing::Skills, rows.iter(), size, |row| row);
        assert_eq!(pages(3).1, None);
        assert_eq!(pages(2).1, Some(write(Listing::Skills, "b")));
        assert_eq!(page(Listing::Skills, std::iter::empty::<&str>(), 2, |row| row), (vec![], None));
    }

    #[test]
    fn a_page_is_bounded_in_bytes_and_never_empty() {
        let rows = [("a", PAGE_BYTES), ("b", PAGE_BYTES - 1), ("c", 1), ("d", 1)];
        let pages = |from: usize| {
            let bytes = |row: &&(&str, usize)| row.1;
            let (rows, next) =
                page_within(Listing::Tools, rows[from..].iter(), 9, bytes, |row| row.0);
            (rows.len(), next)
        };
        assert_eq!(pages(0), (1, Some(write(Listing::Tools, "a"))));
        assert_eq!(pages(1), (2, Some(write(Listing::Tools, "c"))));
        assert_eq!(pages(3), (1, None));
    }

    proptest! {
        #[test]
        fn never_panics(cursor in "\\PC{0,300}") {
            let _ = read(Listing::Resources, Some(&cursor));
        }

        #[test]
        fn reads_what_it_wrote(last in "[a-z0-9_-]{1,64}") {
            let cursor = write(Listing::Skills, &last);
            prop_assert_eq!(read(Listing::Skills, Some(&cursor)).unwrap(), Some(last));
        }
    }
}
