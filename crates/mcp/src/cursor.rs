//! Pagination with opaque cursors.
//!
//! A cursor names the last row of the page before it, so it stays valid while rows are added and removed: no row is
//! repeated, and no row that stays is skipped.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use rmcp::ErrorData;
use skills_core::limits::MAX_ID_BYTES;
use skills_registry::catalog::PAGE_BYTES;

use crate::error::invalid;

/// Listing that a cursor belongs to; a cursor is invalid in any other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Listing {
    Resources,
    Prompts,
    Tools,
    Skills,
}

impl Listing {
    const fn tag(self) -> u8 {
        match self {
            Self::Resources => b'r',
            Self::Prompts => b'p',
            Self::Tools => b't',
            Self::Skills => b's',
        }
    }
}

/// Longest decoded cursor: the name of a tool is a little longer than an id.
const MAX_BYTES: usize = 2 * MAX_ID_BYTES + 1;

pub(crate) fn encode(listing: Listing, last: &str) -> String {
    let mut bytes = vec![listing.tag()];
    bytes.extend_from_slice(last.as_bytes());
    BASE64.encode(bytes)
}

fn unknown() -> ErrorData {
    invalid("unknown cursor: start again without one")
}

/// Rejects any cursor, for listings that have one page.
pub(crate) fn reject(cursor: Option<&str>) -> Result<(), ErrorData> {
    cursor.map_or(Ok(()), |_| Err(unknown()))
}

/// Decodes the key of the last row of the page before; `None` without a cursor.
pub(crate) fn decode(listing: Listing, cursor: Option<&str>) -> Result<Option<String>, ErrorData> {
    let Some(cursor) = cursor else { return Ok(None) };
    if cursor.len() > 2 * MAX_BYTES {
        return Err(unknown());
    }
    let bytes = BASE64.decode(cursor).map_err(|_| unknown())?;
    match bytes.split_first() {
        Some((tag, last)) if *tag == listing.tag() && last.len() < MAX_BYTES => {
            String::from_utf8(last.to_vec()).map(Some).map_err(|_| unknown())
        }
        _ => Err(unknown()),
    }
}

/// Returns one page of rows, and the cursor of the next page if there is one.
pub(crate) fn page<T>(
    listing: Listing,
    rows: impl Iterator<Item = T>,
    size: usize,
    key: impl Fn(&T) -> &str,
) -> (Vec<T>, Option<String>) {
    page_by_bytes(listing, rows, size, |_| 0, key)
}

/// Returns one page of rows that may be large: at most [`PAGE_BYTES`], unless one row alone is larger.
pub(crate) fn page_by_bytes<T>(
    listing: Listing,
    rows: impl Iterator<Item = T>,
    size: usize,
    row_bytes: impl Fn(&T) -> usize,
    key: impl Fn(&T) -> &str,
) -> (Vec<T>, Option<String>) {
    let (mut page, mut bytes) = (Vec::<T>::new(), 0);
    for row in rows {
        bytes += row_bytes(&row);
        if page.len() == size || (bytes > PAGE_BYTES && !page.is_empty()) {
            let next = page.last().map(|last| encode(listing, key(last)));
            return (page, next);
        }
        page.push(row);
    }
    (page, None)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_cursor_of_another_listing_is_rejected() {
        let cursor = encode(Listing::Prompts, "a");
        assert_eq!(decode(Listing::Prompts, Some(&cursor)).unwrap().as_deref(), Some("a"));
        assert!(decode(Listing::Resources, Some(&cursor)).is_err());
        assert_eq!(decode(Listing::Resources, None).unwrap(), None);
    }

    #[test]
    fn the_last_page_has_no_cursor() {
        let rows = ["a", "b", "c"];
        let pages = |size| page(Listing::Skills, rows.iter(), size, |row| row);
        assert_eq!(pages(3).1, None);
        assert_eq!(pages(2).1, Some(encode(Listing::Skills, "b")));
        assert_eq!(page(Listing::Skills, std::iter::empty::<&str>(), 2, |row| row), (vec![], None));
    }

    #[test]
    fn a_page_is_bounded_in_bytes_and_never_empty() {
        let rows = [("a", PAGE_BYTES), ("b", PAGE_BYTES - 1), ("c", 1), ("d", 1)];
        let pages = |from: usize| {
            let bytes = |row: &&(&str, usize)| row.1;
            let (rows, next) =
                page_by_bytes(Listing::Tools, rows[from..].iter(), 9, bytes, |row| row.0);
            (rows.len(), next)
        };
        assert_eq!(pages(0), (1, Some(encode(Listing::Tools, "a"))));
        assert_eq!(pages(1), (2, Some(encode(Listing::Tools, "c"))));
        assert_eq!(pages(3), (1, None));
    }

    proptest! {
        #[test]
        fn decoding_never_panics(cursor in "\\PC{0,300}") {
            let _ = decode(Listing::Resources, Some(&cursor));
        }

        #[test]
        fn an_encoded_cursor_is_decoded_again(last in "[a-z0-9_-]{1,64}") {
            let cursor = encode(Listing::Skills, &last);
            prop_assert_eq!(decode(Listing::Skills, Some(&cursor)).unwrap(), Some(last));
        }
    }
}
