//! JSON pointers (RFC 6901) that are built during descent and formatted only for messages.

use std::{borrow::Cow, fmt};

/// Longest pointer in bytes; keys have any length.
const MAX_BYTES: usize = 512;

/// Location in a JSON document, linked to its parent on the stack.
#[derive(Clone, Copy)]
pub(crate) enum JsonPointer<'a> {
    /// Root of the document.
    Root,
    /// Field of an object.
    Key(&'a JsonPointer<'a>, &'a str),
    /// Item of a list.
    Index(&'a JsonPointer<'a>, usize),
}

impl<'a> JsonPointer<'a> {
    pub(crate) const fn key(&'a self, key: &'a str) -> Self {
        Self::Key(self, key)
    }

    pub(crate) const fn index(&'a self, index: usize) -> Self {
        Self::Index(self, index)
    }
}

impl fmt::Display for JsonPointer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut steps: Vec<Cow<'_, str>> = Vec::new();
        let mut here = self;
        loop {
            here = match here {
                JsonPointer::Root => break,
                JsonPointer::Key(parent, key) => {
                    steps.push((*key).into());
                    parent
                }
                JsonPointer::Index(parent, index) => {
                    steps.push(index.to_string().into());
                    parent
                }
            };
        }
        let mut left = MAX_BYTES;
        for step in steps.iter().rev() {
            let shown = &step[..step.floor_char_boundary(left)];
            write!(f, "/{}", shown.replace('~', "~0").replace('/', "~1"))?;
            if shown.len() < step.len() {
                return f.write_str("…");
            }
            left -= shown.len();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_are_escaped_as_in_rfc_6901() {
        let properties = JsonPointer::Root.key("a/b~c");
        assert_eq!(properties.index(3).key("").to_string(), "/a~1b~0c/3/");
        assert_eq!(JsonPointer::Root.to_string(), "");
    }

    #[test]
    fn long_keys_are_cut_between_characters() {
        let key = "é".repeat(1000);
        let at = JsonPointer::Root.key("a").key(&key).to_string();
        assert!(at.len() < 530 && at.starts_with("/a/éé") && at.ends_with("é…"), "{at}");
    }
}
